//! The content of a report, from any source. Plain values: a source fills in what it knows, and names what it lacks. All times are in
//! nanoseconds.

use crate::metrics::Histogram;
use crate::snapshot::{self, Distribution, HostSummary, Policy, Share, ValueSummary};
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of misses whose story a report tells.
pub(crate) const WORST: usize = 10;

/// Why a report made from ticks lists no bad values.
pub(crate) const NO_VALUES: &str =
    "A report from ticks reads no values. One of a summary or of a running daemon lists those that are bad.";

/// Maximum number of stretches of time that a run is divided into.
pub(crate) const BINS: usize = 240;

/// Maximum number of ticks of one task shown for the worst second.
pub(crate) const WORST_SECOND_TICKS: usize = 5_000;

/// A part of a report that its source may lack.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Available<T> {
    Known(T),
    /// The source does not have it; this sentence says why.
    Not {
        not_told: String,
    },
}

impl<T> Available<T> {
    pub(crate) fn not(sentence: impl Into<String>) -> Self {
        Self::Not { not_told: sentence.into() }
    }

    pub(crate) fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Not { .. } => None,
        }
    }

    /// The sentence, if the source lacks the part.
    pub(crate) fn why_not(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Not { not_told } => Some(not_told),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) source: Source,
    /// The source's own verdict, if it has one.
    pub(crate) well: Option<bool>,
    /// The source's reason, or the daemon's sentence. Without one, the report makes a sentence from the counts.
    pub(crate) sentence: Option<String>,
    /// The version of hertzd that ran, and its process.
    pub(crate) hertzd: Option<String>,
    pub(crate) pid: Option<u32>,
    /// The instant that times in the report count from, since 1970 (UTC); and the length of the time that it covers.
    pub(crate) began_utc_ns: Option<i64>,
    pub(crate) length_ns: Option<i64>,
    pub(crate) machine: Available<HostSummary>,
    pub(crate) workers: Available<Vec<Worker>>,
    /// In the order of the source.
    pub(crate) tasks: Vec<Task>,
    pub(crate) bad_values: Available<Vec<BadValue>>,
    /// The length of the stretches in [`Task::over_time`]; the first begins at 0.
    pub(crate) bin_ns: Option<i64>,
    /// At most [`WORST`], the worst first.
    pub(crate) worst_misses: Available<Vec<Miss>>,
    pub(crate) worst_second: Available<WorstSecond>,
    /// What readers must know besides: what was lost, left out or cut off.
    pub(crate) notes: Vec<String>,
}

/// What a report was made from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    /// A file or a socket.
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// From a running daemon.
    Snapshot,
    Summary,
    FlightFile,
    Recording,
}

/// A worker, and what the kernel granted it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Worker {
    pub(crate) worker: String,
    #[serde(flatten)]
    pub(crate) policy: Policy,
    /// Empty: not pinned. `None`: the source does not say.
    pub(crate) cpus: Option<Vec<usize>>,
    pub(crate) memory_locked: Option<bool>,
    /// What it asked for, if that is another policy or priority.
    pub(crate) asked: Option<String>,
    pub(crate) refused: Vec<String>,
    /// Of one CPU.
    pub(crate) cpu_share: Option<f64>,
    pub(crate) spin_share: Option<f64>,
}

/// A task. `met + missed + pending = due`; the causes add up to `missed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Task {
    pub(crate) task: String,
    pub(crate) worker: Option<String>,
    /// Ticks per second as a fraction: `1000/1`.
    pub(crate) rate: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) counts: Counts,
    pub(crate) causes: Vec<(String, u64)>, // largest first; none that is 0
    /// Releases that were blocked, by blocker.
    pub(crate) blockers: Available<Vec<(String, u64)>>,
    pub(crate) lateness_ns: Available<Spread>,
    pub(crate) run_ns: Available<Spread>,
    /// The age of the data that its ticks used; `None`: no chain ends with it, or the source does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ages: Option<Ages>,
    /// In order, without stretches in which nothing happened.
    pub(crate) over_time: Available<Vec<Bin>>,
}

/// A value that was bad at the end of the time covered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BadValue {
    pub(crate) task: String,
    pub(crate) value: String,
    #[serde(flatten)]
    pub(crate) reading: ValueSummary,
}

