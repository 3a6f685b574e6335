//! The summary: plain numbers with units in their names, as `run --json` and `simulate --json` print them.
//!
//! Other programs read this. Fields are only ever added.

use super::Distribution;
use super::before::{BeforeReload, BeforeReloadDropped};
use super::window::{Tally, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
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
    pub workers: Vec<WorkerSummary>,
    /// In the order of declaration.
    pub tasks: Vec<Box<TaskSummary>>,
    /// Recordings that lost something before a reload ended them, of tasks that are gone or are no longer recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recordings_ended: Vec<EndedRecordingSummary>,
    /// What tasks came to that reloads have ended, and that `before_reload` no longer tells by name: too many names came and went.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readbacks: Option<Vec<ReadbackSummary>>,
}

/// The priority of the thread that has safe values written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardSummary {
    /// What it asks for: above that of every worker, as far as there is more.
    pub asked: ThreadPolicySummary,
    /// What it has now, as the kernel says.
    pub granted: ThreadPolicySummary,
    /// What the kernel refused, with the reason and the remedy.
    pub refused: Vec<String>,
}

/// Where cool threads run, and the programs that hertzd starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadPolicySummary {
    /// Scheduling policy, as in [`GrantedSummary`]; `unknown` if the kernel does not say.
    pub policy: &'static str,
    /// Real-time priority in 1..=99; 0 where the policy has none.
    pub priority: u8,
}

/// What reading the target of an output back came to. A daemon of another version may leave out any part.
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
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GrantedSummary {
    /// Scheduling policy: `fifo`, `rr`, `deadline`, `other`; `virtual` under `simulate`.
    pub policy: String,
    /// Real-time priority in 1..=99; 0 where the policy has none.
    pub priority: u8,
    /// The process's memory is locked.
    pub memory_locked: bool,
    /// The processors it may run on; empty under `simulate`.
    pub cpus: Vec<usize>,
}

/// What the section of a worker asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AskedSummary {
    /// Scheduling policy, as in [`GrantedSummary`].
    pub policy: &'static str,
    /// Real-time priority; 0 where the policy has none.
    pub priority: u8,
    /// The processors to be pinned to; empty: not pinned.
    pub cpus: Vec<usize>,
}

/// The result of one worker.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkerSummary {
    /// Its name.
    pub worker: String,
    /// The processor it is pinned to; `null`: several, or none.
    pub cpu: Option<usize>,
    /// The clock that releases are computed on: `monotonic`, `tai` or `realtime`.
    pub clock: &'static str,
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

/// A step of the clock that a worker's releases are computed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockStepSummary {
    /// How far the clock went forward; negative: back.
    pub by_ns: i64,
    /// Time since it was noticed.
    pub age_ns: i64,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It ticks, or ticked until the end.
    #[default]
    Ticking,
    /// A tick of it, or of its worker, does not return, or the worker does not wake up.
    Stalled,
    /// Its latest tick failed, or too many of the last 10 s.
    Failing,
    /// Its device is away.
    Waiting,
    /// It was ended before the run was.
    Disabled,
    /// While the run ends: its worker has ended, and its counts are final.
    Ended,
}

/// The result of one task. `ran + skipped = due`, and `met + missed + pending = due`; `causes` add up to `missed`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TaskSummary {
    /// Its name.
    pub task: String,
    /// Its worker's name.
    pub worker: String,
    /// Ticks per second, as a fraction.
    pub rate: String,
    /// Its state: at the end of a run `stalled` for a tick that has not returned.
    pub state: TaskState,
    /// While it runs, in another state than `ticking`: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_reason: Option<String>,
    /// Likewise, for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_since_ns: Option<i64>,
    /// The index of the tick that does not return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_tick: Option<u64>,
    /// While another thread holds the target of an output, as its task cannot: since when, why, and what ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Box<HeldSummary>>,
    /// Releases that came up.
    pub due: u64,
    /// Ticks that finished by their deadline.
    pub met: u64,
    /// Releases given up, and ticks that finished after their deadline: `skipped + overruns`.
    pub missed: u64,
    /// Due, but neither finished nor past the deadline; 0 when the run has ended.
    pub pending: u64,
    /// Ticks run.
    pub ran: u64,
    /// Releases given up.
    pub skipped: u64,
    /// Ticks whose response exceeded the deadline.
    pub overruns: u64,
    /// Ticks whose run exceeded the budget.
    pub over_budget: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The task was ended before the run was: by a panic, `on-error` or `on-overrun-limit`.
    pub disabled: bool,
    /// Started − release; releases given up count at the lateness they had then.
    pub lateness_ns: Distribution,
    /// Finished − started.
    pub run_ns: Distribution,
    /// Finished − release.
    pub response_ns: Distribution,
    /// Where a chain of tasks that take values from each other ends with this one: how old the oldest measurement behind what its ticks took
    /// was when they had finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<Box<Distribution>>,
    /// With `max-latency`: what came of that.
    #[serde(flatten)]
    pub latency: Option<Box<LatencySummary>>,
    /// How many missed releases each cause explains.
    pub causes: BTreeMap<&'static str, u64>,
    /// While some have no verdict yet, and count as unknown or disabled above: those that have one. They only grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes_judged: Option<BTreeMap<&'static str, u64>>,
    /// What tasks of its name came to that reloads have ended; all else counts from its own start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_reload: Option<Box<BeforeReload>>,
    /// Of those that were blocked: how many by which task.
    pub blockers: BTreeMap<String, u64>,
    /// Share of the releases of the last ten seconds that may be missed, or of the ticks that may fail.
    pub max_missed: f64,
    /// While it runs: the cause of the latest missed release that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cause: Option<&'static str>,
    /// Likewise, time since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cause_age_ns: Option<i64>,
    /// While it runs: what was missed last, the newest first; what one cause took within a second is one entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_misses: Vec<MissSummary>,
    /// While it runs: the histogram of `lateness_ns` in steps of an eighth, as pairs of an upper edge in nanoseconds and a count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lateness_histogram_ns: Vec<(i64, u64)>,
    /// While it runs: the last ten seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_10s: Option<WindowSummary>,
    /// While it runs: the last minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_minute: Option<WindowSummary>,
    /// The task's values, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, ValueSummary>,
    /// The recording, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedSummary>,
    /// Under `simulate --replay`: what became of the task's releases when the recording was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_recorded: Option<PastSummary>,
}

