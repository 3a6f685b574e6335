//! One task on a worker: the task with its limits. Plain values.

use super::flow::Flow;
use crate::channels::{LiveCounts, RowSender};
use crate::config::{LimitAction, OnError};
use crate::pacing::LeakyBucket;
use crate::task::Task;
use crate::time::Span;
use std::sync::Arc;

/// A task on a worker.
#[repr(C, align(64))] // what every tick touches comes first: one line of the processor's caches, and another one for values
pub struct Slot {
    /// Its number; no two tasks of a process have the same.
    pub id: u32,
    /// What follows an error.
    pub on_error: OnError,
    /// What follows a panic.
    pub on_panic: OnError,
    /// The task.
    pub task: Box<dyn Task>,
    /// Its counts, for those who look while it runs.
    pub live: Arc<LiveCounts>,
    /// Latest allowed finish, relative to the release.
    pub deadline: Span,
    /// One period, rounded up.
    pub period: Span,
    /// Longest allowed run, if there is one.
    pub budget: Option<Span>,
    /// One for each of the task's columns.
    pub values: Box<[f64]>,
    /// Where rows of values go; `None`: nowhere.
    pub rows: Option<RowSender>,
    /// The values that it takes from other tasks and gives to them; `None`: neither.
    pub flow: Option<Box<Flow>>,
    /// How many overruns are too many, and what follows them.
    pub limit: Option<(LeakyBucket, LimitAction)>,
    /// Where the code of its tick is; zero: not known.
    pub code: usize,
}

const _: () = assert!(std::mem::offset_of!(Slot, limit) <= 2 * 64, "what every tick touches is two lines");

impl Slot {
    /// Takes and gives by `flow` from now on. Returns what it did before, of which that continues: to be dropped elsewhere.
    pub(super) fn link(&mut self, mut flow: Box<Flow>) -> Option<Box<Flow>> {
        if let Some(old) = &mut self.flow {
            flow.adopt(old);
        }
        self.flow.replace(flow)
    }

    /// A task without limits, values and recording. It continues after an error, but not after a panic.
    pub fn of(id: u32, task: Box<dyn Task>, deadline: Span, period: Span) -> Self {
        Self {
            id,
            task,
            deadline,
            budget: None,
            period,
            on_error: OnError::Continue,
            on_panic: OnError::Disable,
            limit: None,
            values: Box::default(),
            rows: None,
            flow: None,
            live: Arc::default(),
            code: 0,
        }
    }
}
