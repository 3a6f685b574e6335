//! The events of a running task. Plain values; no clock is read.

use super::missed::Missed;
use crate::task::TickError;
use crate::time::Span;

/// An event of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// Name of its worker.
    pub worker: &'a str,
    /// What the task's values are called.
    pub columns: &'a [String],
    /// What happened.
    pub kind: EventKind,
}

/// Ticks that had used measurements older than `max-latency` by the time they finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LateChain {
    /// How many ticks this event covers.
    pub count: u64,
    /// Index of the tick with the oldest measurement.
    pub n: u64,
    /// The age of that measurement.
    pub age: Span,
    /// The maximum age allowed.
    pub max_latency: Span,
    /// The task that made the measurement; `None` if it has ended.
    pub by: Option<String>,
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Ticks finished after their deadline, or releases were given up.
    Missed(Missed),
    /// Ticks ran longer than the budget.
    OverBudget {
        /// How many ticks this event covers.
        count: u64,
        /// Index of the tick with the longest run.
        n: u64,
        /// That tick's run.
        run: Span,
    },
    /// Ticks used measurements that were older than `max-latency`.
    LateChain(LateChain),
    /// Too many overruns: the overrun limit was reached.
    OverLimit {
        /// How often the limit was reached.
        count: u64,
        /// Index of the tick that reached the limit.
        n: u64,
        /// Reaching the limit ended the task.
        ended: bool,
    },
    /// Ticks returned an error.
    Failed {
        /// How many ticks this event covers.
        count: u64,
        /// Index of the most recent of them.
        n: u64,
        /// That tick's error.
        error: TickError,
    },
    /// A tick returned an error, and `on-error` ended the task.
    Ended {
        /// Index of the tick.
        n: u64,
        /// Its error.
        error: TickError,
    },
}
