//! One task's part of the [summary](super::Summary). Fields are only ever added.

use super::counts::{Causes, Counts, Share};
use super::distribution::Distribution;
use super::few::few;
use super::sums::Sums;
use super::value::{InputSummary, ValueSummary};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The state of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It ticks, or ticked until the end.
    #[default]
    Ticking,
    /// A tick of this task or of another on its worker does not return, or the worker does not wake up.
    Stalled,
    /// Its most recent tick failed, or too many ticks of the last 10 s did.
    Failing,
    /// Its device is absent.
    Waiting,
    /// The task was ended before the run ended.
    Disabled,
    /// While the run ends: its worker has ended, and its counts are final.
    Ended,
    /// A state that only a daemon of another version knows.
    #[serde(untagged)]
    Other(String),
}

impl TaskState {
    /// The word for this state in every output.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Ticking => "ticking",
            Self::Stalled => "stalled",
            Self::Failing => "failing",
            Self::Waiting => "waiting",
            Self::Disabled => "disabled",
            Self::Ended => "ended",
            Self::Other(word) => word,
        }
    }

    /// The state of a task whose summary does not report one.
    const fn unsaid() -> Self {
        Self::Other(String::new())
    }

    /// Whether the state is healthy or unreported. A state added by a later version counts as unhealthy.
    pub(crate) fn is_fine(&self) -> bool {
        matches!(self, Self::Ticking | Self::Ended) || *self == Self::unsaid()
    }
}

/// The result of one task. The counts in `causes` add up to `missed`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSummary {
    /// Its name.
    pub task: String,
    /// Its worker's name.
    pub worker: String,
    /// Ticks per second, as a fraction.
    pub rate: String,
    /// Its state. At the end of a run, `stalled` means that a tick has not returned.
    #[serde(default = "TaskState::unsaid")]
    pub state: TaskState,
    /// While the run lasts, in any state but `ticking`: the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_reason: Option<String>,
    /// Likewise, how long the task has been in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_since_ns: Option<i64>,
    /// The index of the tick that has not returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_tick: Option<u64>,
    /// While another thread holds an output's target because the task cannot: since when, why, and what ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Box<HeldSummary>>,
    /// What became of the task's releases.
    #[serde(flatten)]
    pub counts: Counts,
    /// Ticks whose run exceeded the budget.
    pub over_budget: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The task was ended before the run ended: by a panic, `on-error` or `on-overrun-limit`.
    pub disabled: bool,
    /// Started − release. A release that was given up counts with its lateness at that time.
    pub lateness_ns: Distribution,
    /// Finished − started.
    pub run_ns: Distribution,
    /// Finished − release.
    pub response_ns: Distribution,
    /// For the last task of a chain: how old the oldest measurement behind a tick's inputs was when the tick finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<Box<Distribution>>,
    /// With `max-latency`: how often it was exceeded.
    #[serde(flatten)]
    pub latency: Option<Box<LatencySummary>>,
    /// How many missed releases each cause explains.
    pub causes: Causes,
    /// The causes judged so far, which only grow. Present while some misses have no verdict yet; `causes` counts those as unknown or
    /// disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes_judged: Option<Causes>,
    /// Totals of earlier tasks with this name that reloads ended. All other fields count from this task's own start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_reload: Option<Box<Sums>>,
    /// For releases missed as `blocked`: how many each task caused.
    pub blockers: BTreeMap<String, u64>,
    /// The share of releases that may be missed, or of ticks that may fail, within the last ten seconds.
    pub max_missed: f64,
    /// While the run lasts: the cause of the most recent missed release with a known cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cause: Option<Cow<'static, str>>,
    /// Likewise, the time since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cause_age_ns: Option<i64>,
    /// While the run lasts: the most recent misses, newest first. Misses with the same cause within a second form one entry.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "few::<_, _, 64>")]
    pub last_misses: Vec<MissSummary>,
    /// While the run lasts: the histogram of `lateness_ns` in steps of about an eighth, as pairs of an upper edge in nanoseconds and a
    /// count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lateness_histogram_ns: Vec<(i64, u64)>,
    /// While the run lasts: the last ten seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_10s: Option<WindowSummary>,
    /// While the run lasts: the last minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_minute: Option<WindowSummary>,
    /// The task's values, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, ValueSummary>,
    /// The inputs that are bad now, by the name of the value that they read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, InputSummary>,
    /// The recording, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedSummary>,
    /// Under `simulate --replay`: what became of the task's releases when the recording was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_recorded: Option<Share>,
}

