//! A snapshot of a running daemon for people. Pure: the JSON that its status socket sends in, text out.
//!
//! A daemon of another version may leave out any part: what is missing shows as `?`, or not at all.

use super::alarms::{AlarmSummary, alarm_lines};
use super::layout::{self, columns, most_first, short, wrap};
use super::readbacks::readback_lines;
use crate::snapshot::{HeldSummary, ReadbackSummary};
use crate::time::{Age, Span};
use serde::Deserialize;
use serde_json::Value;

const HEAD: [&str; 9] = ["task", "state", "due", "met", "missed", "1 min", "10 s", "late p99", "last cause"];

/// The snapshot as text of at most 80 columns, ending with a line feed; its first line says whether all is well, and if not,
/// why. `emphasis` turns on bold and red, for a terminal.
pub(crate) fn status(snapshot: &Value, emphasis: bool) -> String {
    let daemon = &snapshot["daemon"];
    let mut text = sentence(daemon["sentence"].as_str().unwrap_or_default(), snapshot["well"] != false, emphasis);
    alarms(&mut text, snapshot, emphasis);
    wrap(&mut text, &daemon_line(daemon));
    for worker in parts(snapshot, "workers") {
        wrap(&mut text, &worker_line(worker));
    }
    if let Some(line) = cool_line(snapshot) {
        wrap(&mut text, &line);
    }
    if let Some(line) = guard_line(&snapshot["guard"]) {
        wrap(&mut text, &line);
    }
    text.push('\n');
    let tasks: Vec<_> = parts(snapshot, "tasks").collect();
    let row = |task: &&Value| {
        (cells(task), task["state"].as_str().is_some_and(|state| !matches!(state, "ticking" | "ended")))
    };
    columns(&mut text, HEAD.map(String::from), &tasks.iter().map(row).collect::<Vec<_>>(), emphasis);
    let stalled = |task: &Value| {
        let mut workers = snapshot["workers"].as_array().into_iter().flatten();
        workers.any(|worker| worker["worker"] == task["worker"] && worker["stalled_ns"].is_i64())
    };
    let mut remarks: Vec<_> = tasks.iter().flat_map(|task| remarks(task, stalled(task))).collect();
    let readbacks = parts(snapshot, "readbacks").filter_map(|readback| ReadbackSummary::deserialize(readback).ok());
    remarks.extend(readback_lines(&readbacks.collect::<Vec<_>>()));
    if !remarks.is_empty() {
        text.push('\n');
    }
    remarks.iter().for_each(|line| wrap(&mut text, line));
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The beginning of it, which says whether all is well.
pub(crate) fn sentence(sentence: &str, well: bool, emphasis: bool) -> String {
    let mut text = String::new();
    wrap(
        &mut text,
        if sentence.is_empty() {
            "the daemon does not say whether all is well: it is another version"
        } else {
            sentence
        },
    );
    match (emphasis, well) {
        (false, _) => text,
        (true, true) => format!("\x1b[1m{}\x1b[0m\n", text.trim_end()),
        (true, false) => format!("\x1b[31m{}\x1b[0m\n", text.trim_end()),
    }
}

/// The alarms that are active, or that none is.
fn alarms(text: &mut String, snapshot: &Value, emphasis: bool) {
    let Some(alarms) = snapshot["alarms"].as_array() else { return };
    let alarms: Vec<_> = alarms.iter().filter_map(|alarm| AlarmSummary::deserialize(alarm).ok()).collect();
    for line in alarm_lines(Some(&alarms)) {
        let mut wrapped = String::new();
        wrap(&mut wrapped, &line);
        match emphasis && alarms.iter().any(|alarm| alarm.active) {
            true => *text += &format!("\x1b[31m{}\x1b[0m\n", wrapped.trim_end()),
            false => *text += &wrapped,
        }
    }
}

fn parts<'a>(snapshot: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    snapshot[name].as_array().into_iter().flatten()
}

fn daemon_line(daemon: &Value) -> String {
    // Before the first release there is no time to tell.
    let running = daemon["running_ns"].as_i64().filter(|nanos| *nanos > 0);
    let running = running.map(|nanos| format!("running for {}, ", Span::from_nanos(nanos))).unwrap_or_default();
    let ready = if daemon["ready"] == true { "ready" } else { "starting" };
    let mut line = format!("hertzd {}, process {}, {running}{ready}", word(&daemon["version"]), daemon["pid"]);
    if let Some(stale) = daemon["stale_ns"].as_i64() {
        line += &format!("; all counts are {} old", Span::from_nanos(stale));
    }
    if let (Some(reloads @ 1..), refused) = (daemon["reloads"].as_u64(), &daemon["reloads_refused"]) {
        let last = if daemon["last_reload_refused"] == true { "was refused" } else { "succeeded" };
        line += &format!("; reloads: {reloads}, refused: {refused}, the last one {last}");
    }
    if daemon["reloads_begun"].as_u64() > daemon["reloads"].as_u64() {
        line += "; a reload is under way";
    }
    if let Some(activity) = daemon["busy"]["activity"].as_str() {
        line += &format!("; {activity} for {}", age(&daemon["busy"]["since_ns"]));
    }
    line
}

