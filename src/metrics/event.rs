//! The events of a running task. Plain values: no clock is read.

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
    /// What happened.
    pub kind: EventKind,
}

/// Ticks that used measurements older than `max-latency`, when they had finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LateChain {
    /// How many ticks this stands for.
    pub count: u64,
    /// Index of the one whose measurement was the oldest.
    pub n: u64,
    /// How old it was.
    pub age: Span,
    /// How old it may be.
    pub max_latency: Span,
    /// The task whose measurement it was; `None`: it has ended.
    pub by: Option<String>,
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Ticks finished after their deadline, or releases were given up.
    Missed(Missed),
    /// Ticks ran longer than the budget.
    OverBudget {
        /// How many ticks this stands for.
        count: u64,
        /// Index of the one that ran longest.
        n: u64,
        /// Its run.
        run: Span,
    },
    /// Ticks used measurements that were older than `max-latency`.
    LateChain(LateChain),
    /// Overruns were repeated until the limit was reached.
    OverLimit {
        /// How often it was reached.
        count: u64,
        /// Index of the tick that reached it.
        n: u64,
        /// The task was ended by it.
        ended: bool,
    },
    /// Ticks returned an error.
    Failed {
        /// How many ticks this stands for.
        count: u64,
        /// Index of the latest.
        n: u64,
        /// Its error.
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
