//! When the hot loop takes evidence, and for which stretch of time.
//!
//! For the hot thread: nothing here allocates or waits. Time is an argument.

use crate::channels::{Evidence, EvidenceSource};
use crate::time::{Instant, Span};

/// The source of the evidence, and the start of the stretch it covers.
pub(super) struct Witness {
    source: Box<dyn EvidenceSource>,
    each_tick: bool,
    since: Instant, // the mark, or the end of the sleep after it
    slept: bool,    // since the mark
}

impl Witness {
    /// Takes evidence of anything missed from `now` on, or of each tick.
    pub(super) fn new(source: Box<dyn EvidenceSource>, each_tick: bool, now: Instant) -> Self {
        Self { source, each_tick, since: now, slept: false }
    }

    /// Discards what happened so far: it says nothing about the ticks. The thread must then call [`woke`](Self::woke).
    pub(super) fn start_over(&mut self) {
        let _ = self.source.take(Span::ZERO, true, false);
    }

    /// The thread goes to sleep at `now`.
    pub(super) fn goes_to_sleep(&mut self, now: Instant) {
        self.source.mark(now - self.since, self.slept);
        (self.since, self.slept) = (now, true);
    }

    /// The thread's sleep ended at `now`.
    pub(super) fn woke(&mut self, now: Instant) {
        self.since = now;
    }

    /// The clock was stepped.
    pub(super) fn step(&mut self, by: Span) {
        self.since = self.since + by;
    }

    /// Takes evidence at `now`, if something was `missed` or every tick takes it. Makes system calls, which take time.
    pub(super) fn take(&mut self, now: Instant, missed: bool) -> Option<Evidence> {
        (missed || self.each_tick).then(|| {
            let awake = now - std::mem::replace(&mut self.since, now);
            self.source.take(awake, std::mem::take(&mut self.slept), missed)
        })
    }
}
