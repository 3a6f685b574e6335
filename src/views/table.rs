//! The summary as a table for people. Pure: numbers in, text out.

use super::layout::{columns, largest_first, short, wrap};
use super::lines::{ages, failed, granted, guard_line, unit};
use super::readbacks::readback_lines;
use crate::metrics::Cause;
use crate::snapshot::{Counts, Distribution, Summary, TaskSummary, WorkerSummary};
use crate::time::Span;
use std::fmt::Write as _;

const HEAD: [&str; 8] = ["task", "rate", "met", "missed", "late p50", "late p99", "late max", "run p99"];

/// The summary as text of at most 80 columns, ending with a line feed. `emphasis` turns on bold and red, for a terminal.
pub(crate) fn table(summary: &Summary, emphasis: bool) -> String {
    let rows: Vec<_> = summary.tasks.iter().map(|task| (cells(task), task.counts.missed > 0)).collect();
    let mut text = String::new();
    columns(&mut text, HEAD.map(String::from), &rows, emphasis);
    let mut below = String::new();
    if summary.shadow {
        below += "SHADOW RUN: no output wrote anything; `applied` is what each would have written\n";
    }
    for task in &summary.tasks {
        remarks(&mut below, task);
    }
    for line in readback_lines(summary.readbacks.as_deref().unwrap_or_default()) {
        let _ = writeln!(below, "{line}");
    }
    below.push('\n');
    for worker in &summary.workers {
        worker_line(&mut below, worker);
    }
    if let Some(line) = summary.guard.as_deref().and_then(guard_line) {
        let _ = writeln!(below, "{line}");
    }
    let host = &summary.host;
    let _ = writeln!(
        below,
        "Linux {}, preempt {}, {} CPUs, clock {}; {} records, {} dropped",
        host.kernel, host.preempt, host.cpus, host.clocksource, summary.records.sent, summary.records.dropped
    );
    below.lines().for_each(|line| wrap(&mut text, line));
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn cells(task: &TaskSummary) -> [String; HEAD.len()] {
    let span = |of: &Distribution, nanos| if of.count > 0 { Span::from_nanos(nanos).to_string() } else { "-".into() };
    let (late, run) = (&task.lateness_ns, &task.run_ns);
    [
        task.task.clone(),
        hertz(&task.rate),
        task.counts.met.to_string(),
        task.counts.missed.to_string(),
        span(late, late.p50),
        span(late, late.p99),
        span(late, late.max),
        span(run, run.p99),
    ]
}

/// Formats a rate: `1000/1` as `1000 Hz`, `30000/1001` as `29.97 Hz`.
#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn hertz(rate: &str) -> String {
    let (over, under) = rate.split_once('/').unwrap_or((rate, "1"));
    match (over.parse::<u64>(), under.parse::<u64>()) {
        (Ok(over), Ok(under)) if under > 1 => {
            let hertz = over as f64 / under as f64;
            // Slow rates get four decimals.
            let digits = if hertz < 1.0 { 4 } else { 2 };
            format!("{hertz:.digits$} Hz")
        }
        _ => format!("{over} Hz"),
    }
}

