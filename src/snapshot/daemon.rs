//! What a daemon reports about itself and its alarms. Plain values.

use serde::{Deserialize, Serialize};

/// The daemon itself, as the status socket shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSummary {
    /// Its process ID.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, in nanoseconds since 1970 in UTC, by the clock at that time; 0 if the daemon does not report it.
    pub started_utc_ns: i64,
    /// The files its configuration was read from; none for the embedded configuration.
    pub files: Vec<String>,
    /// Time since the epoch, in nanoseconds.
    pub running_ns: i64,
    /// All workers have run their first tick.
    pub ready: bool,
    /// Finished reloads, including refused ones.
    pub reloads: u64,
    /// Reloads started so far; one more than `reloads` while a reload is in progress.
    pub reloads_begun: u64,
    /// Another reload was requested and starts after the current one.
    pub reload_pending: bool,
    /// The age of the counts and histograms if the metrics thread is delayed; `None` if they are current.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_ns: Option<i64>,
    /// Reloads that were refused.
    pub reloads_refused: u64,
    /// The outcome of the most recent reload, for people; empty before the first.
    pub last_reload: String,
    /// The most recent reload was refused.
    pub last_reload_refused: bool,
    /// What a start, a reload or the end of tasks is waiting for; `None` if nothing.
    pub busy: Option<BusySummary>,
    /// One sentence: if all is well, what is running; otherwise the reason.
    pub sentence: String,
}

/// What the daemon is doing besides running its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BusySummary {
    /// A description for people.
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
    /// The value is out of its range, there is no good value, or the alarm is latched.
    pub active: bool,
    /// `normal`, `high`, `hihi`, `low`, `lolo`, `on` (its condition holds) or `bad` (no good value).
    pub level: String,
    /// `notice`, `warning` or `error`.
    pub severity: String,
    /// The value at the most recent tick; `null` if there was no good value.
    pub value: Option<f64>,
    /// Only the latch keeps this level: the value itself has returned from it.
    pub latched: bool,
    /// While the alarm is active: for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<i64>,
}
