//! The contract of a task: what it must do at a tick, and what it learns about the tick.
//!
//! Tasks are built on another thread; only [`Task::tick`] runs on the hot thread, the real-time thread of a worker. Time
//! comes in as values. Nothing here blocks or allocates.

pub use crate::channels::{
    AudioFormat, BlockSender, Column, Format, Head, ImageFormat, Input, Quality, SampleFormat, Shape, TickError,
};

use crate::time::{Instant, Span};

/// Code that runs at a rate.
///
/// An implementation must be ready to run once it is built: it opens, allocates and starts everything before its first
/// tick. [`Kinds::with`](crate::Kinds::with) adds one to the kinds that a configuration may name.
///
/// ```
/// use hertzd::time::{Instant, Span};
/// use hertzd::{Column, Task, Tick, TickError};
///
/// struct Ramp { level: f64 }
///
/// impl Task for Ramp {
///     fn columns(&self) -> Vec<Column> {
///         vec![Column { name: "level".into(), unit: "V".into() }]
///     }
///
///     fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
///         self.level += 0.5 * tick.period.seconds();
///         values[0] = self.level;
///         if self.level > 10.0 { Err(TickError::new("the level is out of range")) } else { Ok(()) }
///     }
/// }
/// ```
pub trait Task: Send {
    /// The values that a tick may report, in the order of the slice passed to [`tick`](Self::tick). Called once, before the
    /// first tick.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// How long before the release of the latest tick the oldest of its measurements was made, at most: zero where a tick measures itself.
    /// Called on the hot thread after each tick without an error, if other tasks take its values.
    fn age(&self) -> Span {
        Span::ZERO
    }

    /// The oldest measurement behind the values of the latest tick, on the monotonic clock, of a task whose values are of an earlier tick: then the
    /// inputs of the latest one say nothing about it. `None`: they are of that tick. Called as [`age`](Self::age) is.
    fn origin(&self) -> Option<Instant> {
        None
    }

    /// One tick. Called on the hot thread, never two at once on one worker.
    ///
    /// `values` has one slot for each of [`columns`](Self::columns), `NaN` on entry. A slot that is left `NaN` means that
    /// this tick has no such value.
    ///
    /// An implementation must not allocate, lock, log, or block for longer than its budget.
    ///
    /// # Errors
    /// An error is counted and logged; the next tick runs as usual, unless `on-error` says otherwise.
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError>;

    /// It was disabled: it will not tick again, but still exists. Called once, on the hot thread, after a fault.
    fn disabled(&mut self) {}

    /// Its worker has made its last tick: another task may take over, or the run ends. Called once, on the worker's thread, and not if
    /// the task is dropped before the worker ends.
    fn ended(&mut self) {}
}

/// Where the code of this task's tick is, so that a worker can load it before the release. An address, which no one reads from.
pub(crate) fn code_of<T: Task>() -> usize {
    let tick: fn(&mut T, &Tick, &mut [f64]) -> Result<(), TickError> = T::tick;
    (tick as *const ()).addr()
}

/// What a task learns about the tick that it runs. Instants are on the worker's clock.
///
/// A test of a task makes one from [`Tick::default`], which is all zeros, and sets what it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// Index of the tick, counted in releases. Skipped ones count, so a task that draws frame `n` stays in step.
    pub n: u64,
    /// When the tick was meant to start.
    pub release: Instant,
    /// When it started.
    pub started: Instant,
    /// `started − release`.
    pub lateness: Span,
    /// Releases given up since the task's previous tick.
    pub skipped: u64,
    /// Time that was left until the next release when the previous tick finished; negative for debt. Zero at the first tick.
    pub credit: Span,
    /// One period, rounded up to a whole nanosecond.
    pub period: Span,
}