fn remarks(text: &mut String, task: &TaskSummary) {
    let Counts { due, missed, skipped, overruns, .. } = task.counts;
    if missed > 0 {
        let blockers = largest_first(&task.blockers);
        let one = matches!(blockers[..], [(_, count)] if task.causes.get(Cause::Blocked.word()) == Some(&count));
        let blockers: Vec<_> =
            blockers.iter().map(|(task, n)| if one { (*task).to_owned() } else { format!("{task} {n}") }).collect();
        let by = |cause: &str| match (cause == Cause::Blocked.word(), blockers.is_empty()) {
            (true, false) => format!(" by {}", blockers.join(", ")),
            _ => String::new(),
        };
        let causes = largest_first(&task.causes).into_iter();
        let causes: String = causes.map(|(cause, count)| format!("; {count} {cause}{}", by(cause))).collect();
        let plural = if overruns == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "{}: missed {missed} of {due} ({overruns} overrun{plural}, {skipped} skipped){causes}",
            task.task
        );
    }
    match (failed(task), task.disabled) {
        (Some(failed), ended) => {
            let _ = writeln!(text, "{failed}{}", if ended { "; the task was disabled" } else { "" });
        }
        (None, true) => {
            let _ = writeln!(text, "{}: was disabled by its limit of overruns", task.task);
        }
        (None, false) => {}
    }
    if task.over_budget > 0 {
        let times = if task.over_budget == 1 { "time" } else { "times" };
        let _ = writeln!(text, "{}: budget exceeded {} {times}", task.task, task.over_budget);
    }
    for line in ages(task) {
        let _ = writeln!(text, "{line}");
    }
    let mut absent = Vec::new();
    for (name, value) in &task.values {
        if let Some(trouble) = value.trouble() {
            let _ = writeln!(text, "{}: {name} {trouble}", task.task);
        }
        let (Some(last), Some(min), Some(max)) = (value.last.or(value.last_good), value.min, value.max) else {
            if value.reason.is_none() {
                absent.push(name.as_str());
            }
            continue;
        };
        let unit = unit(value);
        let what = if value.last.is_some() { "" } else { "last good " };
        let _ = writeln!(text, "{}: {name} {what}{}{unit}, {} to {}", task.task, short(last), short(min), short(max));
    }
    if !absent.is_empty() {
        let _ = writeln!(text, "{}: no value of {} in this run", task.task, absent.join(", "));
    }
    if let Some(recorded) = &task.recorded {
        let things = [(recorded.rows, "rows"), (recorded.blocks, "blocks"), (recorded.ticks, "ticks")];
        let written: Vec<_> = things.iter().filter(|(n, _)| *n > 0).map(|(n, of)| format!("{n} {of}")).collect();
        let written = if written.is_empty() { "nothing".into() } else { written.join(", ") };
        let gaps = if recorded.gaps > 0 { format!(", {} gaps", recorded.gaps) } else { String::new() };
        let before = match recorded.lost_before_reload {
            0 => String::new(),
            before => format!(" ({before} of them before a reload)"),
        };
        let _ = writeln!(text, "{}: {written} in {}, {} lost{before}{gaps}", task.task, recorded.path, recorded.lost);
    }
}

