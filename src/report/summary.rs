//! Reads a run from a summary, or from a running daemon's snapshot. Pure.

use super::model::{
    Ages, Available, BadValue, Counts, Kind, Miss, Run, Source, Spread, Task, WORST, Worker, largest_first,
};
use crate::snapshot::{Distribution, MissSummary, Summary, TaskSummary, WorkerSummary};
use crate::time::Span;
use serde::Deserialize;
use serde_json::Value;

/// The version of summaries that this reads.
const VERSION: u64 = 1;

/// The run that a summary covers, or the part of it so far.
///
/// # Errors
/// Why it is not a summary.
pub(crate) fn of_summary(summary: &Value, name: &str) -> Result<Run, String> {
    match summary["version"].as_u64() {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "a summary of version {other}; this hertzd reads version {VERSION}: use the one that wrote it"
            ));
        }
        None => return Err("no summary: it has no \"version\"; `hertzd run --json` prints one".into()),
    }
    if !summary["tasks"].is_array() {
        return Err("no summary: it has no \"tasks\"; `hertzd run --json` prints one".into());
    }
    let well = summary["well"].as_bool();
    let summary =
        Summary::deserialize(summary).map_err(|error| format!("no summary that can be understood: {error}"))?;
    let daemon = summary.daemon.as_deref();
    let kind = if daemon.is_some() { Kind::Snapshot } else { Kind::Summary };
    let length_ns = daemon.map(|daemon| daemon.running_ns.max(0));
    Ok(Run {
        source: Source { kind, name: name.to_owned() },
        well,
        sentence: daemon.map_or_else(|| summary.reason.clone(), |daemon| text(&daemon.sentence)),
        hertzd: daemon.and_then(|daemon| text(&daemon.version)),
        pid: daemon.map(|daemon| daemon.pid).filter(|pid| *pid > 0),
        began_utc_ns: None,
        length_ns,
        machine: match summary.host.kernel.is_empty() {
            false => Available::Known(summary.host.clone()),
            true => Available::not("This summary does not describe the machine."),
        },
        workers: match summary.workers.is_empty() {
            false => Available::Known(summary.workers.iter().map(worker).collect()),
            true => Available::not("This summary does not describe workers."),
        },
        tasks: summary.tasks.iter().map(|of| task(of, kind)).collect(),
        bad_values: Available::Known(summary.tasks.iter().flat_map(|of| bad_values(of)).collect()),
        bin_ns: None,
        worst_misses: match kind {
            Kind::Snapshot => Available::Known(latest_misses(&summary.tasks, length_ns)),
            _ => Available::not(
                "A summary does not list single misses, only how many each cause explains. A flight file, a running daemon or an MCAP recording does.",
            ),
        },
        worst_second: Available::not(format!(
            "{} does not list single ticks. A flight file or an MCAP recording does.",
            article(kind)
        )),
        notes: notes(&summary),
    })
}

fn article(kind: Kind) -> &'static str {
    if kind == Kind::Snapshot { "The snapshot of a running daemon" } else { "A summary" }
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn worker(of: &WorkerSummary) -> Worker {
    let is_virtual = of.granted.policy.name == "virtual";
    Worker {
        worker: of.worker.clone(),
        policy: of.granted.policy.clone(),
        cpus: match of.cpu {
            Some(cpu) => Some(vec![cpu]),
            None if is_virtual => Some(Vec::new()),
            None => Some(of.asked.cpus.clone()),
        },
        memory_locked: (!is_virtual).then_some(of.granted.memory_locked),
        asked: (of.is_otherwise() && !is_virtual).then(|| of.asked.policy.to_string()),
        refused: of.refused.clone(),
        cpu_share: Some(of.cpu_share),
        spin_share: Some(of.spin_share),
    }
}