/// An output's target is held by a thread other than its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldSummary {
    /// The target holds its safe value. False if `safe = "hold"` leaves the target as it is, or if the safe value could not be written.
    pub is_safe: bool,
    /// For how long.
    pub since_ns: i64,
    /// Why, in a clause.
    pub why: String,
    /// What ends it, in a clause.
    pub ends: String,
}

/// Releases missed for the same cause within a short time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissSummary {
    /// The cause.
    pub cause: Cow<'static, str>,
    /// Who caused it, if known: a task, a worker or a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How many releases.
    pub missed: u64,
    /// The index of the last tick among them, or of the tick that gave them up; `None` if no record tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<u64>,
    /// The longest time from a release to the end of its tick, or until the release was given up; 0 if unknown.
    pub worst_ns: i64,
    /// Time since the most recent of them was noticed.
    pub age_ns: i64,
}

/// How often a task used measurements that were too old. Separate from [`TaskSummary`], because few tasks have such a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// `max-latency` in the task's section.
    pub max_latency_ns: i64,
    /// The number of ticks that used a measurement older than the limit when they finished. They do not count as `missed`.
    pub late_chains: u64,
    /// Their number per task that made the measurement, where that task is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub late_chains_by: BTreeMap<String, u64>,
}

/// What became of a task's releases in the last seconds. Separate from [`Counts`], because a window does not count ticks that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowSummary {
    /// The time it covers: up to a second more than its name says, and less after the start.
    pub span_ns: i64,
    /// Releases that came up.
    pub due: u64,
    /// Ticks that finished by their deadline.
    pub met: u64,
    /// Releases given up, and releases whose deadline passed before their tick finished.
    pub missed: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The largest lateness, including releases that were given up.
    pub lateness_max_ns: i64,
    /// With `max-latency`: ticks that used an older measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_chains: Option<u64>,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedSummary {
    /// The file.
    pub path: String,
    /// Rows of values written; lines, in a CSV of samples.
    pub rows: u64,
    /// Rows, blocks and ticks of this run that found no room, in memory or on the disk.
    pub lost: u64,
    /// The part of `lost` from before a reload restarted the task's recording. All other fields count from that restart.
    pub lost_before_reload: u64,
    /// The part of `lost` that newer data replaced, as `queue = "mailbox"` asks for.
    pub replaced: u64,
    /// Blocks of sound, pictures or samples written.
    pub blocks: u64,
    /// Frames of sound, or samples, in those blocks.
    pub samples: u64,
    /// Ticks written, in MCAP.
    pub ticks: u64,
    /// Bytes of rows, blocks and ticks together, without headers and padding.
    pub bytes: u64,
    /// Files started or continued.
    pub files: u64,
    /// Gaps in the stream of blocks, where data is missing.
    pub gaps: u64,
    /// While the run lasts: time since the last loss, not counting replaced data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_age_ns: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_not_said_is_none_and_one_that_is_not_known_stays_as_it_is() {
        let state = |text: &str| serde_json::from_str::<TaskSummary>(text).unwrap().state;
        assert_eq!((state("{}").word(), state("{}").is_fine()), ("", true));
        let other = state("{\"state\": \"dreaming\"}");
        assert_eq!((other.word(), other.is_fine()), ("dreaming", false));
        assert_eq!(state("{\"state\": \"stalled\"}"), TaskState::Stalled);
    }
}