fn policy(part: &Value) -> String {
    match part["priority"].as_u64() {
        Some(priority @ 1..) => format!("{} {priority}", word(&part["policy"])),
        _ => word(&part["policy"]),
    }
}

/// The thread that has safe values written, if it does not have the priority that it asked for.
fn guard_line(guard: &Value) -> Option<String> {
    let (granted, asked) = (policy(&guard["granted"]), policy(&guard["asked"]));
    let reason = guard["refused"][0].as_str().map(|refused| format!(": {refused}")).unwrap_or_default();
    let differs = guard.is_object() && granted != asked;
    differs.then(|| format!("thread of safe values: {granted} (asked for {asked}){reason}"))
}

/// Where all other threads run, and programs, if a worker is pinned.
fn cool_line(snapshot: &Value) -> Option<String> {
    let cool = &snapshot["cool_threads"];
    let list = |cpus: &Value| {
        let cpus: Vec<_> = cpus.as_array()?.iter().map(ToString::to_string).collect();
        Some(cpus.join(", "))
    };
    let (cpus, pinned) = (list(&cool["cpus"])?, list(&cool["pinned"])?);
    let mut line = format!("other threads and programs: on CPU {cpus}");
    line += &match cool["reason"].as_str() {
        None => format!(", apart from the workers on CPU {pinned}"),
        Some(reason) => format!(", not apart from workers: {reason}"),
    };
    if cool["apart"] == true && snapshot["guard"].is_object() {
        line += "; the thread of safe values on any";
    }
    Some(line)
}

fn worker_line(worker: &Value) -> String {
    let (granted, asked) = (policy(&worker["granted"]), policy(&worker["asked"]));
    let mut line = format!("worker {}: {granted}", word(&worker["worker"]));
    if worker["asked"].is_object() && asked != granted {
        line += &format!(" (asked for {asked})");
    }
    if let Some(cpu) = worker["cpu"].as_u64() {
        line += &format!(" on CPU {cpu}");
    }
    let cpus = |part: &'static str| worker[part]["cpus"].as_array().filter(|cpus| !cpus.is_empty());
    if let (Some(granted), Some(asked)) = (cpus("granted"), cpus("asked"))
        && granted.iter().any(|cpu| !asked.contains(cpu))
    {
        let asked: Vec<_> = asked.iter().map(ToString::to_string).collect();
        line += &format!(" (asked for CPU {})", asked.join(", "));
    }
    let share = |share: &Value| share.as_f64().map(|share| format!("{:.1} %", share * 100.0));
    if let Some(now) = share(&worker["cpu_share_now"]) {
        line += &format!(", {now} of a CPU in the last {}", span(&worker["cpu_share_now_ns"]));
    }
    if let Some(all) = share(&worker["cpu_share"]) {
        line += &format!(", {all} since the start");
    }
    line
}

fn cells(task: &Value) -> [String; HEAD.len()] {
    let cause = task["last_cause"].as_str().unwrap_or("-");
    [
        word(&task["task"]),
        word(&task["state"]),
        count(&task["due"]),
        count(&task["met"]),
        count(&task["missed"]),
        count(&task["last_minute"]["missed"]),
        count(&task["last_10s"]["missed"]),
        if task["lateness_ns"]["count"] == 0 { "-".into() } else { span(&task["lateness_ns"]["p99"]) },
        cause.into(),
    ]
}

