//! What a daemon says of itself, and of its alarms. Plain values.

use serde::{Deserialize, Serialize};

/// The daemon itself, as the status socket shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSummary {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, in nanoseconds since 1970 in UTC by the clock of that time; 0: it does not say.
    pub started_utc_ns: i64,
    /// The files its configuration was read from; none for the embedded one.
    pub files: Vec<String>,
    /// Time since the epoch, in nanoseconds.
    pub running_ns: i64,
    /// All workers have run their first tick.
    pub ready: bool,
    /// Reloads that are over, refused ones included.
    pub reloads: u64,
    /// Reloads that have begun so far; one more than `reloads` while one is under way.
    pub reloads_begun: u64,
    /// Another reload was requested, and begins after the one that is under way.
    pub reload_pending: bool,
    /// Age of the counts and histograms: the metrics thread is delayed. `None`: they are current.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_ns: Option<i64>,
    /// Reloads that were refused.
    pub reloads_refused: u64,
    /// The outcome of the latest reload, for people; empty before the first.
    pub last_reload: String,
    /// The latest reload was refused.
    pub last_reload_refused: bool,
    /// What a start, a reload or the end of tasks is waiting for; `None`: for nothing.
    pub busy: Option<BusySummary>,
    /// Whether all is well, and why not, in one sentence; else what runs.
    pub sentence: String,
}

/// What the daemon is doing beside its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BusySummary {
    /// For people.
    pub activity: String,
    /// For how long, in nanoseconds.
    pub since_ns: i64,
}

/// An alarm, active or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AlarmSummary {
    /// Its task.
    pub task: String,
    /// It is out of its range, has no good value, or is latched.
    pub active: bool,
    /// `normal`, `high`, `hihi`, `low`, `lolo`, `on` (its condition holds) or `bad` (no good value).
    pub level: String,
    /// `notice`, `warning` or `error`.
    pub severity: String,
    /// The value at the latest tick; `null`: there was no good one.
    pub value: Option<f64>,
    /// Its level lasts only because of its latch: the value has come back from it.
    pub latched: bool,
    /// While it is active: for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<i64>,
}
