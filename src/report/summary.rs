//! What a summary, or the snapshot of a running daemon, tells of a run. Pure.

use super::model::{Ages, Counts, Kind, Machine, Miss, Run, Source, Spread, Task, Told, WORST, Worker};
use crate::time::Span;
use serde_json::Value;

/// The version of summaries that this reads.
const VERSION: u64 = 1;

/// The run that a summary is of, or an earlier part of it.
///
/// # Errors
/// Why it is none.
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
    let Some(listed) = summary["tasks"].as_array() else {
        return Err("no summary: it has no \"tasks\"; `hertzd run --json` prints one".into());
    };
    let daemon = summary.get("daemon").filter(|daemon| daemon.is_object());
    let kind = if daemon.is_some() { Kind::Snapshot } else { Kind::Summary };
    let length_ns = daemon.and_then(|daemon| daemon["running_ns"].as_i64()).map(|running| running.max(0));
    Ok(Run {
        source: Source { kind, name: name.to_owned() },
        well: summary["well"].as_bool(),
        sentence: daemon.map_or(&summary["reason"], |daemon| &daemon["sentence"]).as_str().map(str::to_owned),
        hertzd: daemon.and_then(|daemon| text(&daemon["version"])),
        pid: daemon.and_then(|daemon| u32::try_from(daemon["pid"].as_u64()?).ok()),
        began_utc_ns: None,
        length_ns,
        machine: machine(&summary["host"]),
        workers: match summary["workers"].as_array() {
            Some(workers) => Told::Known(workers.iter().map(worker).collect()),
            None => Told::not("This summary does not tell of workers."),
        },
        tasks: listed.iter().map(|part| task(part, kind)).collect(),
        bin_ns: None,
        worst_misses: match kind {
            Kind::Snapshot => Told::Known(latest_misses(listed, length_ns)),
            _ => Told::not(
                "A summary does not tell single misses, only how many each cause explains. A flight file, a running daemon or an MCAP recording does.",
            ),
        },
        worst_second: Told::not(format!(
            "{} does not tell single ticks. A flight file or an MCAP recording does.",
            article(kind)
        )),
        notes: notes(summary, listed),
    })
}

fn article(kind: Kind) -> &'static str {
    if kind == Kind::Snapshot { "The snapshot of a running daemon" } else { "A summary" }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or("unknown").to_owned()
}

fn machine(host: &Value) -> Told<Machine> {
    match host.is_object() {
        true => Told::Known(Machine {
            kernel: words(&host["kernel"]),
            cpus: host["cpus"].as_u64().unwrap_or(0),
            preempt: words(&host["preempt"]),
            clocksource: words(&host["clocksource"]),
        }),
        false => Told::not("This summary does not tell of the machine."),
    }
}

fn worker(part: &Value) -> Worker {
    let (granted, asked) = (&part["granted"], &part["asked"]);
    let policy = |of: &Value| match (of["policy"].as_str(), of["priority"].as_u64()) {
        (Some(policy), Some(priority @ 1..)) => Some(format!("{policy} {priority}")),
        (Some(policy), _) => Some(policy.to_owned()),
        _ => None,
    };
    let is_virtual = granted["policy"] == "virtual";
    let numbers = |list: &Value| list.as_array().map(|list| list.iter().filter_map(Value::as_u64).collect());
    Worker {
        worker: words(&part["worker"]),
        policy: words(&granted["policy"]),
        priority: granted["priority"].as_u64().unwrap_or(0),
        cpus: match part["cpu"].as_u64() {
            Some(cpu) => Some(vec![cpu]),
            None if is_virtual => Some(Vec::new()),
            None => numbers(&asked["cpus"]),
        },
        memory_locked: granted["memory_locked"].as_bool().filter(|_| !is_virtual),
        asked: policy(asked).filter(|asked| !is_virtual && Some(asked) != policy(granted).as_ref()),
        refused: part["refused"].as_array().into_iter().flatten().filter_map(text).collect(),
        cpu_share: part["cpu_share"].as_f64(),
        spin_share: part["spin_share"].as_f64(),
    }
}