/// What the table has no room for. While its worker does not advance, what was missed meanwhile is not judged yet.
fn remarks(task: &Value, stalled: bool) -> Vec<String> {
    let name = word(&task["task"]);
    let mut lines = Vec::new();
    if let Some(reason) = task["state_reason"].as_str() {
        let since = task["state_since_ns"].is_i64().then(|| format!(" for {}", age(&task["state_since_ns"])));
        lines.push(format!("{name}: {}{}: {reason}", word(&task["state"]), since.unwrap_or_default()));
    }
    if task["missed"].as_u64().is_some_and(|missed| missed > 0) {
        let numbers = |part: &'static str| {
            let counts = task[part].as_object().into_iter().flatten();
            let mut counts: Vec<_> =
                counts.filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?))).collect();
            most_first(&mut counts);
            counts
        };
        let blockers: Vec<_> = numbers("blockers").into_iter().map(|(task, _)| task).collect();
        let by = |cause: &str| match cause == "blocked" && !blockers.is_empty() {
            true => format!(" by {}", blockers.join(" and ")),
            false if stalled && cause == "unknown" => " so far".into(),
            false => String::new(),
        };
        let causes = numbers("causes").into_iter().map(|(cause, count)| format!("{count} {cause}{}", by(cause)));
        let causes = causes.collect::<Vec<_>>().join(", ");
        let missed = count(&task["missed"]);
        let last = &task["last_cause_age_ns"];
        let last = if last.is_i64() { format!("; last cause found {} ago", age(last)) } else { String::new() };
        lines.push(format!("{name}: missed {missed}: {causes}{last}"));
    }
    if let Some(errors @ 1..) = task["errors"].as_u64() {
        let recent = task["last_10s"]["errors"].as_u64();
        let recent = recent.map(|recent| format!(", {recent} of them in the last 10 s")).unwrap_or_default();
        let ticks = if errors == 1 { "tick" } else { "ticks" };
        lines.push(format!("{name}: {errors} {ticks} failed{recent}"));
    }
    if let Ok(held) = HeldSummary::deserialize(&task["held"]) {
        let lasts = Age(Span::from_nanos(held.since_ns));
        let what = match held.is_safe {
            true => format!("another thread has held it at its safe value for {lasts}"),
            false => {
                format!("another thread has kept it from writing for {lasts}, and its target was not made safe")
            }
        };
        lines.push(format!("{name}: {what}: {}; that ends when {}", held.why, held.ends));
    }
    let age = &task["age_ns"];
    if age.is_object() {
        let [p50, p99, max] = ["p50", "p99", "max"].map(|part| span(&age[part]));
        lines.push(format!("{name}: what it used was {p50} old at p50, {p99} at p99, {max} at most"));
    }
    if let (Some(late), Some(max_latency)) = (task["late_chains"].as_u64(), task["max_latency_ns"].as_i64()) {
        let by = task["late_chains_by"].as_object().into_iter().flatten();
        let mut by: Vec<_> = by.filter_map(|(name, count)| Some((name.as_str(), count.as_u64()?))).collect();
        most_first(&mut by);
        lines.push(format!("{name}: {}", layout::late_chains(late, Span::from_nanos(max_latency), &by)));
    }
    for (value, parts) in task["values"].as_object().into_iter().flatten() {
        let Some(last) = parts["last"].as_f64() else { continue };
        let unit = parts["unit"].as_str().filter(|unit| !unit.is_empty()).map(|unit| format!(" {unit}"));
        let age = parts["age_ns"].as_i64().map(|age| format!(", {} old", Age(Span::from_nanos(age))));
        let (unit, age) = (unit.unwrap_or_default(), age.unwrap_or_default());
        lines.push(format!("{name}: {value} {}{unit}{age}", short(last)));
    }
    let recorded = &task["recorded"];
    if let (Some(lost), Some(age)) = (recorded["lost"].as_u64(), recorded["lost_age_ns"].as_i64()) {
        let (path, age) = (word(&recorded["path"]), Age(Span::from_nanos(age)));
        lines.push(format!("{name}: {path} has lost {lost} rows, blocks or ticks, the last {age} ago"));
    }
    lines
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("?").into()
}

fn span(nanos: &Value) -> String {
    nanos.as_i64().map_or("?".into(), |nanos| Span::from_nanos(nanos).to_string())
}

/// As [`span`], of what is noticed by polling.
fn age(nanos: &Value) -> String {
    nanos.as_i64().map_or("?".into(), |nanos| Age(Span::from_nanos(nanos)).to_string())
}

