//! The events of a running task. Plain values: no clock, no allocation.

use super::Cause;
use crate::task::TickError;
use crate::time::Span;

/// An event of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// Name of its worker.
    pub worker: &'a str,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Ticks finished after their deadline.
    Overrun {
        /// How many ticks this stands for.
        count: u64,
        /// Releases they gave up.
        skipped: u64,
        /// Index of the one with the longest response.
        n: u64,
        /// Its lateness.
        lateness: Span,
        /// Its run.
        run: Span,
        /// Its cause.
        cause: Cause,
    },
    /// Releases were given up that no overrun accounts for: the worker was held up, or the task is disabled.
    Skipped {
        /// How many releases this stands for.
        skipped: u64,
        /// How late the oldest of them was; `None`: the task is disabled.
        oldest: Option<Span>,
    },
    /// Ticks ran longer than the budget.
    OverBudget {
        /// How many ticks this stands for.
        count: u64,
        /// Index of the one that ran longest.
        n: u64,
        /// Its run.
        run: Span,
    },
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
