//! The part of the [summary](super::Summary) that each task has. Fields are only ever added.

use super::counts::{Causes, Counts, Share};
use super::distribution::Distribution;
use super::few::few;
use super::sums::Sums;
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
    /// The word of a daemon of another version.
    #[serde(untagged)]
    Other(String),
}

impl TaskState {
    /// The word for it in every output.
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

    /// Of a task whose summary does not say it.
    const fn unsaid() -> Self {
        Self::Other(String::new())
    }

    /// Whether a task in it is as it should be, or its summary does not say it: a state that a later version adds is not known to be.
    pub(crate) fn is_fine(&self) -> bool {
        matches!(self, Self::Ticking | Self::Ended) || *self == Self::unsaid()
    }
}

/// The result of one task. `causes` add up to `missed`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSummary {
    /// Its name.
    pub task: String,
    /// Its worker's name.
    pub worker: String,
    /// Ticks per second, as a fraction.
    pub rate: String,
    /// Its state: at the end of a run `stalled` for a tick that has not returned.
    #[serde(default = "TaskState::unsaid")]
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
    /// What became of its releases.
    #[serde(flatten)]
    pub counts: Counts,
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
    pub causes: Causes,
    /// While some have no verdict yet, and count as unknown or disabled above: those that have one. They only grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes_judged: Option<Causes>,
    /// What tasks of its name came to that reloads have ended; all else counts from its own start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_reload: Option<Box<Sums>>,
    /// Of those that were blocked: how many by which task.
    pub blockers: BTreeMap<String, u64>,
    /// Share of the releases of the last ten seconds that may be missed, or of the ticks that may fail.
    pub max_missed: f64,
    /// While it runs: the cause of the latest missed release that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cause: Option<Cow<'static, str>>,
    /// Likewise, time since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cause_age_ns: Option<i64>,
    /// While it runs: what was missed last, the newest first; what one cause took within a second is one entry.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "few::<_, _, 64>")]
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
    pub as_recorded: Option<Share>,
}

/// That another thread than its task holds the target of an output.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissSummary {
    /// The cause.
    pub cause: Cow<'static, str>,
    /// Who it was, where that is known: a task, a worker, a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How many.
    pub missed: u64,
    /// The index of the tick that was latest of them, or that found them given up; `None`: no record says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<u64>,
    /// The longest time from a release to the end of its tick, or until it was given up; 0 where that is not known.
    pub worst_ns: i64,
    /// Time since the latest of them was noticed.
    pub age_ns: i64,
}

/// How often a task used measurements that were too old; apart from [`TaskSummary`], as few tasks have a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// `max-latency` of its section.
    pub max_latency_ns: i64,
    /// How many ticks used a measurement that was older when they had finished; they are not part of `missed`.
    pub late_chains: u64,
    /// Of those: how many by the measurement of which task, where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub late_chains_by: BTreeMap<String, u64>,
}

/// What became of a task's releases in the last seconds. Not [`Counts`]: a window does not count ticks that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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

/// One value's last, smallest and largest; all `null` when no tick had it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