fn count(value: &Value) -> String {
    value.as_u64().map_or("?".into(), layout::count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(name: &str, state: &str, due: u64) -> Value {
        json!({"task": name, "state": state, "due": due, "met": due / 2, "missed": due / 2, "errors": 3,
            "last_10s": {"missed": 999_999, "errors": 2}, "last_minute": {"missed": 9_999_999},
            "lateness_ns": {"p99": 999_499_999}, "last_cause": "woken-late", "last_cause_age_ns": 3_200_000_000_i64,
            "causes": {"blocked": 7, "woken-late": 40}, "blockers": {"log": 2, "report": 5}})
    }

    #[test]
    fn the_first_line_answers_and_no_line_is_longer_than_80_columns() {
        let mut failing = task("a-name-that-is-longer-than-any-other-task-has", "failing", u64::MAX);
        failing["state_reason"] = "reading: No such device (os error 19)".into();
        failing["state_since_ns"] = 12_000_000_000_i64.into();
        failing["values"] = json!({"temp": {"last": 41.25, "unit": "°C", "age_ns": 100_000_000}});
        let worker = json!({"worker": "main", "cpu": 1, "asked": {"policy": "fifo", "priority": 80},
            "granted": {"policy": "other", "priority": 0}, "cpu_share": 0.5, "cpu_share_now": 0.0894,
            "cpu_share_now_ns": 5_000_000_000_i64});
        let daemon = json!({"sentence": "not well: task x has been failing for 12 s: reading: No such device (os error 19)",
            "version": "0.1.0", "pid": 7, "running_ns": 90_000_000_000_i64, "ready": true, "stale_ns": 2_000_000_000_i64,
            "reloads": 2, "reloads_refused": 1, "last_reload_refused": true});
        let snapshot = json!({"well": false, "daemon": daemon, "workers": [worker],
            "tasks": [task("imu", "ticking", 1_000), failing],
            "guard": {"asked": {"policy": "fifo", "priority": 81}, "granted": {"policy": "other", "priority": 0},
                "refused": ["fifo priority 81 refused (no): late; ask"]}});
        let text = status(&snapshot, false);
        println!("{text}");
        assert!(text.starts_with("not well: task x has been failing for 12 s: reading"));
        let unwrapped = text.replace("\n  ", " ");
        for part in [
            "all counts are 2.00 s old",
            "worker main: other (asked for fifo 80) on CPU 1, 8.9 % of a CPU",
            "imu",
            "ticking",
            "woken-late",
            "imu: missed 500: 40 woken-late, 7 blocked by report and log; last cause found 3.20 s ago",
            "failing for 12.0 s: reading: No such",
            "temp 41.25 °C, 100 ms old",
            "thread of safe values: other (asked for fifo 81): fifo priority 81 refused (no): late; ask",
        ] {
            assert!(unwrapped.contains(part), "{part}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert!(status(&snapshot, true).starts_with("\x1b[31mnot well"));
        let as_asked =
            json!({"asked": {"policy": "fifo", "priority": 81}, "granted": {"policy": "fifo", "priority": 81}});
        assert!(!status(&json!({"guard": as_asked}), false).contains("safe values"));
    }

    #[test]
    fn what_a_stalled_worker_missed_is_unknown_so_far() {
        let mut task = task("imu", "ticking", 0);
        (task["missed"], task["causes"], task["worker"]) = (5.into(), json!({"unknown": 5}), "main".into());
        task["last_cause_age_ns"] = Value::Null;
        let status = |worker: Value| status(&json!({"tasks": [task], "workers": [worker]}), false);
        assert!(status(json!({"worker": "main", "stalled_ns": 900_000_000})).contains("missed 5: 5 unknown so far\n"));
        assert!(status(json!({"worker": "main"})).contains("missed 5: 5 unknown\n"));
    }

    #[test]
    fn what_has_just_happened_is_a_moment_ago_and_what_is_not_known_is_left_out() {
        let mut failing = task("imu", "failing", 10);
        failing["state_reason"] = "it rains".into();
        failing["state_since_ns"] = 0.into();
        failing["last_cause_age_ns"] = 0.into();
        failing["recorded"] = json!({"path": "a.csv", "lost": 3, "lost_age_ns": 0});
        failing["values"] = json!({"temp": {"last": 41.25, "unit": "°C", "age_ns": 0}});
        let mut disabled = task("lost", "disabled", 10);
        disabled["state_reason"] = "the reason was lost".into();
        let daemon =
            json!({"version": "0.1.0", "pid": 7, "running_ns": 0, "busy": {"activity": "opening", "since_ns": 0}});
        let text = status(&json!({"daemon": daemon, "tasks": [failing, disabled]}), false);
        let unwrapped = text.replace("\n  ", " ");
        assert!(!text.contains("0 ns") && !text.contains("for ?"), "{text}");
        for part in [
            "process 7, starting; opening for a moment",
            "imu: failing for a moment: it rains",
            "last cause found a moment ago",
            "°C, a moment old",
            "3 rows, blocks or ticks, the last a moment ago",
            "lost: disabled: the reason was lost",
        ] {
            assert!(unwrapped.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_answer_of_another_version_shows_what_it_has() {
        let text = status(&json!({"daemon": {}, "tasks": [{"task": "imu"}]}), false);
        assert!(text.contains("another version") && text.contains("imu"), "{text}");
    }
}
