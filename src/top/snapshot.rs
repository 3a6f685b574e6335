//! What `top` reads of a daemon's snapshot. Plain values.
//!
//! A daemon of another version may leave out any part: what is missing shows as `?`, or not at all.

use crate::snapshot::{MANY, few, many_if_any};
use crate::time::NANOS_PER_SECOND;
use crate::views::AlarmSummary;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One answer of the status socket.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Snapshot {
    pub(crate) error: Option<String>, // nothing is known of the tasks yet
    pub(super) well: Option<bool>,
    pub(super) daemon: Daemon,
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub(super) workers: Vec<Worker>,
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub(super) tasks: Vec<Task>,
    #[serde(deserialize_with = "many_if_any")]
    pub(super) alarms: Option<Vec<AlarmSummary>>,
}

impl Snapshot {
    /// The instant that its counts are of, in nanoseconds since the epoch of the daemon.
    pub(super) fn counted_at(&self) -> i64 {
        self.daemon.running_ns.saturating_sub(self.daemon.stale_ns.unwrap_or(0))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Daemon {
    pub(super) pid: u32,
    pub(super) version: String,
    pub(super) running_ns: i64,
    pub(super) ready: bool,
    pub(super) stale_ns: Option<i64>,
    pub(super) sentence: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Worker {
    pub(super) worker: String,
    pub(super) cpu: Option<usize>,
    pub(super) granted: Policy,
    pub(super) asked: Option<Policy>,
    pub(super) stalled_ns: Option<i64>,
    pub(super) cpu_share: Option<f64>,
    pub(super) spin_share: Option<f64>,
    pub(super) cpu_share_now: Option<f64>,
    pub(super) cpu_share_now_ns: Option<i64>,
    pub(super) spin_share_now: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Policy {
    pub(super) policy: String,
    pub(super) priority: u8,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Task {
    pub(super) task: String,
    pub(super) worker: String,
    pub(super) rate: String,
    pub(super) state: String,
    pub(super) state_reason: Option<String>,
    pub(super) state_since_ns: Option<i64>,
    pub(super) due: Option<u64>,
    pub(super) met: Option<u64>,
    pub(super) missed: Option<u64>,
    pub(super) pending: Option<u64>,
    pub(super) ran: Option<u64>,
    pub(super) errors: Option<u64>,
    pub(super) lateness_ns: Distribution,
    pub(super) run_ns: Distribution,
    pub(super) response_ns: Distribution,
    pub(super) age_ns: Option<Distribution>,
    pub(super) lateness_histogram_ns: Vec<(i64, u64)>,
    pub(super) causes: BTreeMap<String, u64>,
    pub(super) last_cause: Option<String>,
    pub(super) last_cause_age_ns: Option<i64>,
    #[serde(deserialize_with = "few::<_, _, 64>")]
    pub(super) last_misses: Vec<Miss>,
    pub(super) last_10s: Option<Window>,
    pub(super) values: BTreeMap<String, Reading>,
}

impl Task {
    /// Whether it is as it should be: a state that a later version adds is not known to be.
    pub(super) fn is_fine(&self) -> bool {
        matches!(self.state.as_str(), "ticking" | "ended" | "")
    }

    /// Its period; 0 if its rate is not known.
    pub(super) fn period_ns(&self) -> i64 {
        let (over, under) = self.rate.split_once('/').unwrap_or(("0", "1"));
        let nanos = |text: &str| text.parse::<i64>().unwrap_or(0);
        nanos(under).saturating_mul(NANOS_PER_SECOND).checked_div(nanos(over)).unwrap_or(0)
    }

    /// What it missed in the last ten seconds.
    pub(super) fn missed_lately(&self) -> u64 {
        self.last_10s.map_or(0, |window| window.missed)
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Distribution {
    pub(super) count: u64,
    pub(super) min: i64,
    pub(super) p50: i64,
    pub(super) p90: i64,
    pub(super) p99: i64,
    pub(super) p99_9: i64,
    pub(super) max: i64,
    pub(super) mean: i64,
    pub(super) sum: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Window {
    pub(super) missed: u64,
    pub(super) lateness_max_ns: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Miss {
    pub(super) cause: String,
    pub(super) by: Option<String>,
    pub(super) missed: u64,
    pub(super) tick: Option<u64>,
    pub(super) worst_ns: i64,
    pub(super) age_ns: i64,
}

/// A value of a task.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reading {
    pub(super) last: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) unit: String,
    pub(super) age_ns: Option<i64>,
}
