//! The summary: plain numbers with units in their names. `run --json` and `simulate --json` print it, and a daemon sends it.
//!
//! Other programs read this format, so fields are only ever added.

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
    /// Everything that was asked for happened. At the end of a run, true means exit code 0.
    pub well: bool,
    /// If not, the reason in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// This was a shadow run: outputs computed the values they would have written, but wrote nothing.
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
    /// Recordings that lost data before a reload ended them, of tasks that are gone or no longer recorded.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "few::<_, _, MANY>")]
    pub recordings_ended: Vec<EndedRecordingSummary>,
    /// Totals of tasks ended by reloads that `before_reload` can no longer list by name, because too many names came and went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_reload_dropped: Option<BeforeReloadDropped>,
    /// Records that the workers sent.
    pub records: RecordsSummary,
    /// Entries written to the journal, if the log goes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalSummary>,
    /// The flight file, if one is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight: Option<FlightSummary>,
    /// The thread responsible for safe values, if there are outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Box<GuardSummary>>,
    /// While the run lasts and a worker is pinned: where all other threads run, and the programs that hertzd starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cool_threads: Option<Box<CoolSummary>>,
    /// The outputs' targets that are read back, by task.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "many_if_any")]
    pub readbacks: Option<Vec<ReadbackSummary>>,
    /// While the run lasts: the alarms, by task; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "many_if_any")]
    pub alarms: Option<Vec<AlarmSummary>>,
    /// In a daemon's snapshot: the daemon itself. The daemon sends this along with what a reload compares.
    #[serde(skip_serializing)]
    pub daemon: Option<Box<DaemonSummary>>,
    /// In a daemon's answer: why it cannot report anything yet.
    #[serde(skip_serializing)]
    pub error: Option<String>,
}

/// The priority of the thread responsible for safe values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardSummary {
    /// The policy it asks for: a priority above every worker's, if one exists.
    pub asked: Policy,
    /// The policy it has now, as reported by the kernel.
    pub granted: Policy,
    /// What the kernel refused, with the reason and the remedy.
    pub refused: Vec<String>,
}

/// Where hertzd's non-worker threads run, and the programs that it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoolSummary {
    /// The processors they may run on.
    pub cpus: Vec<usize>,
    /// The processors that workers are pinned to.
    pub pinned: Vec<usize>,
    /// They are kept off all processors in `pinned`.
    pub apart: bool,
    /// If not, why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a thread is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Scheduling policy: `fifo`, `rr`, `deadline`, `other`; `virtual` under `simulate`; `unknown` if the kernel does not report it.
    #[serde(rename = "policy")]
    pub name: Cow<'static, str>,
    /// Real-time priority in 1..=99; 0 where the policy has none.
    pub priority: u8,
}

/// Formatted as `fifo 80`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.name, self.priority) {
            ("", _) => f.write_str("?"),
            (name, 0) => f.write_str(name),
            (name, priority) => write!(f, "{name} {priority}"),
        }
    }
}

/// The results of reading back an output's target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadbackSummary {
    /// The output's task.
    pub task: String,
    /// Its target.
    pub target: String,
    /// The interval between readings.
    pub every_ns: i64,
    /// Readings that were compared with the last value written.
    pub compared: u64,
    /// How often a difference began.
    pub differences: u64,
    /// Readings that failed.
    pub unreadable: u64,
    /// `agrees`, `differs`, `unreadable`, or `unknown` if nothing has been compared yet.
    pub state: String,
    /// If the difference is in a file beside the target that decides whether the target's value has any effect: that file. `written` and
    /// `read` then belong to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// While it differs: the raw number last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<f64>,
    /// While it differs: the content at the most recent reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// While it differs or cannot be read: for how long, measured between readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<i64>,
}

/// Facts about the machine that belong with every measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSummary {
    /// The kernel's release.
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
    /// The worker's policy.
    #[serde(flatten)]
    pub policy: Policy,
    /// The process's memory is locked.
    pub memory_locked: bool,
    /// The processors it may run on; empty under `simulate`.
    pub cpus: Vec<usize>,
}

/// What a worker's section asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskedSummary {
    /// The policy. Its name is empty if the daemon does not report it.
    #[serde(flatten)]
    pub policy: Policy,
    /// The processors to pin to; empty if not pinned.
    pub cpus: Vec<usize>,
}

/// The result of one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerSummary {
    /// Its name.
    pub worker: String,
    /// The processor it is pinned to; `null` if it is pinned to several or none.
    pub cpu: Option<usize>,
    /// The clock that releases are computed on: `monotonic`, `tai` or `realtime`.
    pub clock: Cow<'static, str>,
    /// How many steps of that clock were noticed.
    pub clock_steps: u64,
    /// The most recent step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_step: Option<ClockStepSummary>,
    /// What the kernel granted.
    pub granted: GrantedSummary,
    /// What the kernel refused, each with the reason and the remedy.
    pub refused: Vec<String>,
    /// What the worker's section asks for.
    pub asked: AskedSummary,
    /// While the run lasts: how long the worker has made no progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_ns: Option<i64>,
    /// While the run lasts: processor time used in the last seconds, as a share of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share_now: Option<f64>,
    /// The time span that `cpu_share_now` covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share_now_ns: Option<i64>,
    /// Time spent in spin tails during the same span, as a share of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_share_now: Option<f64>,
    /// Processor time used, as a share of one processor.
    pub cpu_share: f64,
    /// Time spent in spin tails, as a share of one processor.
    pub spin_share: f64,
    /// With `spin-target`: whether the target fits within `spin-cpu-max`, judged by the oversleeps so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_target_affordable: Option<bool>,
    /// Number of sleeps.
    pub wakes: u64,
    /// How late the sleeps ended.
    pub oversleep_ns: Distribution,
}

impl WorkerSummary {
    /// Whether its policy or priority differs from what it asks for.
    pub(crate) fn is_otherwise(&self) -> bool {
        !self.asked.policy.name.is_empty() && self.asked.policy != self.granted.policy
    }

    /// Whether it may run on a processor that it did not ask for.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let (asked, granted) = (&self.asked.cpus, &self.granted.cpus);
        !asked.is_empty() && granted.iter().any(|cpu| !asked.contains(cpu))
    }
}

/// Formats processors as text: `0, 1`.
pub(crate) fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A step of the clock that a worker's releases are computed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockStepSummary {
    /// How far the clock jumped; negative if it jumped back.
    pub by_ns: i64,
    /// Time since the step was noticed.
    pub age_ns: i64,
}

/// What a task's recordings lost before a reload ended them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndedRecordingSummary {
    /// The task.
    pub task: String,
    /// The file; the most recent one if there are several.
    pub path: String,
    /// Rows, blocks and ticks, not counting replaced ones.
    pub lost: u64,
    /// Time since the last loss.
    pub lost_age_ns: i64,
}

/// Entries written to the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalSummary {
    /// Entries that the journal accepted.
    pub sent: u64,
    /// Entries dropped because the journal accepted none for too long.
    pub lost: u64,
}

/// The flight recorder's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightSummary {
    /// The file.
    pub path: String,
    /// The number of records it has room for; the oldest are overwritten.
    pub capacity: u64,
    /// Records written so far.
    pub records: u64,
    /// Records missing from the file because the disk was full or too slow.
    pub lost: u64,
    /// Why the most recent record could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Records that the workers sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordsSummary {
    /// Records that arrived.
    pub sent: u64,
    /// Records that found no room. They are missing from the histograms, but not from the counts.
    pub dropped: u64,
}
