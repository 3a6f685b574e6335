//! The contents of a tick's record. No clock is read; nothing allocates.

use super::Evidence;
use super::quality::Basis;
use crate::time::{Instant, Span};
use std::fmt;

/// Why a tick failed. Of fixed size, so that a failure allocates nothing.
///
/// ```
/// use hertzd::TickError;
///
/// let error = TickError::from_io("reading", &std::io::Error::from_raw_os_error(19));
/// assert_eq!(error.to_string(), "reading: No such device (os error 19)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickError {
    what: &'static str,
    errno: i32, // 0: none
    away: bool,
    column: u16, // the value that it is about; or ALL, or NO_VALUE
}

const ALL: u16 = u16::MAX;
const NO_VALUE: u16 = u16::MAX - 1;

impl TickError {
    /// A failure without an errno.
    pub const fn new(what: &'static str) -> Self {
        Self { what, errno: 0, away: false, column: ALL }
    }

    /// The device is absent; another thread waits for it.
    pub(crate) const fn away(what: &'static str) -> Self {
        Self { what, errno: 0, away: true, column: ALL }
    }

    /// Whether the task waits for its device.
    pub(crate) const fn is_away(&self) -> bool {
        self.away
    }

    /// The failure of a system call: what was attempted, and the system's reason.
    pub fn from_io(what: &'static str, error: &std::io::Error) -> Self {
        Self { what, errno: error.raw_os_error().unwrap_or(0), away: false, column: ALL }
    }

    /// The same failure, of one value only: that of this column. The other values of the tick are as good as without it, and the task
    /// may write the [reason](crate::task::Reason) why this one is bad in its place.
    #[must_use]
    pub fn of_value(self, column: usize) -> Self {
        Self { column: u16::try_from(column).ok().filter(|column| *column < NO_VALUE).unwrap_or(ALL), ..self }
    }

    /// The same failure, of something else than the values: those that the tick has set are as good as without it. So a task that could not
    /// write still says what it has written.
    #[must_use]
    pub const fn of_no_value(self) -> Self {
        Self { column: NO_VALUE, ..self }
    }

    /// The column of the only value that it is about, if there is one.
    pub(crate) fn column(&self) -> Option<usize> {
        (self.column < NO_VALUE).then_some(self.column.into())
    }

    /// The error, with the name of the value if it is about one only.
    pub(crate) fn text(&self, columns: &[String]) -> String {
        match columns.get(usize::from(self.column)) {
            Some(value) => format!("{value}: {self}"),
            None => self.to_string(),
        }
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

/// How a tick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned without an error.
    Done,
    /// The task returned an error, and continues.
    Failed(TickError),
    /// The task returned an error, and `on-error` ended it.
    Ended(TickError),
    /// The task panicked.
    Panicked {
        /// The panic disabled the task.
        ended: bool,
    },
    /// The task exceeded its `overrun-limit`, which ended it. Carries the error if the tick failed as well.
    Limited(Option<TickError>),
}

impl Outcome {
    /// The task returned an error or panicked.
    pub const fn is_error(&self) -> bool {
        !matches!(self, Self::Done | Self::Limited(None))
    }

    /// What the values of the tick rest on because of how it ended; `None`: on its inputs alone.
    pub(crate) fn basis(&self) -> Option<Basis> {
        match self {
            _ if self.ends_task() => Some(Basis::Failed),
            Self::Done | Self::Limited(None) => None,
            Self::Failed(error) | Self::Ended(error) | Self::Limited(Some(error)) => match error.column {
                ALL if error.away => Some(Basis::Unavailable),
                ALL => Some(Basis::Failed),
                _ => None,
            },
            Self::Panicked { .. } => Some(Basis::Failed),
        }
    }

    /// The error that the tick returned.
    pub(crate) const fn error(&self) -> Option<&TickError> {
        match self {
            Self::Failed(error) | Self::Ended(error) | Self::Limited(Some(error)) => Some(error),
            _ => None,
        }
    }

