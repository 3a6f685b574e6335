//! One task on a worker: the task with its limits, and its counts.

use crate::channels::RowSender;
use crate::config::{LimitAction, OnError};
use crate::pacing::LeakyBucket;
use crate::task::Task;
use crate::time::Span;

/// A task on a worker.
pub struct Slot {
    /// Its number; no two tasks of a process have the same.
    pub id: u32,
    /// The task.
    pub task: Box<dyn Task>,
    /// Latest allowed finish, relative to the release.
    pub deadline: Span,
    /// Longest allowed run, if there is one.
    pub budget: Option<Span>,
    /// One period, rounded up.
    pub period: Span,
    /// What follows an error.
    pub on_error: OnError,
    /// What follows a panic.
    pub on_panic: OnError,
    /// How many overruns are too many, and what follows them.
    pub limit: Option<(LeakyBucket, LimitAction)>,
    /// One for each of the task's columns.
    pub values: Vec<f64>,
    /// Where rows of values go; `None`: nowhere.
    pub rows: Option<RowSender>,
}

/// What was counted of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ticks run.
    pub ran: u64,
    /// Releases given up.
    pub skipped: u64,
    /// Ticks whose response exceeded the deadline.
    pub overruns: u64,
    /// Ticks whose run exceeded the budget.
    pub over_budget: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The task was ended before the run was.
    pub disabled: bool,
}
