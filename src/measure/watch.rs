//! The non-real-time side of a measurement: shows progress, and notices when to stop.

use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Span};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it checks.
const LOOK_EVERY: Span = Span::from_millis(10);

/// How much longer than planned a part of the measurement may take.
const PATIENCE: Span = Span::from_seconds(10);

/// Receives the progress, and can stop the measurement.
pub(crate) struct Watch<'a> {
    /// Set from outside to stop early.
    pub(crate) stop: Arc<AtomicBool>,
    /// Called several times a second with what is being measured.
    pub(crate) progress: &'a mut dyn FnMut(&str),
}

impl Watch<'_> {
    pub(super) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until `has_ended` returns true; it is called repeatedly.
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
