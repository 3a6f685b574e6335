//! A checked configuration: its types hold only valid values.

use super::blueprint::Blueprint;
use super::choices::{ClockKind, LimitAction, OnError, TakeEvidence};
use super::error::Origin;
use super::record::RecordConfig;
use super::stand_in::{Failing, StandIn};
use super::taken::{ByValue, Taken, Valid};
use crate::channels::{Limits, Queue};
use crate::pacing::{Overrun, Rate, Tail, Target, Turn};
use crate::time::Span;
use std::path::{Path, PathBuf};

/// The whole configuration. Every worker has a task, and every task has a worker.
#[derive(Debug)]
pub(crate) struct Config {
    /// The workers in order of first appearance; at least one.
    pub workers: Vec<WorkerConfig>,
    /// The tasks in order of first appearance; at least one.
    pub tasks: Vec<TaskConfig>,
    /// The files that were read: the main file, then its drop-ins, including masked ones. Empty for [`Config::parse`].
    pub files: Vec<PathBuf>,
}

impl Config {
    /// All files this configuration depends on: its own, those its tasks are built from, and recordings played back in place of tasks.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let recorded = self.tasks.iter().filter_map(|task| match task.stand_in.as_deref() {
            Some(StandIn::Recording { path, .. }) => Some(path.as_path()),
            _ => None,
        });
        let built_from = self.tasks.iter().flat_map(|task| task.blueprint.inputs());
        self.files.iter().map(PathBuf::as_path).chain(built_from).chain(recorded)
    }
}

/// Facts about the machine that a configuration is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The online CPUs, in ascending order.
    pub online_cpus: Vec<usize>,
    /// How many CPUs a CPU set can address on this system: 1024 on Linux.
    pub cpu_set_size: usize,
}

/// One worker: `[worker.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct WorkerConfig {
    /// Unique name; 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// The CPUs the worker is pinned to, ascending and online. Empty: not pinned.
    pub cpus: Vec<usize>,
    /// The scheduling requested from the kernel.
    pub scheduling: Scheduling,
    /// How long the worker stays awake before a release.
    pub spin: Spin,
    /// The clock of its releases.
    pub clock: ClockKind,
    /// When the worker collects evidence of why a release was missed.
    pub evidence: TakeEvidence,
    /// Whether to refuse to start if the kernel does not grant `scheduling`.
    pub require_realtime: bool,
    /// Keys and values as canonical text, without `simulate` and without the rates of the worker's tasks. Two configurations have the same,
    /// unchanged worker if name and identity are equal.
    pub identity: String,
    /// How late each sleep ends under `simulate`, used in turn. Empty: never late.
    pub simulated_oversleep: Vec<Span>,
    /// Where the worker is first declared. For an implicit worker, the start of the file.
    pub section: Origin,
}

/// How a worker is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    /// First in, first out.
    Fifo {
        /// In 1..=99.
        priority: u8,
    },
    /// Round robin among equals.
    Rr {
        /// In 1..=99.
        priority: u8,
    },
    /// Earliest deadline first. Cannot be combined with `cpus`.
    Deadline {
        /// Processor time per period; from 1024 ns to the period.
        runtime: Span,
        /// The shortest period of the worker's tasks.
        period: Span,
    },
    /// Ordinary time-sharing, as for any other program.
    Other,
}

/// How long a worker stays awake before a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spin {
    /// Not at all.
    Off,
    /// Always this long: above zero, and costing at most 80 % of a CPU over all ticks.
    Fixed(Span),
    /// As long as the measured oversleeps require.
    Auto {
        /// Maximum cost as a fraction of one CPU; above 0 and at most 0.5.
        cpu_max: f64,
        /// The tail is no longer than this lateness target needs. `None`: as long as `cpu_max` allows.
        target: Option<Target>,
    },
}

impl Spin {
    /// The requested spin tail.
    pub(crate) fn tail(self) -> Tail {
        match self {
            Self::Off => Tail::Off,
            Self::Fixed(length) => Tail::Fixed(length),
            Self::Auto { cpu_max, target } => Tail::Auto { cpu_max, target },
        }
    }
}

/// One task: `[task.NAME]`.
#[derive(Debug)]
pub(crate) struct TaskConfig {
    /// Unique name; 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// The name of the task's kind.
    pub kind: &'static str,
    /// Index of its worker in [`Config::workers`].
    pub worker: usize,
    /// Ticks per second.
    pub rate: Rate,
    /// Offset of the task's releases from the worker's epoch; at least zero and below one period.
    pub phase: Span,
    /// What happens to releases that came up while the task could not run.
    pub overrun: Overrun,
    /// Latest allowed finish, relative to the release; above zero.
    pub deadline: Span,
    /// When the task runs relative to others on its worker: ordered by deadline, but before the consumers of its values.
    pub turn: Turn,
    /// The values read from other tasks, each with how long the task waits for new ones.
    pub taken: Vec<(Taken, Limits)>,
    /// Maximum age of the oldest measurement behind the task's inputs, when its tick has finished; above zero.
    pub max_latency: Option<Span>,
    /// The range outside which the task's own values are bad.
    pub valid: Valid,
    /// How long a value of the task may stay the same; above zero.
    pub stuck_after: Option<Box<ByValue<Span>>>,
    /// How long it uses the last good value of an input, by "task.value", in place of one that is not good; above zero.
    pub hold: Option<Box<ByValue<Span>>>,
    /// The share of releases that may be missed before the task is not well; 0 to 1.
    pub max_missed: f64,
    /// Longest allowed run; above zero and at most the deadline.
    pub budget: Option<Span>,
    /// How many overruns are tolerated. `None`: any number.
    pub overrun_limit: Option<OverrunLimit>,
    /// What happens after a failed tick.
    pub on_error: OnError,
    /// Where the task is recorded.
    pub record: Option<RecordConfig>,
    /// Whether the numbers of bad values are recorded too.
    pub record_raw: bool,
    /// What happens to data that the task produces faster than the recorder can store it.
    pub queue: Queue,
    /// Keys and values as canonical text, with the worker's name and without `simulate`. Two configurations have the same, unchanged task
    /// if name and identity are equal. Values are compared as written.
    pub identity: String,
    /// How long each tick takes under `simulate`, used in turn and never empty. `None`: the blueprint's run times, otherwise the budget.
    pub simulated_run: Option<Vec<Span>>,
    /// What produces the task's values under `simulate`. `None`: the task itself if it only computes, otherwise nothing.
    pub stand_in: Option<Box<StandIn>>,
    /// When the stand-in fails.
    pub fails: Option<Box<Failing>>,
    /// Whether the task has an output with a safe value.
    pub acts: bool,
    /// Builds the task.
    pub blueprint: Blueprint,
    /// Where the task is first declared, for [`Problems::at`](super::Problems::at) if it cannot be built.
    pub section: Origin,
}

/// How many overruns of a task are tolerated, counted by a [`LeakyBucket`](crate::pacing::LeakyBucket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverrunLimit {
    /// Most overruns tolerated at once; in 1..=1_000_000.
    pub count: u32,
    /// One overrun is forgiven each time this span has passed; above zero.
    pub leak: Span,
    /// What happens when the limit is exceeded.
    pub action: LimitAction,
}
