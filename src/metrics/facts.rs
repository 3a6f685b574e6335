//! What the metrics have to know of a task before its first record. Plain values.

use crate::channels::LiveCounts;
use crate::pacing::Rate;
use crate::time::Span;
use std::sync::Arc;

/// What the metrics know of a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskFacts {
    pub name: String,
    pub worker: usize,
    pub period: Span,     // one period, rounded up
    pub deadline: Span,   // latest allowed finish, relative to the release
    pub grid_moves: bool, // `delay`: a late tick has put off releases that do not count as skipped
    pub kept: Span, // how old a release may get while the task waits, before it gives it up for certain; `MAX`: any age
    pub rate: Rate,
    pub max_missed: f64,       // share of releases that may be missed, or of ticks that may fail
    pub max_latency: Span,     // how old what its ticks use may be; `MAX`: there is no limit
    pub live: Arc<LiveCounts>, // shown by its worker
}

#[cfg(test)]
impl TaskFacts {
    /// A task at this rate, whose deadline is its period.
    pub(crate) fn at(rate: Rate) -> Self {
        let (period, live) = (rate.period(), Arc::default());
        let (name, deadline, max_latency) = ("a".into(), period, Span::MAX);
        Self {
            name,
            worker: 0,
            period,
            deadline,
            grid_moves: false,
            kept: period,
            rate,
            max_missed: 0.01,
            max_latency,
            live,
        }
    }
}