fn worker_line(text: &mut String, worker: &WorkerSummary) {
    let locked = if worker.granted.memory_locked { "memory locked" } else { "memory not locked" };
    let _ = writeln!(
        text,
        "{}, {locked}; {} wakes, oversleep p50 {} p99 {}; {:.1} % of a CPU, {:.1} % spinning",
        granted(worker),
        worker.wakes,
        Span::from_nanos(worker.oversleep_ns.p50),
        Span::from_nanos(worker.oversleep_ns.p99),
        worker.cpu_share * 100.0,
        worker.spin_share * 100.0,
    );
    if worker.spin_target_affordable == Some(false) {
        let _ = writeln!(
            text,
            "  its spin-target is out of reach: it needs more than spin-cpu-max, or a longer tail than there is (500 µs)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{GrantedSummary, HostSummary, Policy, RecordedSummary, RecordsSummary, ValueSummary};
    use std::collections::BTreeMap;

    fn task(name: &str, rate: &str, ran: u64, skipped: u64, overruns: u64) -> TaskSummary {
        let late = Distribution { count: ran, p50: 143, p99: 999_499, max: 999_499_999, ..Distribution::default() };
        TaskSummary {
            task: name.into(),
            worker: "main".into(),
            rate: rate.into(),
            counts: Counts {
                due: ran + skipped,
                met: ran - overruns,
                missed: skipped + overruns,
                pending: None,
                ran,
                skipped,
                overruns,
            },
            lateness_ns: late.clone(),
            run_ns: late.clone(),
            response_ns: late,
            causes: if overruns > 0 { BTreeMap::from([("ran-long".into(), overruns)]) } else { BTreeMap::new() },
            ..TaskSummary::default()
        }
    }

    fn summary(tasks: Vec<TaskSummary>) -> Summary {
        let text = |text: &str| text.to_owned();
        let worker = WorkerSummary {
            worker: text("main"),
            cpu: Some(0),
            granted: GrantedSummary {
                policy: Policy { name: "fifo".into(), priority: 80 },
                memory_locked: true,
                cpus: vec![0],
            },
            cpu_share: 0.06,
            spin_share: 0.024,
            wakes: 10_379,
            oversleep_ns: Distribution { p50: 15_000, p99: 40_900, ..Distribution::default() },
            ..WorkerSummary::default()
        };
        let (kernel, preempt, clocksource) = (text("6.18.44-longer-than-usual"), text("dynamic"), text("tsc"));
        Summary {
            version: 1,
            well: true,
            host: HostSummary { kernel, cpus: 128, preempt, clocksource },
            workers: vec![worker],
            tasks: tasks.into_iter().map(Box::new).collect(),
            records: RecordsSummary { sent: 10_450, dropped: 0 },
            ..Summary::default()
        }
    }

    #[test]
    fn met_and_missed_come_first_and_each_miss_is_explained() {
        let shown = table(
            &summary(vec![task("control", "1000/1", 500, 500, 125), task("load", "30000/1001", 30, 0, 0)]),
            false,
        );
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "task         rate  met  missed  late p50  late p99  late max  run p99");
        assert_eq!(lines[1], "control   1000 Hz  375     625    143 ns    999 µs    999 ms   999 µs");
        assert_eq!(lines[2], "load     29.97 Hz   30       0    143 ns    999 µs    999 ms   999 µs");
        assert_eq!(lines[3], "control: missed 625 of 1000 (125 overruns, 500 skipped); 125 ran-long");
        assert_eq!(lines[4], "");
    }

    #[test]
    fn what_was_blocked_names_the_blockers() {
        let mut blocked = task("control", "1000/1", 500, 500, 125);
        blocked.causes = [("blocked".into(), 620), ("preempted".into(), 5)].into();
        blocked.blockers = [("report".to_owned(), 600), ("log".to_owned(), 20)].into();
        let shown = table(&summary(vec![blocked]), false);
        let line = "control: missed 625 of 1000 (125 overruns, 500 skipped);\n  620 blocked by report 600, log 20; 5 preempted\n";
        assert!(shown.contains(line), "{shown}");
        let mut once = task("control", "1000/1", 997, 2, 1);
        once.causes = [("blocked".into(), 3)].into();
        once.blockers = [("report".to_owned(), 3)].into();
        let shown = table(&summary(vec![once]), false);
        assert!(shown.contains("missed 3 of 999 (1 overrun, 2 skipped); 3 blocked by report\n"), "{shown}");
    }

    #[test]
    fn a_task_without_a_tick_shows_no_times() {
        let shown = table(&summary(vec![task("idle", "1/60", 0, 0, 0)]), false);
        let row = shown.lines().nth(1).unwrap_or_default();
        assert_eq!(row.split_whitespace().skip(5).collect::<Vec<_>>(), ["-"; 4], "{shown}");
    }

    #[test]
    fn it_fits_eighty_columns() {
        let mut long = task(&"n".repeat(64), "1000000/1", 9_999_999_999, 9_999_999_999, 999_999_999);
        long.causes = ["blocked", "own-debt", "page-fault", "preempted", "ran-long", "waited"]
            .map(|cause| (cause.into(), 99_999))
            .into();
        long.errors = 3;
        long.values = BTreeMap::from([(
            "temperature".to_owned(),
            ValueSummary {
                last: Some(-1.5),
                min: Some(-123_456.789),
                max: Some(123_456.789),
                unit: "°C".into(),
                age_ns: None,
                ..ValueSummary::default()
            },
        )]);
        long.recorded =
            Some(RecordedSummary { path: "measurements.csv".into(), rows: 99_999_999, ..RecordedSummary::default() });
        for tasks in [vec![long.clone()], vec![long, task("b", "1/86400", 1, 0, 0)]] {
            let shown = table(&summary(tasks), false);
            for line in shown.lines() {
                assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
            }
            assert!(shown.starts_with("task  ") && shown.contains("\nnnn…"), "{shown}");
        }
    }

    #[test]
    fn long_lines_continue_with_an_indent_and_lose_nothing() {
        let line = "word ".repeat(40);
        let mut text = String::new();
        wrap(&mut text, line.trim_end());
        assert!(text.lines().count() > 1 && text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
        let (first, second) = ("a".repeat(50), "b ".repeat(25));
        let mut text = String::new();
        wrap(&mut text, &format!("{first}; {}", second.trim_end()));
        assert_eq!(text, format!("{first}; \n  {}\n", second.trim_end()));
    }
}