    /// The task will not run again.
    pub const fn ends_task(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Panicked { ended: true } | Self::Limited(_))
    }
}

/// The worker goes back to sleep although no tick reports why releases were given up. Either its wake-up came too late for any tick, or its
/// ticks were of other tasks and on time. Instants are on the worker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleWake {
    /// When its last sleep was due to end, and when it ended; `None` if a tick has run since then.
    pub sleep: Option<(Instant, Instant)>,
    /// When the worker decided to run nothing.
    pub ended: Instant,
    /// As in [`TickRecord::after_loss`].
    pub after_loss: bool,
    /// What happened to the thread; `None` if the worker takes no evidence.
    pub evidence: Option<Evidence>,
}

/// What a worker reports: a tick, or an idle wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It ran a tick.
    Tick(TickRecord),
    /// It gave up releases of a task and ran none of that task's ticks.
    IdleWake(IdleWake),
}

/// The age of a tick's inputs when the tick had finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputAge {
    /// Time since the release of the oldest measurement behind the inputs.
    pub age: Span,
    /// The number of the task that made this measurement.
    pub measured_by: u32,
}

/// One tick, as seen by the hot thread. Instants are on the worker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRecord {
    /// When the tick was meant to start.
    pub release: Instant,
    /// Index of the tick.
    pub n: u64,
    /// When the worker's last sleep ended, relative to the release; below zero with a spin tail.
    pub woke: Span,
    /// How late that sleep ended; only in the first tick after it.
    pub oversleep: Option<Span>,
    /// Started − release.
    pub lateness: Span,
    /// Finished − release.
    pub response: Span,
    /// Releases given up before this tick, because something else delayed the worker.
    pub missed: u64,
    /// The largest step of the clock of releases since the task's previous tick; zero if there was none.
    pub stepped: Span,
    /// How much lateness such steps added to this release, or to the oldest one given up before it.
    pub jumped: Span,
    /// Releases given up when this tick finished.
    pub dropped: u64,
    /// Number of the task, unique in the process, even across reloads.
    pub task: u32,
    /// Whether its response exceeded its deadline.
    pub overrun: bool,
    /// Whether its run exceeded its budget.
    pub over_budget: bool,
    /// Whether this overrun exceeded the task's `overrun-limit`.
    pub over_limit: bool,
    /// The records just before this one, of the same worker, were dropped: what the worker did in that time is unknown.
    pub after_loss: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The age of the oldest measurement behind the inputs when the tick finished. Present if a chain of tasks ends with this task, or if
    /// its latency has a limit. `None` otherwise, or if no measurement has arrived yet.
    pub age: Option<InputAge>,
    /// What happened to the thread, if a release was missed and the worker takes evidence; with `evidence = "tick"`, for every tick.
    pub evidence: Option<Evidence>,
}

impl TickRecord {
    /// Tick 0 of task 0, released at the zero of its clock. It took no time, and nothing happened.
    pub const EMPTY: Self = Self {
        release: Instant::ZERO,
        n: 0,
        woke: Span::ZERO,
        oversleep: None,
        lateness: Span::ZERO,
        response: Span::ZERO,
        missed: 0,
        stepped: Span::ZERO,
        jumped: Span::ZERO,
        dropped: 0,
        task: 0,
        overrun: false,
        over_budget: false,
        over_limit: false,
        after_loss: false,
        outcome: Outcome::Done,
        age: None,
        evidence: None,
    };

    /// Finished − started.
    pub fn run(&self) -> Span {
        self.response - self.lateness
    }

    /// When the tick began.
    pub fn started(&self) -> Instant {
        self.release + self.lateness
    }

    /// When the tick returned.
    pub fn finished(&self) -> Instant {
        self.release + self.response
    }

    /// All given-up releases reported by this tick.
    pub const fn skipped(&self) -> u64 {
        self.missed + self.dropped
    }
}
