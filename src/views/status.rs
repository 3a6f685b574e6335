//! A snapshot of a running daemon, formatted for people. Pure.

use super::alarms::alarm_lines;
use super::layout::{columns, count, largest_first, wrap};
use super::lines::{self, guard_line, reading};
use super::readbacks::readback_lines;
use crate::snapshot::{
    CoolSummary, Counts, DaemonSummary, RecordedSummary, Summary, TaskSummary, WindowSummary, WorkerSummary, list,
};
use crate::time::{Age, Span};

const HEAD: [&str; 9] = ["task", "state", "due", "met", "missed", "1 min", "10 s", "late p99", "last cause"];

/// The snapshot as text of at most 80 columns, ending with a line feed. The first line says whether all is well, and if not, why.
/// `emphasis` turns on bold and red, for a terminal.
pub(crate) fn status(snapshot: &Summary, emphasis: bool) -> String {
    let none = DaemonSummary::default();
    let daemon = snapshot.daemon.as_deref().unwrap_or(&none);
    let mut text = sentence(&daemon.sentence, snapshot.well, emphasis);
    alarms(&mut text, snapshot, emphasis);
    wrap(&mut text, &daemon_line(daemon));
    for worker in &snapshot.workers {
        wrap(&mut text, &worker_line(worker));
    }
    if let Some(cool) = &snapshot.cool_threads {
        wrap(&mut text, &cool_line(cool, snapshot.guard.is_some()));
    }
    if let Some(line) = snapshot.guard.as_deref().and_then(guard_line) {
        wrap(&mut text, &line);
    }
    text.push('\n');
    let rows: Vec<_> = snapshot.tasks.iter().map(|task| (cells(task), !task.state.is_fine())).collect();
    columns(&mut text, HEAD.map(String::from), &rows, emphasis);
    let stalled = |task: &TaskSummary| {
        snapshot.workers.iter().any(|worker| worker.worker == task.worker && worker.stalled_ns.is_some())
    };
    let mut remarks: Vec<_> = snapshot.tasks.iter().flat_map(|task| remarks(task, stalled(task))).collect();
    remarks.extend(readback_lines(snapshot.readbacks.as_deref().unwrap_or_default()));
    if !remarks.is_empty() {
        text.push('\n');
    }
    remarks.iter().for_each(|line| wrap(&mut text, line));
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The start of the text, which says whether all is well.
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

/// The active alarms, or a line that none is active.
fn alarms(text: &mut String, snapshot: &Summary, emphasis: bool) {
    let is_any = snapshot.alarms.iter().flatten().any(|alarm| alarm.active);
    for line in alarm_lines(snapshot.alarms.as_deref()) {
        let mut wrapped = String::new();
        wrap(&mut wrapped, &line);
        match emphasis && is_any {
            true => *text += &format!("\x1b[31m{}\x1b[0m\n", wrapped.trim_end()),
            false => *text += &wrapped,
        }
    }
}

fn daemon_line(daemon: &DaemonSummary) -> String {
    // Before the first release there is no running time to show.
    let running = Some(daemon.running_ns).filter(|nanos| *nanos > 0);
    let running = running.map(|nanos| format!("running for {}, ", Span::from_nanos(nanos))).unwrap_or_default();
    let ready = if daemon.ready { "ready" } else { "starting" };
    let version = if daemon.version.is_empty() { "?" } else { &daemon.version };
    let mut line = format!("hertzd {version}, process {}, {running}{ready}", daemon.pid);
    if let Some(stale) = daemon.stale_ns {
        line += &format!("; all counts are {} old", Span::from_nanos(stale));
    }
    if daemon.reloads > 0 {
        let last = if daemon.last_reload_refused { "was refused" } else { "succeeded" };
        line += &format!("; reloads: {}, refused: {}, the last one {last}", daemon.reloads, daemon.reloads_refused);
    }
    if daemon.reloads_begun > daemon.reloads {
        line += "; a reload is under way";
    }
    if let Some(busy) = &daemon.busy {
        line += &format!("; {} for {}", busy.activity, Age(Span::from_nanos(busy.since_ns)));
    }
    line
}

/// Where all other threads and programs run.
fn cool_line(CoolSummary { cpus, pinned, apart, reason }: &CoolSummary, has_guard: bool) -> String {
    let mut line = format!("other threads and programs: on CPU {}", list(cpus));
    line += &match reason {
        None => format!(", apart from the workers on CPU {}", list(pinned)),
        Some(reason) => format!(", not apart from workers: {reason}"),
    };
    if *apart && has_guard {
        line += "; the thread of safe values on any";
    }
    line
}

fn worker_line(worker: &WorkerSummary) -> String {
    let mut line = lines::granted(worker);
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    if let (Some(now), Some(over)) = (worker.cpu_share_now, worker.cpu_share_now_ns) {
        line += &format!(", {} of a CPU in the last {}", share(now), Span::from_nanos(over));
    }
    line + &format!(", {} since the start", share(worker.cpu_share))
}

fn cells(task: &TaskSummary) -> [String; HEAD.len()] {
    let missed = |window: Option<WindowSummary>| window.map_or("?".into(), |window| count(window.missed));
    let Counts { due, met, missed: all, .. } = task.counts;
    let late = &task.lateness_ns;
    [
        task.task.clone(),
        task.state.word().to_owned(),
        count(due),
        count(met),
        count(all),
        missed(task.last_minute),
        missed(task.last_10s),
        if late.count == 0 { "-".into() } else { Span::from_nanos(late.p99).to_string() },
        task.last_cause.as_deref().unwrap_or("-").to_owned(),
    ]
}

/// What the table has no room for. While the task's worker is stalled, misses during the stall have not been judged yet.
fn remarks(task: &TaskSummary, stalled: bool) -> Vec<String> {
    let name = &task.task;
    let age = |nanos: i64| Age(Span::from_nanos(nanos));
    let mut lines = Vec::new();
    if task.state_reason.is_some() {
        lines.push(format!("{name}: {}", lines::state(task)));
    }
    if task.counts.missed > 0 {
        let blockers: Vec<_> = largest_first(&task.blockers).into_iter().map(|(task, _)| task).collect();
        let by = |cause: &str| match cause == "blocked" && !blockers.is_empty() {
            true => format!(" by {}", blockers.join(" and ")),
            false if stalled && cause == "unknown" => " so far".into(),
            false => String::new(),
        };
        let causes = largest_first(&task.causes).into_iter();
        let causes =
            causes.map(|(cause, count)| format!("{count} {cause}{}", by(cause))).collect::<Vec<_>>().join(", ");
        let last = task.last_cause_age_ns.map(|last| format!("; last cause found {} ago", age(last)));
        lines.push(format!("{name}: missed {}: {causes}{}", count(task.counts.missed), last.unwrap_or_default()));
    }
    if let Some(failed) = lines::failed(task) {
        let recent = task.last_10s.map(|window| format!(", {} of them in the last 10 s", window.errors));
        lines.push(failed + &recent.unwrap_or_default());
    }
    if let Some(held) = &task.held {
        let lasts = age(held.since_ns);
        let what = match held.is_safe {
            true => format!("another thread has held it at its safe value for {lasts}"),
            false => {
                format!(
                    "another thread has kept it from writing for {lasts}, and its target does not hold its safe value"
                )
            }
        };
        lines.push(format!("{name}: {what}: {}; that ends when {}", held.why, held.ends));
    }
    lines.extend(lines::ages(task));
    for (value, parts) in &task.values {
        lines.extend(reading(parts).map(|reading| format!("{name}: {value} {reading}")));
    }
    for (value, input) in &task.inputs {
        lines.push(format!("{name}: its input {value} is {}", input.trouble()));
    }
    if let Some((recorded, since)) = task.recorded.as_ref().and_then(|recorded| Some((recorded, recorded.lost_age_ns?)))
    {
        let RecordedSummary { path, lost, .. } = recorded;
        lines.push(format!("{name}: {path} has lost {lost} rows, blocks or ticks, the last {} ago", age(since)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn status(snapshot: &Value, emphasis: bool) -> String {
        super::status(&serde_json::from_value(snapshot.clone()).unwrap(), emphasis)
    }

    fn task(name: &str, state: &str, due: u64) -> Value {
        json!({"task": name, "state": state, "due": due, "met": due / 2, "missed": due / 2, "errors": 3,
            "last_10s": {"missed": 999_999, "errors": 2}, "last_minute": {"missed": 9_999_999},
            "lateness_ns": {"count": 9, "p99": 999_499_999}, "last_cause": "woken-late", "last_cause_age_ns": 3_200_000_000_i64,
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
