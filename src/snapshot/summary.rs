//! The summary: plain numbers with units in their names, as `run --json` and `simulate --json` print them, and as a daemon sends them.
//!
//! Other programs read this. Fields are only ever added.

use super::daemon::{AlarmSummary, DaemonSummary};
use super::distribution::Distribution;
use super::few::{MANY, few, many_if_any};
use super::sums::BeforeReloadDropped;
use super::task::TaskSummary;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Version of this format: 1.
    pub version: u32,
    /// Everything that was asked for happened; at the end of a run the same as exit code 0.
    pub well: bool,
    /// Why not, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was a shadow run: outputs computed what they would have written, and wrote nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// The machine it ran on.
    pub host: HostSummary,
    /// In the order of declaration.
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub workers: Vec<WorkerSummary>,
    /// In the order of declaration.
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub tasks: Vec<Box<TaskSummary>>,
    /// Recordings that lost something before a reload ended them, of tasks that are gone or are no longer recorded.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "few::<_, _, MANY>")]
    pub recordings_ended: Vec<EndedRecordingSummary>,
    /// What tasks came to that reloads have ended, and that `before_reload` no longer has by name: too many names came and went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_reload_dropped: Option<BeforeReloadDropped>,
    /// Records handed over by the workers.
    pub records: RecordsSummary,
    /// Entries written to the journal, where the log goes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalSummary>,
    /// The flight file, if one is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight: Option<FlightSummary>,
    /// The thread that has safe values written, if there are outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Box<GuardSummary>>,
    /// While it runs and a worker is pinned: where all other threads run, and the programs that they start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cool_threads: Option<Box<CoolSummary>>,
    /// The targets of outputs that are read back, by task.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "many_if_any")]
    pub readbacks: Option<Vec<ReadbackSummary>>,
    /// While it runs: the alarms, by task; absent without any.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "many_if_any")]
    pub alarms: Option<Vec<AlarmSummary>>,
    /// Of the snapshot of a daemon: the daemon itself, which sends with it what a reload compares.
    #[serde(skip_serializing)]
    pub daemon: Option<Box<DaemonSummary>>,
    /// Of its answer where it cannot say anything yet: why.
    #[serde(skip_serializing)]
    pub error: Option<String>,
}

/// The priority of the thread that has safe values written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardSummary {
    /// What it asks for: above that of every worker, as far as there is more.
    pub asked: Policy,
    /// What it has now, as the kernel says.
    pub granted: Policy,
    /// What the kernel refused, with the reason and the remedy.
    pub refused: Vec<String>,
}

/// Where cool threads run, and the programs that hertzd starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoolSummary {
    /// The processors that they may run on.
    pub cpus: Vec<usize>,
    /// Those that workers are pinned to.
    pub pinned: Vec<usize>,
    /// They are kept off all of `pinned`.
    pub apart: bool,
    /// Why they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a thread is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Scheduling policy: `fifo`, `rr`, `deadline`, `other`; `virtual` under `simulate`; `unknown` if the kernel does not say.
    #[serde(rename = "policy")]
    pub name: Cow<'static, str>,
    /// Real-time priority in 1..=99; 0 where the policy has none.
    pub priority: u8,
}

/// Shows as `fifo 80`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.name, self.priority) {
            ("", _) => f.write_str("?"),
            (name, 0) => f.write_str(name),
            (name, priority) => write!(f, "{name} {priority}"),
        }
    }
}

/// What reading the target of an output back came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadbackSummary {
    /// The output.
    pub task: String,
    /// Its target.
    pub target: String,
    /// How often it is read.
    pub every_ns: i64,
    /// Readings that were compared with what was written last.
    pub compared: u64,
    /// How often a difference began.
    pub differences: u64,
    /// Readings that failed.
    pub unreadable: u64,
    /// `agrees`, `differs`, `unreadable`, or `unknown`: nothing was compared yet.
    pub state: String,
    /// While what differs is a file beside the target that decides whether its value has any effect: that one, of which `written` and `read` are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// While it differs: the raw number that was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<f64>,
    /// While it differs: what it held at the latest reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// While it differs, or cannot be read: for how long, by the readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<i64>,
}

