//! What became of releases, and why some were missed. Plain numbers.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The number of missed releases by the word for their cause. Words of another version are kept as they are.
pub(crate) type Causes = BTreeMap<Cow<'static, str>, u64>;

/// What became of releases. `ran + skipped = due`, and `met + missed + pending = due`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Releases that came up.
    pub due: u64,
    /// Ticks that finished by their deadline.
    pub met: u64,
    /// Releases given up, and ticks that finished after their deadline: `skipped + overruns`.
    pub missed: u64,
    /// Due, but neither finished nor past the deadline; 0 when the run has ended. `None` if only finished tasks are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// Ticks run.
    pub ran: u64,
    /// Releases given up.
    pub skipped: u64,
    /// Ticks whose response exceeded the deadline.
    pub overruns: u64,
}

impl Counts {
    /// The counts of a task that no longer ticks: nothing is pending.
    pub(crate) fn of(ran: u64, skipped: u64, overruns: u64) -> Self {
        let mut counts = Self { pending: Some(0), ..Self::default() };
        counts.enter(ran, skipped, overruns);
        counts
    }

    /// Adds ticks that ran, the overruns among them, and releases that were given up. Sums saturate, since a damaged recording may contain
    /// any number.
    pub(crate) fn enter(&mut self, ran: u64, skipped: u64, overruns: u64) {
        let add = |count: &mut u64, more| *count = count.saturating_add(more);
        add(&mut self.due, ran.saturating_add(skipped));
        add(&mut self.met, ran.saturating_sub(overruns));
        add(&mut self.missed, skipped.saturating_add(overruns));
        add(&mut self.ran, ran);
        add(&mut self.skipped, skipped);
        add(&mut self.overruns, overruns);
    }

    /// How many of the due releases were missed.
    pub(crate) const fn share(&self) -> Share {
        Share { due: self.due, missed: self.missed }
    }
}

/// The number of releases, and how many were missed, where no more is known or wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Releases that came up.
    pub due: u64,
    /// Releases given up, and ticks that finished after their deadline.
    pub missed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_adds_up() {
        let mut counts = Counts::of(7, 3, 2);
        counts.enter(2, 0, 1);
        let expected = Counts { due: 12, met: 6, missed: 6, pending: Some(0), ran: 9, skipped: 3, overruns: 3 };
        assert_eq!(counts, expected);
        counts.enter(1, u64::MAX, u64::MAX);
        assert_eq!([counts.due, counts.missed, counts.met, counts.ran], [u64::MAX, u64::MAX, 6, 10]);
    }
}
