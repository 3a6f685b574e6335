//! The contract: what a task is, and what it learns about each tick.
//!
//! Tasks are built on a cool thread, before any worker turns real-time; only [`Task::tick`] runs on the hot thread.
//! Time comes in as values. Nothing here blocks or allocates.

pub use crate::channels::{Column, TickError};

use crate::channels::{BlockSender, Shape};
use crate::time::{Instant, Span};

/// User code with a rate.
///
/// An implementation must be ready to run when it has been built: everything it opens, allocates or starts belongs
/// before that.
pub trait Task: Send {
    /// The values that every tick may report, in the order of the slice handed to [`tick`](Self::tick). Asked once,
    /// before the first tick.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// The blocks it produces beside the values: samples, sound, pictures. `None`: there are none. Asked once, after it
    /// has been built.
    fn stream(&self) -> Option<Shape> {
        None
    }

    /// Hands it the queue for its blocks, before the first tick. Not called where nobody wants them, so that they need not
    /// be copied.
    fn connect(&mut self, blocks: BlockSender) {
        drop(blocks);
    }

    /// One tick. Called on the hot thread, never two at once on one worker.
    ///
    /// `values` has one slot for each of [`columns`](Self::columns), each `NaN` on entry; a slot left `NaN` means that
    /// this tick has no such value.
    ///
    /// An implementation must not allocate, lock, log, or block for longer than its budget.
    ///
    /// # Errors
    /// An error is counted and logged; the next tick runs all the same, unless `on-error` says otherwise.
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError>;
}

/// What a task is told about the tick it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Index of the tick, counted in releases: a task that draws frame `n` stays in step over skipped ones.
    pub n: u64,
    /// When the tick was meant to start.
    pub release: Instant,
    /// When it started.
    pub started: Instant,
    /// `started − release`.
    pub lateness: Span,
    /// Releases given up since the task's previous tick.
    pub skipped: u64,
    /// What the account held when the previous tick had finished: time left until the next release, negative for debt.
    /// Zero at the first tick.
    pub credit: Span,
    /// One period, rounded up to a whole nanosecond.
    pub period: Span,
}
