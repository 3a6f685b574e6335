//! Lines about a task, a worker and the thread that triggers safe values, shared by several views. Pure.

use super::layout::{largest_first, short};
use crate::snapshot::{GuardSummary, LatencySummary, TaskSummary, ValueSummary, WorkerSummary, list};
use crate::time::{Age, Span};

/// The state of a task: how long it has lasted, and why.
pub(crate) fn state(task: &TaskSummary) -> String {
    let since = task.state_since_ns.map(|since| format!(" for {}", Age(Span::from_nanos(since)))).unwrap_or_default();
    let reason = task.state_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{since}{reason}", task.state.word())
}

/// How many ticks failed. `None`: none.
pub(super) fn failed(task: &TaskSummary) -> Option<String> {
    let ticks = if task.errors == 1 { "tick" } else { "ticks" };
    (task.errors > 0).then(|| format!("{}: {} {ticks} failed", task.task, task.errors))
}

/// How old the measurements behind a task's inputs were, and how many ticks used measurements that were too old. Empty if no chain ends at
/// the task.
pub(super) fn ages(task: &TaskSummary) -> impl Iterator<Item = String> {
    let age = task.age_ns.as_ref().map(|age| {
        let [p50, p99, max] = [age.p50, age.p99, age.max].map(Span::from_nanos);
        format!("what it used was {p50} old at p50, {p99} at p99, {max} at most")
    });
    let texts =
        age.into_iter().chain(task.latency.as_deref().map(|latency| late_chains(latency, task.age_ns.is_some())));
    texts.map(|text| format!("{}: {text}", task.task))
}

/// How many ticks used measurements older than `max-latency`, and from which tasks these came. `came`: whether any measurement came at all.
fn late_chains(latency: &LatencySummary, came: bool) -> String {
    let by = largest_first(&latency.late_chains_by);
    let of = by.iter().map(|(task, count)| format!("{count} of {task}")).collect::<Vec<_>>().join(", ");
    let of = if of.is_empty() { of } else { format!(": {of}") };
    let limit = format!("max-latency {}", Span::from_nanos(latency.max_latency_ns));
    let what = format!("a measurement older than {limit}");
    match latency.late_chains {
        0 if !came => format!("no measurement came that {limit} could apply to"),
        0 => format!("no tick used {what}"),
        1 => format!("1 tick used {what} (late-chain){of}"),
        count => format!("{count} ticks used {what} (late-chain){of}"),
    }
}

/// The latest of a value with its unit, age and quality; `None` if there never was one.
pub(crate) fn reading(value: &ValueSummary) -> Option<String> {
    let old = value.age_ns.map(|old| format!(", {} old", Age(Span::from_nanos(old)))).unwrap_or_default();
    let held = if value.quality == "held" { ", held" } else { "" };
    let number = |number: f64| format!("{}{}{old}{held}", short(number), unit(value));
    match (value.trouble(), value.last.or(value.last_good)) {
        (Some(trouble), Some(good)) => Some(format!("{trouble} (the last good one: {})", number(good))),
        (Some(trouble), None) => Some(format!("{trouble} (none was good)")),
        (None, last) => last.map(number),
    }
}

/// The unit of a value, to append to its number.
pub(crate) fn unit(value: &ValueSummary) -> String {
    if value.unit.is_empty() { String::new() } else { format!(" {}", value.unit) }
}

/// The policy and the CPU of a worker, and what it asked for if that differs.
pub(crate) fn granted(worker: &WorkerSummary) -> String {
    let mut line = format!("worker {}: {}", worker.worker, worker.granted.policy);
    if worker.is_otherwise() {
        line += &format!(" (asked for {})", worker.asked.policy);
    }
    if let Some(cpu) = worker.cpu {
        line += &format!(" on CPU {cpu}");
    }
    if worker.is_elsewhere() {
        line += &format!(" (asked for CPU {})", list(&worker.asked.cpus));
    }
    line
}

/// The thread that triggers safe values, if it did not get the priority it asked for.
pub(super) fn guard_line(GuardSummary { asked, granted, refused }: &GuardSummary) -> Option<String> {
    let reason = refused.first().map(|refused| format!(": {refused}")).unwrap_or_default();
    (granted != asked).then(|| format!("thread of safe values: {granted} (asked for {asked}){reason}"))
}
