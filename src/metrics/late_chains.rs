//! Ticks of one task that used a measurement older than `max-latency`: how many there were, whose measurements those were, and how many
//! there were lately.
//!
//! Counts. Time is an argument, on a clock that goes on; nothing waits.

use super::window::{LONG, SHORT, Tally, Windows};
use crate::time::Instant;
use std::collections::BTreeMap;

/// Those of a task that has a `max-latency`.
#[derive(Clone, Debug, Default)]
pub(super) struct LateChains {
    pub(super) counts: LateCounts,
    windows: Windows,
}

/// How many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateCounts {
    pub(crate) all: u64,
    /// By the task whose measurement was the oldest, where that is known.
    pub(crate) by: BTreeMap<String, u64>,
}

impl LateChains {
    /// One more, by a measurement of this task; `None`: it has ended.
    pub(super) fn add(&mut self, name: Option<&str>) {
        self.counts.all += 1;
        if let Some(name) = name {
            match self.counts.by.get_mut(name) {
                Some(count) => *count += 1,
                None => _ = self.counts.by.insert(name.to_owned(), 1),
            }
        }
    }

    /// Enters them into its windows; at least once a second.
    pub(super) fn sample(&mut self, now: Instant) {
        self.windows.enter(now, Tally { missed: self.counts.all, ..Tally::default() });
    }

    /// How many there were in the last seconds, and in the last minute.
    pub(super) fn lately(&mut self, now: Instant) -> [u64; 2] {
        self.sample(now);
        [SHORT, LONG].map(|seconds| self.windows.over(seconds, now).tally.missed)
    }
}
