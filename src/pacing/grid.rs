//! The grid of one task: the exact instant of each release, and the next release at or after a given instant.
//!
//! The grid never accumulates error. An instant is computed from the tick's index, or from the previous tick with an exact remainder
//! ([`Step`]). Time is an argument; nothing blocks or allocates.

use super::rate::{Position, Rate, Step};
use crate::time::{Instant, Span};

/// The instants of a task's releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    rate: Rate,
    step: Step, // one period of `rate`
    origin: Instant,
    shift: i128, // added to a tick's index, gives its position on the grid from `origin`
}

impl Grid {
    /// `r(n) = origin + floor(n·den·10⁹/num)`.
    pub fn starting_at(origin: Instant, rate: Rate) -> Self {
        Self { rate, step: rate.step(), origin, shift: 0 }
    }

    /// The grid through `zero`, with tick 0 at its first release at or after `start`. It is the same on every machine whose clock shows the
    /// same time.
    pub(crate) fn aligned(zero: Instant, start: Instant, rate: Rate) -> Self {
        Self::starting_at(zero, rate).entered(0, start)
    }

    /// The release of tick `n`.
    pub fn release(&self, n: u64) -> Instant {
        self.at(n).release(self)
    }

    /// The position of tick `n`.
    pub(super) fn at(&self, n: u64) -> OnGrid {
        let position = clamped(self.shift + i128::from(n));
        OnGrid { position, offset: self.rate.position(position) }
    }

    /// The position of the tick after `at`. Needs no division except where the numbers saturate.
    pub(super) fn after(&self, at: OnGrid) -> OnGrid {
        let position = at.position.saturating_add(1);
        let offset = self.step.after(at.offset).filter(|_| position > at.position);
        OnGrid { position, offset: offset.unwrap_or_else(|| self.rate.position(position)) }
    }

    /// The first tick released at `at` or later.
    pub(crate) fn first_from(&self, at: Instant) -> u64 {
        clamped(self.position_from(at) - self.shift)
    }

    /// The same grid, renumbered so that tick `n` is its first release at or after `start`.
    pub(super) fn entered(self, n: u64, start: Instant) -> Self {
        Self { shift: self.position_from(start) - i128::from(n), ..self }
    }

    /// One period, rounded up to a whole nanosecond.
    pub(super) fn period(&self) -> Span {
        self.step.period()
    }

    fn position_from(&self, at: Instant) -> i128 {
        self.rate.ticks_before(at.nanos().saturating_sub(self.origin.nanos())).into()
    }
}

/// A release of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnGrid {
    position: u64, // from the grid's origin
    offset: Position,
}

impl OnGrid {
    pub(super) const fn release(&self, grid: &Grid) -> Instant {
        grid.origin.plus_nanos(self.offset.nanos)
    }
}

fn clamped(position: i128) -> u64 {
    u64::try_from(position.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn aligned_grids_agree_whenever_they_start() {
        let rate = Rate::new(30_000, 1_001).unwrap();
        let early = Grid::aligned(at(250), at(1_000), rate);
        let late = Grid::aligned(at(250), at(77_000), rate);
        assert!(early.release(0) >= at(1_000) && early.release(0) < at(1_034));
        let shift = early.first_from(late.release(0));
        assert_eq!(early.release(shift + 1_000), late.release(1_000));
    }
}
