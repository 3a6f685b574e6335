//! The parts of a snapshot that are scraped. A daemon of another version may leave out any of them.

use super::alarms::AlarmSummary;
use crate::snapshot::{HeldSummary, MANY, ReadbackSummary, few};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A snapshot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Scraped {
    pub well: Option<bool>,
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub workers: Vec<Worker>,
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub tasks: Vec<Task>,
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub alarms: Vec<AlarmSummary>,
    #[serde(deserialize_with = "few::<_, _, MANY>")]
    pub readbacks: Vec<ReadbackSummary>,
    pub records: Records,
    pub journal: Option<Journal>,
    pub daemon: Option<Daemon>,
    pub error: Option<String>, // why there is nothing else
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Daemon {
    pub pid: u64,
    pub version: String,
    pub started_utc_ns: i64,
    pub ready: bool,
    pub reloads: u64,
    pub reloads_refused: u64,
    pub last_reload_refused: bool,
    pub stale_ns: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Worker {
    pub worker: String,
    pub cpu: Option<u64>,
    pub clock: String,
    pub clock_steps: u64,
    pub granted: Granted,
    pub asked: Asked,
    pub stalled_ns: Option<i64>,
    pub cpu_share_now: Option<f64>,
    pub cpu_share: f64,
    pub spin_share: f64,
    pub wakes: u64,
    pub oversleep_ns: Spans,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Granted {
    pub policy: String,
    pub priority: u64,
    pub memory_locked: bool,
    pub cpus: Vec<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    pub policy: String,
    pub priority: u64,
    pub cpus: Vec<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Task {
    pub task: String,
    pub worker: String,
    pub rate: String,
    pub state: String,
    pub held: Option<HeldSummary>,
    pub pending: u64,
    #[serde(flatten)]
    pub counts: Counts,
    pub causes_judged: Option<BTreeMap<String, u64>>,
    pub before_reload: Option<Counts>,
    pub last_10s: Option<Window>,
    pub values: BTreeMap<String, Value>,
    pub recorded: Option<Recorded>,
}

/// What adds up over time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub due: u64,
    pub met: u64,
    pub missed: u64,
    pub ran: u64,
    pub skipped: u64,
    pub overruns: u64,
    pub over_budget: u64,
    pub errors: u64,
    pub late_chains: Option<u64>, // none: it has no limit of latency
    pub causes: BTreeMap<String, u64>,
    pub lateness_ns: Spans,
    pub run_ns: Spans,
    pub response_ns: Spans,
    pub age_ns: Option<Spans>, // where a chain ends
}

/// The part of a distribution that adds up.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Spans {
    pub count: u64,
    pub sum: f64,
    pub at_most: Vec<(u64, u64)>, // bounds, each with how many are at most so long; one that adds nothing is left out
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Window {
    pub lateness_max_ns: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Value {
    pub last: Option<f64>,
    pub unit: String,
    pub age_ns: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Recorded {
    pub rows: u64,
    pub lost: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Records {
    pub sent: u64,
    pub dropped: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Journal {
    pub sent: u64,
    pub lost: u64,
}

impl Counts {
    /// All these, one by one; not the distributions.
    pub(crate) fn numbers_mut(&mut self) -> [&mut u64; 8] {
        let Self { due, met, missed, ran, skipped, overruns, over_budget, errors, .. } = self;
        [due, met, missed, ran, skipped, overruns, over_budget, errors]
    }

    /// The distributions.
    pub(crate) fn spans_mut(&mut self) -> [&mut Spans; 3] {
        [&mut self.lateness_ns, &mut self.run_ns, &mut self.response_ns]
    }
}

impl Spans {
    /// How many are at most as long as this bound.
    pub(crate) fn at_most(&self, bound: u64) -> u64 {
        let known = self.at_most.partition_point(|(known, _)| *known <= bound);
        known.checked_sub(1).map_or(0, |last| self.at_most[last].1)
    }
}
