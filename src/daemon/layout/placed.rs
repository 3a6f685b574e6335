//! Tasks that are placed, and where: what a layout of one CPU consists of.

use crate::pacing::{Rate, Tail};
use crate::time::Span;

/// A task to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) rate: Rate,
    pub(crate) deadline: Span,
    /// The longest run that is known; zero if none is.
    pub(crate) run: Span,
    /// What `hertzd check` counts; zero if it counts nothing.
    pub(crate) budget: Span,
    /// Only tasks with the same number may share a worker.
    pub(crate) settings: usize,
    /// The only phase that it may have; `None`: any.
    pub(crate) phase: Option<Span>,
    /// The positions of the CPUs that it may use; `None`: any.
    pub(crate) on: Option<Vec<usize>>,
    pub(crate) tail: Tail,
}

/// A worker of a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlannedWorker {
    /// Its tasks, in the order of declaration, each with its phase.
    pub(crate) tasks: Vec<(usize, Span)>,
}

/// What runs on one CPU: workers, the first interrupts the second, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuLayout {
    pub(crate) workers: Vec<PlannedWorker>,
}
