//! The clock that releases lie on: the monotonic clock plus an offset that changes only between two ticks.
//!
//! The kernel steers CLOCK_TAI and CLOCK_REALTIME as it steers CLOCK_MONOTONIC; they differ by an offset that is constant but
//! for steps. So the worker reads, sleeps and spins on the monotonic clock alone, and a step can neither prolong a spin tail
//! or a sleep nor falsify a duration. A cool thread measures the offset and hands it over in
//! [`Control`](super::Control). Nothing here allocates.

use crate::time::{Clock, Instant, Span, Wake};

/// A monotonic clock, shifted. It is stepped only by [`adopt`](Self::adopt).
#[derive(Debug)]
pub(super) struct ReleaseClock<C> {
    monotonic: C,
    offset: Span,
}

impl<C: Clock> ReleaseClock<C> {
    pub(super) const fn new(monotonic: C, offset: Span) -> Self {
        Self { monotonic, offset }
    }

    /// What the monotonic clock showed at `at`.
    pub(super) fn monotonic(&self, at: Instant) -> Instant {
        at - self.offset
    }

    /// Uses another offset from now on. Returns by how much that steps the clock; `None`: not at all.
    pub(super) fn adopt(&mut self, offset: Span) -> Option<Span> {
        let by = offset - std::mem::replace(&mut self.offset, offset);
        (by != Span::ZERO).then_some(by)
    }
}

impl<C: Clock> Clock for ReleaseClock<C> {
    fn now(&self) -> Instant {
        self.monotonic.now() + self.offset
    }

    fn sleep_until(&self, at: Instant) -> Wake {
        self.monotonic.sleep_until(at - self.offset)
    }

    fn spin_until(&self, at: Instant) -> Instant {
        self.monotonic.spin_until(at - self.offset) + self.offset
    }
}
