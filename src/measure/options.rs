//! What to measure, and how to divide the time. Pure.

use crate::pacing::Rate;
use crate::time::Span;

/// Minimum number of rounds, and maximum length of a round.
const ROUNDS: i64 = 5;
const LONGEST_ROUND: Span = Span::from_seconds(60);

/// Shares of the total time, in percent. `TICKS` is spent twice, without and with a tail. `RATES` is spent once, after all rounds.
pub(super) const SLEEPS: i64 = 35;
pub(super) const TICKS: i64 = 20;
pub(super) const HOLES: i64 = 10;
pub(super) const RATES: i64 = 15;

/// With fewer periods than this, a part of a round shows nothing.
const FEWEST_PERIODS: i64 = 5;

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Approximate total duration.
    pub(crate) length: Span,
    /// The CPUs; at least one.
    pub(crate) cpus: Vec<usize>,
    /// Sleeps and ticks per second.
    pub(crate) rate: Rate,
    /// The FIFO priority to ask for; in 1..=99.
    pub(crate) priority: u8,
    /// Measure under load as well.
    pub(crate) load: bool,
}

impl Options {
    pub(super) fn rounds(&self) -> i64 {
        ROUNDS.max(self.length.nanos() / LONGEST_ROUND.nanos())
    }

    pub(super) fn conditions(&self) -> &'static [bool] {
        if self.load { &[false, true] } else { &[false] }
    }

    /// The time, in each round and condition, for an activity that gets this many hundredths of the total.
    pub(super) fn part(&self, hundredths: i64) -> Span {
        let times = self.rounds() * if self.load { 2 } else { 1 };
        Span::from_nanos(self.length.nanos() / 100 * hundredths / times)
    }

    /// The shortest useful duration at this rate.
    pub(crate) fn least(&self) -> Span {
        let times = ROUNDS * if self.load { 2 } else { 1 };
        Span::from_nanos(self.rate.period().nanos() * FEWEST_PERIODS * times * 100 / TICKS)
    }
}