fn task(part: &Value, kind: Kind) -> Task {
    let count = |key: &str| part[key].as_u64().unwrap_or(0);
    Task {
        task: words(&part["task"]),
        worker: text(&part["worker"]),
        rate: text(&part["rate"]),
        state: text(&part["state"]),
        counts: Counts {
            due: count("due"),
            met: count("met"),
            missed: count("missed"),
            pending: count("pending"),
            ran: count("ran"),
            skipped: count("skipped"),
            overruns: count("overruns"),
            errors: part["errors"].as_u64(),
        },
        causes: named(&part["causes"]),
        blockers: Told::Known(named(&part["blockers"])),
        lateness_ns: spread(&part["lateness_ns"], &part["lateness_histogram_ns"]),
        run_ns: spread(&part["run_ns"], &Value::Null),
        ages: spread(&part["age_ns"], &Value::Null).known().cloned().map(|age_ns| Ages {
            age_ns,
            max_latency_ns: part["max_latency_ns"].as_i64(),
            late_chains: part["late_chains"].as_u64(),
        }),
        over_time: Told::not(format!(
            "{} does not tell lateness over time. A flight file or an MCAP recording does.",
            article(kind)
        )),
    }
}

/// Counts by name, the largest first.
fn named(counts: &Value) -> Vec<(String, u64)> {
    let pairs = counts.as_object().into_iter().flatten();
    let mut pairs: Vec<_> = pairs.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect();
    pairs.retain(|(_, count)| *count > 0);
    pairs.sort_by(|(name, count), (other, than)| than.cmp(count).then(name.cmp(other)));
    pairs
}

fn spread(part: &Value, fine: &Value) -> Told<Spread> {
    let Some(count) = part["count"].as_u64() else { return Told::not("This summary does not tell it.") };
    let nanos = |key: &str| part[key].as_i64().unwrap_or(0);
    let pairs = |list: &Value| -> Vec<(i64, u64)> {
        let pairs = list.as_array().into_iter().flatten();
        pairs.filter_map(|pair| Some((pair[0].as_i64()?, pair[1].as_u64()?))).collect()
    };
    let mut spread = Spread {
        count,
        min: nanos("min"),
        p50: nanos("p50"),
        p90: nanos("p90"),
        p99: nanos("p99"),
        p99_9: nanos("p99_9"),
        max: nanos("max"),
        steps: 20,
        histogram: pairs(fine),
    };
    if spread.histogram.is_empty() {
        spread.steps = 3;
        spread.histogram = of_sums(&pairs(&part["at_most"]), count, spread.max);
    }
    Told::Known(spread)
}

/// What counts of all values up to each bound say of the values between two bounds.
fn of_sums(at_most: &[(i64, u64)], count: u64, max: i64) -> Vec<(i64, u64)> {
    let mut before = 0;
    let mut pairs = Vec::new();
    for (bound, sum) in at_most.iter().copied().chain([(max, count)]) {
        if sum > before {
            pairs.push((bound, sum - before));
            before = sum;
        }
    }
    pairs
}

/// A snapshot has the latest misses of each task; the worst of them.
fn latest_misses(tasks: &[Value], length: Option<i64>) -> Vec<Miss> {
    let mut all = Vec::new();
    for part in tasks {
        let name = words(&part["task"]);
        for miss in part["last_misses"].as_array().into_iter().flatten() {
            let (cause, by, missed) = (words(&miss["cause"]), text(&miss["by"]), miss["missed"].as_u64().unwrap_or(0));
            let age = miss["age_ns"].as_i64();
            let (worst_ns, tick) = (miss["worst_ns"].as_i64().filter(|worst| *worst > 0), miss["tick"].as_u64());
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
                _ => story += ". No record tells how late they were.",
            }
            if let Some(age) = age {
                story += &format!(" The latest of them was {} before the snapshot.", Span::from_nanos(age));
            }
            all.push(Miss {
                task: name.clone(),
                at_ns: length.zip(age).map(|(length, age)| length - age),
                tick,
                cause,
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

fn notes(summary: &Value, tasks: &[Value]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(dropped @ 1..) = summary["records"]["dropped"].as_u64() {
        notes.push(format!(
            "{} dropped because the metrics thread was too slow: counts are complete, but histograms and causes miss them.",
            plural(dropped, "record of a tick was", "records of ticks were")
        ));
    }
    if let Some(stale) = summary["daemon"]["stale_ns"].as_i64() {
        notes.push(format!("The counts are {} old: the daemon's metrics thread is held up.", Span::from_nanos(stale)));
    }
    let before: Vec<_> =
        tasks.iter().filter(|task| task["before_reload"].is_object()).map(|task| words(&task["task"])).collect();
    if let Some(first) = before.first() {
        let others = plural(before.len() as u64 - 1, "other task", "other tasks");
        let who = if before.len() == 1 { first.clone() } else { format!("{first} and {others}") };
        notes.push(format!("A reload started {who} again: all here counts from then on."));
    }
    if summary["workers"].as_array().into_iter().flatten().any(|worker| worker["granted"]["policy"] == "virtual") {
        notes.push("This run was simulated on a virtual clock: it says nothing of how punctual a machine is.".into());
    }
    notes
}
