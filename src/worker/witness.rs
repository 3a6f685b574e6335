//! When the hot loop takes evidence, and of how long.
//!
//! For the hot thread: nothing here allocates or waits. Time is an argument.

use crate::channels::{Evidence, EvidenceSource};
use crate::time::{Instant, Span};

/// Where the evidence comes from, and since when it counts.
pub(super) struct Witness {
    source: Box<dyn EvidenceSource>,
    each_tick: bool,
    since: Instant, // the mark, or the end of the sleep after it
    slept: bool,    // since the mark
}

impl Witness {
    /// Takes evidence of what is missed from `now` on, or of each tick.
    pub(super) fn new(source: Box<dyn EvidenceSource>, each_tick: bool, now: Instant) -> Self {
        Self { source, each_tick, since: now, slept: false }
    }

    /// What was done until now is no evidence of what happens to ticks. The thread then says when it [`woke`](Self::woke).
    pub(super) fn start_over(&mut self) {
        let _ = self.source.take(Span::ZERO, true, false);
    }

    /// The thread goes to sleep at `now`.
    pub(super) fn goes_to_sleep(&mut self, now: Instant) {
        self.source.mark(now - self.since, self.slept);
        (self.since, self.slept) = (now, true);
    }

    /// Its sleep ended at `now`.
    pub(super) fn woke(&mut self, now: Instant) {
        self.since = now;
    }

    /// The clock was stepped.
    pub(super) fn step(&mut self, by: Span) {
        self.since = self.since + by;
    }

    /// Takes evidence at `now`, if something was `missed` or it is taken of each tick. System calls, which take their time.
    pub(super) fn take(&mut self, now: Instant, missed: bool) -> Option<Evidence> {
        (missed || self.each_tick).then(|| {
            let awake = now - std::mem::replace(&mut self.since, now);
            self.source.take(awake, std::mem::take(&mut self.slept), missed)
        })
    }
}
