//! Ticks of one task that used a measurement older than `max-latency`: the total, the number per measuring task, and recent numbers.
//!
//! Counts. Time is an argument, on a monotonic clock; nothing waits.

use super::window::{LONG, SHORT, Tally, Windows};
use crate::snapshot::LatencySummary;
use crate::time::{Instant, Span};

/// The late chains of a task that has a `max-latency`.
#[derive(Clone, Debug)]
pub(super) struct LateChains {
    pub(super) counts: LatencySummary,
    windows: Windows,
}

impl LateChains {
    /// Creates the counts for this limit; none so far.
    pub(super) fn beyond(max_latency: Span) -> Self {
        let counts = LatencySummary { max_latency_ns: max_latency.nanos(), ..LatencySummary::default() };
        Self { counts, windows: Windows::default() }
    }

    /// Counts one more, by a measurement of this task; `None`: that task has ended.
    pub(super) fn add(&mut self, name: Option<&str>) {
        self.counts.late_chains += 1;
        if let Some(name) = name {
            match self.counts.late_chains_by.get_mut(name) {
                Some(count) => *count += 1,
                None => _ = self.counts.late_chains_by.insert(name.to_owned(), 1),
            }
        }
    }

    /// Enters the total into the windows. Must be called at least once a second.
    pub(super) fn sample(&mut self, now: Instant) {
        self.windows.enter(now, Tally { missed: self.counts.late_chains, ..Tally::default() });
    }

    /// How many there were in the last ten seconds, and in the last minute.
    pub(super) fn lately(&mut self, now: Instant) -> [u64; 2] {
        self.sample(now);
        [SHORT, LONG].map(|seconds| self.windows.over(seconds, now).missed)
    }
}