/// That another thread than its task holds the target of an output. A daemon of another version may leave out any part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldSummary {
    /// It holds its safe value. False: it is left as it is by `safe = "hold"`, or the safe value could not be written.
    pub is_safe: bool,
    /// For how long.
    pub since_ns: i64,
    /// Why, in a clause.
    pub why: String,
    /// What ends it, in a clause.
    pub ends: String,
}

/// Releases that were missed for one cause, close together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MissSummary {
    /// The cause.
    pub cause: &'static str,
    /// Who it was, where that is known: a task, a worker, a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How many.
    pub missed: u64,
    /// The index of the tick that was latest of them, or that found them given up; `None`: no record tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<u64>,
    /// The longest time from a release to the end of its tick, or until it was given up; 0 where that is not known.
    pub worst_ns: i64,
    /// Time since the latest of them was noticed.
    pub age_ns: i64,
}

/// What a recording tells of a task's releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PastSummary {
    /// Releases that came up.
    pub due: u64,
    /// Releases given up, and ticks that finished after their deadline.
    pub missed: u64,
}

/// How often a task used measurements that were too old; apart from [`TaskSummary`], as few tasks have a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// `max-latency` of its section.
    pub max_latency_ns: i64,
    /// How many ticks used a measurement that was older when they had finished; they are not part of `missed`.
    pub late_chains: u64,
    /// Of those: how many by the measurement of which task, where that is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub late_chains_by: BTreeMap<String, u64>,
}

/// What became of a task's releases in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WindowSummary {
    /// The time it covers: up to a second more than its name says, less after the start.
    pub span_ns: i64,
    /// Releases that came up.
    pub due: u64,
    /// Ticks that finished by their deadline.
    pub met: u64,
    /// Releases given up, and those whose deadline passed without the end of their tick.
    pub missed: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The largest lateness, also of releases given up.
    pub lateness_max_ns: i64,
    /// With `max-latency`: ticks that used an older measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_chains: Option<u64>,
}

impl From<Window> for WindowSummary {
    fn from(Window { span, tally, worst }: Window) -> Self {
        let Tally { due, met, missed, errors } = tally;
        Self { span_ns: span.nanos(), due, met, missed, errors, lateness_max_ns: worst.nanos(), late_chains: None }
    }
}

/// One value's last, smallest and largest; all `null` when no tick had it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueSummary {
    /// The latest.
    pub last: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// Time since the start of the tick that had the latest.
    pub age_ns: Option<i64>,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedSummary {
    /// The file.
    pub path: String,
    /// Rows of values written; in a CSV of samples, lines.
    pub rows: u64,
    /// Rows, blocks and ticks that found no room, in memory or on the disk, in this run.
    pub lost: u64,
    /// Of those, the ones that the task's recording lost before a reload restarted it; all else counts from there.
    pub lost_before_reload: u64,
    /// Of those, the ones that a newer one replaced, as `queue = "mailbox"` asks for.
    pub replaced: u64,
    /// Blocks of sound, pictures or samples written.
    pub blocks: u64,
    /// Frames of sound, or samples, in those blocks.
    pub samples: u64,
    /// Ticks written, in MCAP.
    pub ticks: u64,
    /// Bytes of all these, headers and padding not counted.
    pub bytes: u64,
    /// Files begun or continued.
    pub files: u64,
    /// Gaps in the stream of blocks: something is missing there.
    pub gaps: u64,
    /// While it runs: time since something was lost, other than what was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_age_ns: Option<i64>,
}

/// What the recordings of a task lost that a reload has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JournalSummary {
    /// Entries that the journal has taken.
    pub sent: u64,
    /// Entries that were dropped because the journal took none for too long.
    pub lost: u64,
}

/// The file of the flight recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordsSummary {
    /// Records that arrived.
    pub sent: u64,
    /// Records that found no room: they are missing from the histograms, not from the counts.
    pub dropped: u64,
}