fn task(of: &TaskSummary, kind: Kind) -> Task {
    Task {
        task: of.task.clone(),
        worker: text(&of.worker),
        rate: text(&of.rate),
        state: text(of.state.word()),
        counts: Counts { releases: of.counts, errors: Some(of.errors) },
        causes: largest_first(of.causes.clone()),
        blockers: Available::Known(largest_first(of.blockers.clone())),
        lateness_ns: Available::Known(spread(&of.lateness_ns, &of.lateness_histogram_ns)),
        run_ns: Available::Known(spread(&of.run_ns, &[])),
        ages: of.age_ns.as_ref().map(|age| Ages {
            age_ns: spread(age, &[]),
            max_latency_ns: of.latency.as_ref().map(|latency| latency.max_latency_ns),
            late_chains: of.latency.as_ref().map(|latency| latency.late_chains),
        }),
        over_time: Available::not(format!(
            "{} does not show lateness over time. A flight file or an MCAP recording does.",
            article(kind)
        )),
    }
}

fn bad_values(of: &TaskSummary) -> impl Iterator<Item = BadValue> {
    let bad = of.values.iter().filter(|(_, reading)| reading.reason.is_some());
    bad.map(|(value, reading)| BadValue { task: of.task.clone(), value: value.clone(), reading: reading.clone() })
}

fn spread(all: &Distribution, fine: &[(i64, u64)]) -> Spread {
    let (steps, histogram) = match fine {
        [] => (3, of_sums(all)),
        fine => (20, fine.to_vec()),
    };
    Spread { all: all.clone(), steps, histogram }
}

/// Turns counts of all values up to each bound into counts between two bounds.
fn of_sums(all: &Distribution) -> Vec<(i64, u64)> {
    let mut before = 0;
    let mut pairs = Vec::new();
    let bounds = all.at_most.pairs().iter().map(|(bound, sum)| (i64::try_from(*bound).unwrap_or(i64::MAX), *sum));
    for (bound, sum) in bounds.chain([(all.max, all.count)]) {
        if sum > before {
            pairs.push((bound, sum - before));
            before = sum;
        }
    }
    pairs
}

/// The worst of the misses in a snapshot, which has the most recent ones of each task.
fn latest_misses(tasks: &[Box<TaskSummary>], length: Option<i64>) -> Vec<Miss> {
    let mut all = Vec::new();
    for task in tasks {
        for miss in &task.last_misses {
            let MissSummary { cause, by, missed, tick, worst_ns, age_ns } = miss.clone();
            let worst_ns = Some(worst_ns).filter(|worst| *worst > 0);
            let mut story = format!("{}: {cause}", plural(missed, "release was missed", "releases were missed"));
            if let Some(by) = &by {
                story += &format!(", by {by}");
            }
            match (tick, worst_ns) {
                (Some(tick), Some(worst)) => {
                    story += &format!(
                        ". The worst was found at tick {tick}: {} from its release to the end of the tick, or until it was given up.",
                        Span::from_nanos(worst)
                    );
                }
                _ => story += ". No record says how late they were.",
            }
            story += &format!(" The latest of them was {} before the snapshot.", Span::from_nanos(age_ns));
            all.push(Miss {
                task: task.task.clone(),
                at_ns: length.map(|length| length.saturating_sub(age_ns)),
                tick,
                cause: cause.into_owned(),
                by,
                missed,
                worst_ns,
                story,
            });
        }
    }
    all.sort_by_key(|miss| std::cmp::Reverse((miss.worst_ns, miss.missed)));
    all.truncate(WORST);
    all
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn notes(summary: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    if let dropped @ 1.. = summary.records.dropped {
        notes.push(format!(
            "{} dropped because the metrics thread was too slow: counts are complete, but histograms and causes miss them.",
            plural(dropped, "record of a tick was", "records of ticks were")
        ));
    }
    if let Some(stale) = summary.daemon.as_ref().and_then(|daemon| daemon.stale_ns) {
        notes.push(format!("The counts are {} old: the daemon's metrics thread is delayed.", Span::from_nanos(stale)));
    }
    let before = summary.tasks.iter().filter(|task| task.before_reload.is_some());
    let before: Vec<_> = before.map(|task| &task.task).collect();
    if let Some(first) = before.first() {
        let others = plural(before.len() as u64 - 1, "other task", "other tasks");
        let who = if before.len() == 1 { (*first).clone() } else { format!("{first} and {others}") };
        notes.push(format!("A reload started {who} again: all here counts from then on."));
    }
    if summary.workers.iter().any(|worker| worker.granted.policy.name == "virtual") {
        notes.push("This run was simulated on a virtual clock: it says nothing of how punctual a machine is.".into());
    }
    notes
}
