//! The summary as a table for people. Pure: numbers in, text out.

use crate::metrics::{Summary, TaskSummary, WorkerSummary};
use crate::time::Span;
use std::fmt::Write as _;

const HEAD: [&str; 10] =
    ["task", "rate", "due", "ran", "skipped", "overruns", "late p50", "late p99", "late max", "run p99"];

/// The summary as text, ending with a line feed. `emphasis` turns on bold and red, for a terminal.
pub(crate) fn table(summary: &Summary, emphasis: bool) -> String {
    let mut rows: Vec<_> = summary.tasks.iter().map(|task| (cells(task), task.skipped + task.overruns > 0)).collect();
    rows.insert(0, (HEAD.map(String::from), false));
    let mut widths = [0; HEAD.len()];
    for (row, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    let mut text = String::new();
    for (index, (row, missed)) in rows.iter().enumerate() {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            // Writing to a String does not fail, here and below.
            let _ = write!(line, "  {cell:>width$}");
        }
        let (on, off) = match (emphasis, index, missed) {
            (true, 0, _) => ("\x1b[1m", "\x1b[0m"),
            (true, _, true) => ("\x1b[31m", "\x1b[0m"),
            _ => ("", ""),
        };
        let _ = writeln!(text, "{on}{}{off}", line.trim_end());
    }
    for task in &summary.tasks {
        remarks(&mut text, task);
    }
    text.push('\n');
    for worker in &summary.workers {
        worker_line(&mut text, worker);
    }
    let host = &summary.host;
    let _ = writeln!(
        text,
        "Linux {}, preempt {}, {} CPUs, clock {}; {} records, {} dropped",
        host.kernel, host.preempt, host.cpus, host.clocksource, summary.records.sent, summary.records.dropped
    );
    text
}

fn cells(task: &TaskSummary) -> [String; HEAD.len()] {
    let span = |nanos| Span::from_nanos(nanos).to_string();
    [
        task.task.clone(),
        hertz(&task.rate),
        task.due.to_string(),
        task.ran.to_string(),
        task.skipped.to_string(),
        task.overruns.to_string(),
        span(task.lateness_ns.p50),
        span(task.lateness_ns.p99),
        span(task.lateness_ns.max),
        span(task.run_ns.p99),
    ]
}

/// `1000/1` as `1000 Hz`; a true fraction stays one.
fn hertz(rate: &str) -> String {
    format!("{} Hz", rate.strip_suffix("/1").unwrap_or(rate))
}

fn remarks(text: &mut String, task: &TaskSummary) {
    if !task.causes.is_empty() {
        let causes: Vec<_> = task.causes.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
        let _ = writeln!(text, "{}: overruns by cause: {}", task.task, causes.join(", "));
    }
    if task.errors > 0 {
        let ended = if task.disabled { "; the task was disabled" } else { "" };
        let ticks = if task.errors == 1 { "tick" } else { "ticks" };
        let _ = writeln!(text, "{}: {} {ticks} failed{ended}", task.task, task.errors);
    }
    if task.errors == 0 && task.disabled {
        let _ = writeln!(text, "{}: was disabled by its limit of overruns", task.task);
    }
    if task.over_budget > 0 {
        let times = if task.over_budget == 1 { "time" } else { "times" };
        let _ = writeln!(text, "{}: budget exceeded {} {times}", task.task, task.over_budget);
    }
    let mut absent = Vec::new();
    for (name, value) in &task.values {
        let (Some(last), Some(min), Some(max)) = (value.last, value.min, value.max) else {
            absent.push(name.as_str());
            continue;
        };
        let unit = if value.unit.is_empty() { String::new() } else { format!(" {}", value.unit) };
        let _ = writeln!(text, "{}: {name} {}{unit}, {} to {}", task.task, short(last), short(min), short(max));
    }
    if !absent.is_empty() {
        let _ = writeln!(text, "{}: no value of {} in this run", task.task, absent.join(", "));
    }
    if let Some(recorded) = &task.recorded {
        let things = [(recorded.rows, "rows"), (recorded.blocks, "blocks"), (recorded.ticks, "ticks")];
        let written: Vec<_> = things.iter().filter(|(n, _)| *n > 0).map(|(n, of)| format!("{n} {of}")).collect();
        let written = if written.is_empty() { "nothing".into() } else { written.join(", ") };
        let gaps = if recorded.gaps > 0 { format!(", {} gaps", recorded.gaps) } else { String::new() };
        let _ = writeln!(text, "{}: {written} in {}, {} lost{gaps}", task.task, recorded.path, recorded.lost);
    }
}

/// Up to three decimals, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn worker_line(text: &mut String, worker: &WorkerSummary) {
    let granted = &worker.granted;
    let priority = if granted.priority > 0 { format!(" {}", granted.priority) } else { String::new() };
    let cpu = worker.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let locked = if granted.memory_locked { "memory locked" } else { "memory not locked" };
    let _ = writeln!(
        text,
        "worker {}: {}{priority}{cpu}, {locked}; {} wakes, oversleep p50 {} p99 {}; {:.1} % of a CPU, {:.1} % spinning",
        worker.worker,
        granted.policy,
        worker.wakes,
        Span::from_nanos(worker.oversleep_ns.p50),
        Span::from_nanos(worker.oversleep_ns.p99),
        worker.cpu_share * 100.0,
        worker.spin_share * 100.0,
    );
}
