//! The clock on which releases lie: the monotonic clock plus an offset that changes only between two ticks.
//!
//! The kernel steers CLOCK_TAI and CLOCK_REALTIME as it steers CLOCK_MONOTONIC, so their offset is constant except for steps. The worker
//! therefore reads, sleeps and spins on the monotonic clock alone. A step can neither prolong a spin tail or a sleep nor falsify a
//! duration. A cool thread measures the offset and passes it in through [`Control`](super::Control). Nothing here allocates.

use crate::time::{Clock, Instant, Span, Wake};

/// A shifted monotonic clock. Only [`adopt`](Self::adopt) steps it.
#[derive(Debug)]
pub(super) struct ReleaseClock<C> {
    monotonic: C,
    offset: Span,
}

impl<C: Clock> ReleaseClock<C> {
    pub(super) const fn new(monotonic: C, offset: Span) -> Self {
        Self { monotonic, offset }
    }

    /// The monotonic reading that corresponds to `at`.
    pub(super) fn monotonic(&self, at: Instant) -> Instant {
        at - self.offset
    }

    /// Switches to another offset. Returns the resulting step of the clock; `None` if the offset is unchanged.
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
