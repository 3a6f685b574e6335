//! The cool side of a measurement: shows how far it is, and sees that it is to end.

use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Span};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it looks.
const LOOK_EVERY: Span = Span::from_millis(10);

/// How much longer than it should take a part of the measurement may take.
const PATIENCE: Span = Span::from_seconds(10);

/// Who wants to know, and who may end it.
pub(crate) struct Watch<'a> {
    /// Raised from outside: end early.
    pub(crate) stop: Arc<AtomicBool>,
    /// Called several times a second with what is measured now.
    pub(crate) progress: &'a mut dyn FnMut(&str),
}

impl Watch<'_> {
    pub(super) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until `has_ended`, which is asked again and again.
    ///
    /// # Errors
    /// It has not ended long after it should have, `length` from now.
    pub(super) fn wait(&mut self, what: &str, length: Span, mut has_ended: impl FnMut() -> bool) -> io::Result<()> {
        let clock = KernelClock::monotonic();
        let until = clock.now() + length + PATIENCE;
        while !has_ended() {
            (self.progress)(what);
            if clock.now() > until {
                return Err(late(what));
            }
            pause(LOOK_EVERY);
        }
        Ok(())
    }
}

fn late(what: &str) -> io::Error {
    let text = format!(
        "{what}: its thread got no processor time for {PATIENCE}; another program keeps that CPU to itself at a higher priority"
    );
    io::Error::other(text)
}
