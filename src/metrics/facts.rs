//! What the metrics need to know about a task before its first record. Plain values.

use crate::channels::LiveCounts;
use crate::pacing::Rate;
use crate::time::Span;
use std::sync::Arc;

/// What the metrics know about a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskFacts {
    pub name: Box<str>,
    pub columns: Option<Box<Arc<[String]>>>, // what its values are called, for errors about one of them
    pub worker: usize,
    pub period: Span,     // one period, rounded up
    pub deadline: Span,   // latest allowed finish, relative to the release
    pub grid_moves: bool, // `delay`: a late tick puts off later releases, which do not count as skipped
    pub kept: Span,       // the age at which a waiting release is certain to be given up; `MAX`: never
    pub rate: Rate,
    pub max_missed: f64,       // share of releases that may be missed, or of ticks that may fail
    pub max_latency: Span,     // maximum age of what its ticks use; `MAX`: no limit
    pub live: Arc<LiveCounts>, // published by its worker
}

impl TaskFacts {
    /// What its values are called.
    pub(crate) fn columns(&self) -> &[String] {
        self.columns.as_ref().map_or(&[], |columns| columns)
    }
}

#[cfg(test)]
impl TaskFacts {
    /// A task at this rate whose deadline equals its period.
    pub(crate) fn at(rate: Rate) -> Self {
        let (period, live) = (rate.period(), Arc::default());
        let (name, deadline, max_latency) = ("a".into(), period, Span::MAX);
        Self {
            name,
            columns: None,
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
