//! The summary: plain numbers with units in their names, as `run --json` and `simulate --json` print them.
//!
//! Other programs read this. Fields are only ever added.

use super::Distribution;
use serde::Serialize;
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
    /// The machine it ran on.
    pub host: HostSummary,
    /// In the order of declaration.
    pub workers: Vec<WorkerSummary>,
    /// In the order of declaration.
    pub tasks: Vec<TaskSummary>,
    /// Records handed over by the workers.
    pub records: RecordsSummary,
    /// Entries written to the journal, where the log goes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalSummary>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantedSummary {
    /// Scheduling policy: `fifo`, `rr`, `deadline`, `other`; `virtual` under `simulate`.
    pub policy: String,
    /// Real-time priority in 1..=99; 0 where the policy has none.
    pub priority: u8,
    /// The process's memory is locked.
    pub memory_locked: bool,
}

/// The result of one worker.
#[derive(Clone, Debug, Serialize)]
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
    /// Processor time used, as a share of one processor.
    pub cpu_share: f64,
    /// Time spent in spin tails, as a share of one processor.
    pub spin_share: f64,
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
    /// A tick of it does not return.
    Stalled,
    /// It was ended before the run was.
    Disabled,
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
    /// How many missed releases each cause explains.
    pub causes: BTreeMap<&'static str, u64>,
    /// Of those that were blocked: how many by which task.
    pub blockers: BTreeMap<String, u64>,
    /// The task's values, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, ValueSummary>,
    /// The recording, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedSummary>,
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
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedSummary {
    /// The file.
    pub path: String,
    /// Rows of values written; in a CSV of samples, lines.
    pub rows: u64,
    /// Rows, blocks and ticks that found no room, in memory or on the disk.
    pub lost: u64,
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
}

/// Entries written to the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JournalSummary {
    /// Entries that the journal has taken.
    pub sent: u64,
    /// Entries that were dropped because the journal took none for too long.
    pub lost: u64,
}

/// Records handed over by the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordsSummary {
    /// Records that arrived.
    pub sent: u64,
    /// Records that found no room: they are missing from the histograms, not from the counts.
    pub dropped: u64,
}
