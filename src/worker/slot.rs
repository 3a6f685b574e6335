//! One task on a worker, with its limits. Plain values.

use super::flow::Flow;
use crate::channels::{LiveCounts, RowSender};
use crate::config::{LimitAction, OnError};
use crate::pacing::LeakyBucket;
use crate::task::Task;
use crate::time::Span;
use std::sync::Arc;

/// A task on a worker.
#[repr(C, align(64))] // fields that every tick touches come first: one cache line, and a second one for values
pub struct Slot {
    /// The task's number, unique in the process.
    pub id: u32,
    /// What happens after an error.
    pub on_error: OnError,
    /// What happens after a panic.
    pub on_panic: OnError,
    /// The task.
    pub task: Box<dyn Task>,
    /// Its published counts, for readers on other threads.
    pub live: Arc<LiveCounts>,
    /// Latest allowed finish, relative to the release.
    pub deadline: Span,
    /// One period, rounded up.
    pub period: Span,
    /// Longest allowed run; `None` if there is no limit.
    pub budget: Option<Span>,
    /// One value per column of the task.
    pub values: Box<[f64]>,
    /// Destination of its rows of values; `None` if nothing reads them.
    pub rows: Option<RowSender>,
    /// The values that it exchanges with other tasks; `None` if it exchanges none.
    pub flow: Option<Box<Flow>>,
    /// How many overruns are too many, and what happens then.
    pub limit: Option<(LeakyBucket, LimitAction)>,
    /// Address of its tick's code; zero if unknown.
    pub code: usize,
}

const _: () = assert!(std::mem::offset_of!(Slot, limit) <= 2 * 64, "what every tick touches is two lines");

impl Slot {
    /// Switches to the links in `flow`, which continues the old ones. Returns the old links, to be dropped on another thread.
    pub(super) fn link(&mut self, mut flow: Box<Flow>) -> Option<Box<Flow>> {
        if let Some(old) = &mut self.flow {
            flow.adopt(old);
        }
        self.flow.replace(flow)
    }

    /// A task without limits, values or recording. It continues after an error, but not after a panic.
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