/// The age of the oldest measurement behind what a tick used, when the tick finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ages {
    pub(crate) age_ns: Spread,
    /// The largest allowed age, and how many ticks used an older measurement; `None`: there is no limit.
    pub(crate) max_latency_ns: Option<i64>,
    pub(crate) late_chains: Option<u64>,
}

/// The outcome of releases and ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    #[serde(flatten)]
    pub(crate) releases: snapshot::Counts,
    /// `None`: the source does not say.
    pub(crate) errors: Option<u64>,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Spread {
    #[serde(flatten)]
    pub(crate) all: Distribution,
    /// Histogram edges per decade: 20; or 3 (1, 2, 5) from 1 µs to 1 s, with everything below in one step.
    pub(crate) steps: u8,
    /// Pairs of an upper edge and the number of values between it and the edge before, in order; none that is 0.
    pub(crate) histogram: Vec<(i64, u64)>,
}

impl Spread {
    /// The distribution of a histogram's values.
    pub(crate) fn of(histogram: &Histogram) -> Self {
        Self { all: histogram.distribution(), steps: 20, histogram: histogram.coarse() }
    }
}

/// A stretch of a task's time, by the releases due in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Bin {
    pub(crate) begin_ns: i64, // since the beginning
    #[serde(flatten)]
    pub(crate) releases: Share,
    /// Ticks that started, and their lateness; 0 if there are none.
    pub(crate) ticks: u64,
    pub(crate) p50_ns: i64,
    pub(crate) p99_ns: i64,
    pub(crate) max_ns: i64,
}

/// Releases of a task missed for one cause, in one tick or close together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Miss {
    pub(crate) task: String,
    /// Since the beginning; `None`: unknown.
    pub(crate) at_ns: Option<i64>,
    pub(crate) tick: Option<u64>,
    pub(crate) cause: String,
    pub(crate) by: Option<String>,
    pub(crate) missed: u64,
    /// From the oldest of these releases to the end of its tick, or until it was given up; `None`: unknown.
    pub(crate) worst_ns: Option<i64>,
    /// What happened, in sentences.
    pub(crate) story: String,
}

/// The second with the most missed releases or, if none was missed, with the worst lateness.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WorstSecond {
    pub(crate) begin_ns: i64, // since the beginning
    pub(crate) missed: u64,
    pub(crate) tasks: Vec<SecondOfTask>, // those with a tick or a miss in it
}

/// What a task did in the worst second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SecondOfTask {
    pub(crate) task: String,
    pub(crate) ticks: Vec<SecondTick>, // in order, at most WORST_SECOND_TICKS
    /// Ticks left out beyond that number.
    pub(crate) left_out: u64,
}

/// A tick. Times count from the beginning of the second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SecondTick {
    pub(crate) n: u64,
    pub(crate) release_ns: i64,
    pub(crate) started_ns: i64,
    pub(crate) finished_ns: i64,
    /// Releases missed in it, and the cause of most of them.
    pub(crate) missed: u64,
    pub(crate) cause: Option<String>,
}

/// Counts by name, largest first; equal counts keep their order. None is 0.
pub(crate) fn largest_first<Name: Into<String>>(counts: impl IntoIterator<Item = (Name, u64)>) -> Vec<(String, u64)> {
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let mut counts: Vec<_> = counts.map(|(name, count)| (name.into(), count)).collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

/// The numbers of a run in the form of a summary. Unknown ones are missing.
pub(crate) fn as_summary(run: &Run) -> Value {
    let named = |pairs: &[(String, u64)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
    let tasks = run.tasks.iter().map(|task| {
        let mut numbers = json!(task.counts.releases);
        numbers["task"] = task.task.as_str().into();
        numbers["causes"] = json!(named(&task.causes));
        let others = [
            ("errors", task.counts.errors.map(Value::from)),
            ("blockers", task.blockers.known().map(|blockers| json!(named(blockers)))),
            ("lateness_ns", task.lateness_ns.known().map(|spread| json!(spread.all))),
            ("run_ns", task.run_ns.known().map(|spread| json!(spread.all))),
            ("late_chains", task.ages.as_ref().and_then(|ages| ages.late_chains).map(Value::from)),
        ];
        for (key, value) in others {
            if let Some(value) = value {
                numbers[key] = value;
            }
        }
        numbers
    });
    json!({"tasks": tasks.collect::<Vec<_>>()})
}
