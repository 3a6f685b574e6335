//! What runs: the [`Task`] trait, and how a task is made from its section of the configuration.
//!
//! Tasks are parsed and built on the main thread, before any worker turns real-time; only [`Task::tick`] runs on the
//! hot thread.

pub mod sensor;

pub mod load;

#[cfg(feature = "video")]
pub mod video;

pub mod link;

#[cfg(feature = "audio")]
mod audio;

pub(crate) mod node;

mod silence;

#[cfg(feature = "i2c")]
mod i2c;

#[cfg(feature = "gpio")]
pub(crate) mod gpio;

mod kinds;

mod builtin;

pub use kinds::{Kind, Kinds, Parse};

use crate::stream::{BlockSender, Shape};
use crate::time::{Instant, Span};
use std::fmt;

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

/// A value that a task reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique in the task.
    pub name: String,
    /// Its unit, as shown to people; empty for a plain number.
    pub unit: String,
}

/// Why a tick failed; of fixed size, so that failing allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickError {
    what: &'static str,
    errno: i32, // 0: none
}

impl TickError {
    /// A failure that the system has no number for.
    pub const fn new(what: &'static str) -> Self {
        Self { what, errno: 0 }
    }

    /// A system call's failure: what was attempted, and the system's reason.
    pub fn from_io(what: &'static str, error: &std::io::Error) -> Self {
        Self { what, errno: error.raw_os_error().unwrap_or(0) }
    }
}

impl fmt::Display for TickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => f.write_str(self.what),
            errno => write!(f, "{}: {}", self.what, std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for TickError {}

/// What makes a task: files are opened and buffers allocated here.
type Build = Box<dyn FnOnce() -> Result<Box<dyn Task>, BuildError> + Send>;

/// A task that has been parsed and checked, but not built: nothing is open yet.
pub struct Blueprint {
    build: Option<Build>,
    run: Vec<Span>,
}

impl Blueprint {
    /// A blueprint that `build` turns into a task.
    pub fn new(build: impl FnOnce() -> Result<Box<dyn Task>, BuildError> + Send + 'static) -> Self {
        Self { build: Some(Box::new(build)), run: Vec::new() }
    }

    /// Says how long the ticks are known to take, cycled; `simulate` goes by it unless the configuration says more.
    #[must_use]
    pub fn taking(self, run: Vec<Span>) -> Self {
        Self { run, ..self }
    }

    /// How long the ticks are known to take, cycled; empty when that is not known.
    pub fn run(&self) -> &[Span] {
        &self.run
    }

    /// Builds the task; once.
    ///
    /// # Errors
    /// What could not be opened, and why; or that it has been built before.
    pub fn build(&mut self) -> Result<Box<dyn Task>, BuildError> {
        match self.build.take() {
            Some(build) => build(),
            None => Err(BuildError { key: "kind", message: "this task has been built already".into() }),
        }
    }
}

impl fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blueprint").field("run", &self.run).finish_non_exhaustive()
    }
}

/// Why a task could not be built. It is reported at `key` in the task's section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The key of the section that is to blame.
    pub key: &'static str,
    /// What was attempted, on what, the system's reason, the remedy.
    pub message: String,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for BuildError {}
