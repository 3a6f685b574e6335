//! A configuration that holds valid values only.

use super::blueprint::Blueprint;
use super::choices::{ClockKind, LimitAction, OnError, TakeEvidence};
use super::error::Origin;
use super::record::RecordConfig;
use super::stand_in::{Failing, StandIn};
use super::taken::{Taken, Valid};
use crate::channels::Queue;
use crate::pacing::{Overrun, Rate, Tail, Target, Turn};
use crate::time::Span;
use std::path::{Path, PathBuf};

/// All of a configuration. Every worker has a task, and every task a worker.
#[derive(Debug)]
pub(crate) struct Config {
    /// The workers, in the order in which they first appear; at least one.
    pub workers: Vec<WorkerConfig>,
    /// The tasks, in the order in which they first appear; at least one.
    pub tasks: Vec<TaskConfig>,
    /// The files that were read, drop-ins after the file itself and masks included; empty for [`Config::parse`].
    pub files: Vec<PathBuf>,
}

impl Config {
    /// All files that are read for it: its own, those that its tasks are built from, and recordings that are played in place of tasks.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let recorded = self.tasks.iter().filter_map(|task| match task.stand_in.as_deref() {
            Some(StandIn::Recording { path, .. }) => Some(path.as_path()),
            _ => None,
        });
        let built_from = self.tasks.iter().flat_map(|task| task.blueprint.inputs());
        self.files.iter().map(PathBuf::as_path).chain(built_from).chain(recorded)
    }
}

/// Facts of the machine that a configuration is judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The CPUs that are online, in ascending order.
    pub online_cpus: Vec<usize>,
    /// How many CPUs a CPU set of this system can name: 1024 on Linux.
    pub cpu_set_size: usize,
}

/// One worker: `[worker.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct WorkerConfig {
    /// Its name, unique; 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// The CPUs it is pinned to, ascending and online; empty: not pinned.
    pub cpus: Vec<usize>,
    /// How the kernel is asked to schedule it.
    pub scheduling: Scheduling,
    /// How long it stays awake before a release.
    pub spin: Spin,
    /// The clock that its releases are on.
    pub clock: ClockKind,
    /// When it takes evidence of why a release was missed.
    pub evidence: TakeEvidence,
    /// Whether to refuse to start when `scheduling` is not granted.
    pub require_realtime: bool,
    /// Its keys and values in canonical text, without `simulate`: two configurations have the same worker, unchanged,
    /// when name and identity are equal. Rates of its tasks are not part of it.
    pub identity: String,
    /// How late each sleep ends under `simulate`, cycled; empty: never late.
    pub simulated_oversleep: Vec<Span>,
    /// Where it is first written; for an implicit worker, the start of the file.
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
    /// Earliest deadline first; never together with `cpus`.
    Deadline {
        /// Processor time in each period; from 1024 ns to the period.
        runtime: Span,
        /// The shortest period of the worker's tasks.
        period: Span,
    },
    /// Like every other program.
    Other,
}

/// How long a worker stays awake before a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Spin {
    /// Not at all.
    Off,
    /// Always this long; above zero, and at most 80 % of a CPU over all ticks.
    Fixed(Span),
    /// As long as the measured oversleeps require.
    Auto {
        /// The most it may cost, as a fraction of one CPU; above 0 and at most 0.5.
        cpu_max: f64,
        /// No longer than this lateness needs; `None`: as long as `cpu_max` pays for.
        target: Option<Target>,
    },
}

impl Spin {
    /// The spin tail that is asked for.
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
    /// Its name, unique; 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// Index of its worker in [`Config::workers`].
    pub worker: usize,
    /// Ticks per second.
    pub rate: Rate,
    /// How far its grid lies behind the worker's epoch; at least zero and below one period.
    pub phase: Span,
    /// What happens to releases that came up while it could not run.
    pub overrun: Overrun,
    /// Latest allowed finish after the release; above zero.
    pub deadline: Span,
    /// When it has its turn among the tasks of its worker: by its deadline, but before those that take its values.
    pub turn: Turn,
    /// The values that it takes from other tasks, each with the age from which on it is stale.
    pub taken: Vec<(Taken, Span)>,
    /// How old the oldest measurement behind what it uses may be when its tick has finished; above zero.
    pub max_latency: Option<Span>,
    /// The range outside which its own values are bad.
    pub valid: Valid,
    /// How many of its releases may be missed before it is not well, as a fraction; 0 to 1.
    pub max_missed: f64,
    /// Longest allowed run; above zero and at most the deadline.
    pub budget: Option<Span>,
    /// How many overruns are tolerated; `None`: any number.
    pub overrun_limit: Option<OverrunLimit>,
    /// What follows a failed tick.
    pub on_error: OnError,
    /// What it is recorded to.
    pub record: Option<RecordConfig>,
    /// What happens to data that it produces faster than the recorder takes it.
    pub queue: Queue,
    /// Its keys and values in canonical text, with the name of its worker and without `simulate`: two configurations
    /// have the same task, unchanged, when name and identity are equal. Values count as they are written.
    pub identity: String,
    /// How long each tick takes under `simulate`, cycled and never empty; `None`: what the blueprint says, else the budget.
    pub simulated_run: Option<Vec<Span>>,
    /// What makes its values under `simulate`; `None`: the task itself if it computes, else nothing.
    pub stand_in: Option<Box<StandIn>>,
    /// When what stands in for it fails.
    pub fails: Option<Box<Failing>>,
    /// It puts something out which has a safe value.
    pub acts: bool,
    /// Builds the task.
    pub blueprint: Blueprint,
    /// Where it is first written, for [`Problems::at`](super::Problems::at) when it cannot be built.
    pub section: Origin,
}

/// How many overruns of a task are tolerated, as a [`LeakyBucket`](crate::pacing::LeakyBucket) counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverrunLimit {
    /// The most that are tolerated at once; in 1..=1_000_000.
    pub count: u32,
    /// Each time this has passed, one is forgiven; above zero.
    pub leak: Span,
    /// What happens when there are more.
    pub action: LimitAction,
}
