//! The contract of a task: what it must do at a tick, and what it learns about the tick.
//!
//! Tasks are built on another thread. Only [`Task::tick`] runs on the hot thread, the real-time thread of a worker. Time is passed in;
//! nothing here blocks or allocates.

pub use crate::channels::{
    AudioFormat, BlockSender, Column, Format, Head, ImageFormat, Input, Quality, Reason, SampleFormat, Shape, TickError,
};

use crate::time::{Instant, Span};

/// Code that runs at a rate.
///
/// An implementation must be ready to run once it is built: it opens, allocates and starts everything before its first tick.
/// [`Kinds::with`](crate::Kinds::with) adds an implementation to the kinds that a configuration may name.
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

    /// The age of the oldest measurement of the most recent tick, relative to that tick's release: an upper bound. Zero if a tick measures
    /// during its own run. Called on the hot thread after each tick that returned no error, if other tasks read this task's values.
    fn age(&self) -> Span {
        Span::ZERO
    }

    /// The instant of the oldest measurement behind the most recent tick's values, on the monotonic clock. Override this if the values stem
    /// from an earlier tick, because the inputs of the most recent tick then say nothing about them. `None`: the values stem from the most
    /// recent tick. Called when [`age`](Self::age) is.
    fn origin(&self) -> Option<Instant> {
        None
    }

    /// One tick. Called on the hot thread; ticks of one worker never overlap.
    ///
    /// `values` has one slot for each of [`columns`](Self::columns), `NaN` on entry. A slot left as it was means that this tick has nothing
    /// new ([`Quality::None`]); any other number that is not finite is bad. `Reason::NotAvailable.into()` makes a value bad for a given reason.
    ///
    /// An implementation must not allocate, lock, log, or block for longer than its budget.
    ///
    /// # Errors
    /// An error is counted and logged; the next tick runs as usual, unless `on-error` says otherwise.
    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError>;

    /// The task was disabled: it will not tick again, but still exists. Called once, on the hot thread, after a fault.
    fn disabled(&mut self) {}

    /// The worker has run its last tick: another task may take over, or the run ends. Called once, on the worker's thread, but not if the
    /// task is dropped before the worker ends.
    fn ended(&mut self) {}
}

/// The address of this task's tick code, so that a worker can prefetch it before the release. Nothing dereferences it.
pub(crate) fn code_of<T: Task>() -> usize {
    let tick: fn(&mut T, &Tick, &mut [f64]) -> Result<(), TickError> = T::tick;
    (tick as *const ()).addr()
}

/// What a task learns about its current tick. Instants are on the worker's clock.
///
/// A task's test can start from [`Tick::default`], which is all zeros, and set only the fields it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// Index of the tick, counted in releases. Skipped releases count, so a task that draws frame `n` stays in step.
    pub n: u64,
    /// The instant at which the tick was meant to start.
    pub release: Instant,
    /// The instant at which it started.
    pub started: Instant,
    /// `started − release`.
    pub lateness: Span,
    /// Releases given up since the task's previous tick.
    pub skipped: u64,
    /// Time left until the next release when the previous tick finished; negative for debt. Zero at the first tick.
    pub credit: Span,
    /// One period, rounded up to a whole nanosecond.
    pub period: Span,
}