/// Facts of the machine that belong beside every measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSummary {
    /// Release of the kernel.
    pub kernel: String,
    /// Processors online.
    pub cpus: usize,
    /// The kernel's preemption model.
    pub preempt: String,
    /// The kernel's clock source.
    pub clocksource: String,
}

/// What the kernel granted a worker, read back from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantedSummary {
    /// Its policy.
    #[serde(flatten)]
    pub policy: Policy,
    /// The process's memory is locked.
    pub memory_locked: bool,
    /// The processors it may run on; empty under `simulate`.
    pub cpus: Vec<usize>,
}

/// What the section of a worker asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskedSummary {
    /// The policy; that of a daemon which does not say so has no name.
    #[serde(flatten)]
    pub policy: Policy,
    /// The processors to be pinned to; empty: not pinned.
    pub cpus: Vec<usize>,
}

/// The result of one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerSummary {
    /// Its name.
    pub worker: String,
    /// The processor it is pinned to; `null`: several, or none.
    pub cpu: Option<usize>,
    /// The clock that releases are computed on: `monotonic`, `tai` or `realtime`.
    pub clock: Cow<'static, str>,
    /// How many steps of that clock were noticed.
    pub clock_steps: u64,
    /// The latest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_step: Option<ClockStepSummary>,
    /// What the kernel granted.
    pub granted: GrantedSummary,
    /// What the kernel refused, each with the reason and the remedy.
    pub refused: Vec<String>,
    /// What its section asks for.
    pub asked: AskedSummary,
    /// While it runs: for how long it has not advanced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_ns: Option<i64>,
    /// While it runs: processor time used in the last seconds, as a share of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share_now: Option<f64>,
    /// The time that `cpu_share_now` covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share_now_ns: Option<i64>,
    /// Likewise, the time spent in spin tails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_share_now: Option<f64>,
    /// Processor time used, as a share of one processor.
    pub cpu_share: f64,
    /// Time spent in spin tails, as a share of one processor.
    pub spin_share: f64,
    /// With `spin-target`: whether `spin-cpu-max` pays for it, by the oversleeps so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_target_affordable: Option<bool>,
    /// Sleeps made.
    pub wakes: u64,
    /// How late the sleeps ended.
    pub oversleep_ns: Distribution,
}

impl WorkerSummary {
    /// Whether it has another policy or priority than it asks for.
    pub(crate) fn is_otherwise(&self) -> bool {
        !self.asked.policy.name.is_empty() && self.asked.policy != self.granted.policy
    }

    /// Whether it may run on a processor that it does not ask for.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let (asked, granted) = (&self.asked.cpus, &self.granted.cpus);
        !asked.is_empty() && granted.iter().any(|cpu| !asked.contains(cpu))
    }
}

/// Processors as text: `0, 1`.
pub(crate) fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A step of the clock that a worker's releases are computed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockStepSummary {
    /// How far the clock went forward; negative: back.
    pub by_ns: i64,
    /// Time since it was noticed.
    pub age_ns: i64,
}

/// What the recordings of a task lost that a reload has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndedRecordingSummary {
    /// The task.
    pub task: String,
    /// The file; of several the latest.
    pub path: String,
    /// Rows, blocks and ticks, other than what was replaced.
    pub lost: u64,
    /// Time since something was lost.
    pub lost_age_ns: i64,
}

/// Entries written to the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalSummary {
    /// Entries that the journal has taken.
    pub sent: u64,
    /// Entries that were dropped because the journal took none for too long.
    pub lost: u64,
}

/// The file of the flight recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightSummary {
    /// The file.
    pub path: String,
    /// How many records it has room for; the oldest are overwritten.
    pub capacity: u64,
    /// Records written so far.
    pub records: u64,
    /// Records that are not in it: the disk was full or too slow.
    pub lost: u64,
    /// Why the latest could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Records handed over by the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordsSummary {
    /// Records that arrived.
    pub sent: u64,
    /// Records that found no room: they are missing from the histograms, not from the counts.
    pub dropped: u64,
}
