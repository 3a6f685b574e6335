//! What hertzd costs as it grows: processor time per tick, memory, and the time of a start, a `status` and a `check`, from 1 to
//! 100,000 tasks and from 1 to 16 workers. Prints the tables of docs/measurements/scale.md.
//!
//!     cargo bench --bench scale
//!     cargo bench --bench scale -- 1 100 10000     only these numbers of tasks, on one worker
//!
//! Last come tasks of several rates on one worker for a minute: how many releases were due, and how far the mean rate of their
//! starts can be off.
//!
//! Every run is a `hertzd run` of its own, with all tasks due at the same instants. The runs take turns, so that other load on
//! the machine meets all of them alike; the medians of the rounds are printed.

#[path = "../tests/support/time.rs"]
mod time;

use hertzd::internals::{Clock, KernelClock};
use hertzd::time::{Instant, Span};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use time::pause;

const HERTZD: &str = env!("CARGO_BIN_EXE_hertzd");

/// All tasks together, in ticks a second: the same in every run.
const TICKS: u64 = 20_000;

/// Tasks in a file: it may have 1 MiB.
const IN_A_FILE: u64 = 10_000;

/// A run.
#[derive(Clone, Copy)]
struct Size {
    tasks: u64,
    workers: u64,
    ticks: u64, // a second
}

/// When a run is looked at, and how long it is.
struct Timing {
    steady: Span, // from its start: by then all have started, and the first ticks of all have been entered
    until: Span,  // the end of what is measured
    length: Span,
}

impl Size {
    fn period(self) -> Span {
        Span::from_nanos(i64::try_from(1_000_000_000 * self.tasks / self.ticks).expect("a few seconds"))
    }

    /// What is measured is a whole number of periods, since all ticks of one come at once; and, where that is not too long, of as
    /// many as the metrics keep of each task before they enter them together.
    fn timing(self) -> Timing {
        const KEPT: i64 = 11;
        let period = self.period().nanos();
        let unit = if period * KEPT <= 6_000_000_000 { period * KEPT } else { period };
        let steady = (2 * period).max(3_000_000_000);
        let until = steady + unit * (2_000_000_000_i64 / unit).max(1);
        let rest = 1_500_000_000 + period; // for a `status`
        let [steady, until, length] = [steady, until, until + rest].map(Span::from_nanos);
        Timing { steady, until, length }
    }
}

/// What was measured of one, in the order of the columns.
type Row = Vec<f64>;

const COLUMNS: [(&str, usize); 11] = [
    ("worker, ns a tick", 0),
    ("metrics thread", 0),
    ("process", 0),
    ("peak, MB", 1),
    ("locked, MB", 1),
    ("above 8 MB, KB a task", 1),
    ("records lost", 0),
    ("missed, %", 2),
    ("start and stop, s", 2),
    ("`status`, s", 2),
    ("`check`, s", 2),
];

/// What /proc says of a process. It lives on as the last that was read.
#[derive(Clone, Copy, Default)]
struct Seen {
    peak: f64,               // VmHWM, in kB
    locked: f64,             // VmLck, in kB
    used: [Option<Used>; 2], // a while after the start, and by the last look
}

/// Processor time in nanoseconds by an instant.
#[derive(Clone, Copy)]
struct Used {
    at: Instant,
    metrics: f64,
    process: f64,
}

fn write_config(folder: &Path, size: Size) -> PathBuf {
    let path = folder.join("scale.toml");
    let more = folder.join("scale.d");
    fs::create_dir(&more).expect("a new folder");
    let mut text = String::new();
    // Writing to a String does not fail.
    for worker in 0..size.workers {
        let _ = writeln!(text, "[worker.w{worker}]");
    }
    fs::write(&path, text).expect("a new file");
    for (part, first) in (0..size.tasks).step_by(usize::try_from(IN_A_FILE).unwrap_or(1)).enumerate() {
        let mut text = String::new();
        for task in first..size.tasks.min(first + IN_A_FILE) {
            let period = size.period().nanos();
            let worker = task % size.workers;
            let _ = writeln!(text, "[task.t{task}]\nkind = \"load\"\nperiod = \"{period}ns\"\nworker = \"w{worker}\"");
        }
        fs::write(more.join(format!("{part:03}.toml")), text).expect("a new file");
    }
    path
}

/// Looks at its memory, and while it is `steady` at the processor time it has used.
fn look(child: &Child, seen: &mut Seen, steady: bool) {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let number =
        |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok());
    // A process that has ended, and was not waited for, has no memory.
    let (Some(peak), Some(locked)) = (number("VmHWM:"), number("VmLck:")) else { return };
    (seen.peak, seen.locked) = (peak, locked);
    if !steady {
        return;
    }
    let mut used = Used { at: KernelClock::monotonic().now(), metrics: 0.0, process: 0.0 };
    for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let Some(Ok(time)) = text.split(' ').next().map(str::parse::<f64>) else { return };
        used.process += time;
        used.metrics += if name.trim() == "hertzd-metrics" { time } else { 0.0 };
    }
    seen.used = [seen.used[0].or(Some(used)), Some(used)];
}

/// Runs `hertzd` to its end, and says how long that took.
fn timed(arguments: &[&str]) -> Span {
    let clock = KernelClock::monotonic();
    let begun = clock.now();
    let done = Command::new(HERTZD).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(done.expect("hertzd starts").code().is_some_and(|code| code <= 1), "{arguments:?}");
    clock.now() - begun
}

fn run(size: Size, measure: bool) -> (Row, Value) {
    let mut timing = size.timing();
    if !measure {
        timing = Timing { steady: Span::ZERO, until: Span::from_millis(500), length: Span::from_seconds(1) };
    }
    let Timing { steady, until, length } = timing;
    let folder = tempfile::tempdir().expect("a folder");
    let config = write_config(folder.path(), size);
    let (config, socket) = (config.display().to_string(), folder.path().join("status.sock").display().to_string());
    let check = timed(&["check", &config]);
    let clock = KernelClock::monotonic();
    let begun = clock.now();
    let summary = folder.path().join("summary.json");
    let mut child = Command::new(HERTZD)
        .args(["run", &config, "--json", "--for", &format!("{length}"), "--status-socket", &socket])
        .stdout(fs::File::create(&summary).expect("a new file"))
        .stderr(fs::File::create(folder.path().join("log")).expect("a new file"))
        .spawn()
        .expect("hertzd starts");
    let (mut seen, mut measured, mut status) = (Seen::default(), false, None);
    while child.try_wait().expect("it can be waited for").is_none() {
        let passed = clock.now() - begun;
        look(&child, &mut seen, steady <= passed && !measured);
        measured = passed >= until;
        if status.is_none() && measured {
            status = Some(timed(&["status", "--socket", &socket]));
        }
        pause(Span::from_millis(10));
    }
    let wall = clock.now() - begun;
    let text = fs::read_to_string(&summary).expect("its summary");
    let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let summary: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", log()));
    let sum = |list: &str, key: &str| -> f64 {
        summary[list].as_array().into_iter().flatten().filter_map(|one| one[key].as_f64()).sum()
    };
    let (due, ran, missed) = (sum("tasks", "due"), sum("tasks", "ran"), sum("tasks", "missed"));
    let [process, metrics] = match seen.used {
        [Some(first), Some(last)] => {
            let ticks = (last.at - first.at).seconds() * size.ticks as f64;
            [last.process - first.process, last.metrics - first.metrics].map(|used| used / ticks)
        }
        _ => [f64::NAN; 2],
    };
    let row = vec![
        sum("workers", "cpu_share") * length.seconds() * 1e9 / ran,
        metrics,
        process,
        seen.peak / 1e3 * 1.024,
        seen.locked / 1e3 * 1.024,
        (seen.peak * 1.024 - 8e3).max(0.0) / (size.tasks as f64),
        summary["records"]["dropped"].as_f64().unwrap_or(f64::NAN),
        100.0 * missed / due,
        // The run is over after the last release, a period before its end.
        (wall - length).seconds() + size.tasks as f64 / size.ticks as f64,
        status.map_or(f64::NAN, Span::seconds),
        check.seconds(),
    ];
    (row, summary)
}

/// Rates on one worker for a minute.
const RATES: [&str; 8] = ["1", "30000/1001", "1000", "44100/16", "48000/16", "5000", "44100/6", "10000"];

/// Runs tasks of these rates, and prints what was due and how far the mean rate of the starts can be off: the first and the last
/// start are as late as any was, at most, and the releases between them follow the index exactly.
fn minute(length: Span) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("rates.toml");
    let mut text = "[worker.main]\n".to_owned();
    for (task, rate) in RATES.iter().enumerate() {
        let _ = writeln!(text, "[task.t{task}]\nkind = \"load\"\nrate = \"{rate}\"");
    }
    fs::write(&config, text).expect("a new file");
    let output = Command::new(HERTZD).args(["run", "--json", "--for", &format!("{length}")]).arg(&config).output();
    let summary: Value = serde_json::from_slice(&output.expect("hertzd starts").stdout).expect("its summary");
    println!("\nRates on one worker, for {length}:\n");
    println!(
        "| rate | due | ran | lateness p50, µs | max, µs | mean rate of starts off by, ns a tick |\n|{}",
        " ---: |".repeat(6)
    );
    for (rate, task) in RATES.iter().zip(summary["tasks"].as_array().expect("a list")) {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let [due, ran] = ["due", "ran"].map(|key| number(&task[key]));
        let lateness = |key: &str| number(&task["lateness_ns"][key]);
        let off = (lateness("max") - lateness("min")) / (due - 1.0).max(1.0);
        let [p50, max] = ["p50", "max"].map(|key| lateness(key) / 1e3);
        println!("| {rate} | {due} | {ran} | {p50:.2} | {max:.1} | at most {off:.2} |");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The machine, in one paragraph.
fn facts(summary: &Value) -> String {
    let host = |key: &str| summary["host"][key].to_string().trim_matches('"').to_owned();
    let line = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or(": unknown").to_owned();
        value.trim_start_matches([':', '\t', ' ']).to_owned()
    };
    let granted = &summary["workers"][0]["granted"];
    let load = line("/proc/loadavg", "");
    let load = load.split(' ').next().unwrap_or_default();
    let steal = fs::read_to_string("/proc/stat").unwrap_or_default();
    let steal = steal.lines().next().and_then(|line| line.split_whitespace().nth(8)).unwrap_or("unknown").to_owned();
    format!(
        "hertzd {}; {}, {} CPUs, {} of memory; Linux {}, preemption {}, clock source {}. Workers have the policy {} {}, memory \
         locked: {}. Load average {load}, steal {steal} ticks since boot.",
        env!("CARGO_PKG_VERSION"),
        line("/proc/cpuinfo", "model name"),
        host("cpus"),
        line("/proc/meminfo", "MemTotal"),
        host("kernel"),
        host("preempt"),
        host("clocksource"),
        granted["policy"].as_str().unwrap_or("unknown"),
        granted["priority"],
        granted["memory_locked"],
    )
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    // Without it this is `cargo test --benches`, a short run that only checks that it works.
    let measure = arguments.iter().any(|argument| argument == "--bench");
    let alone = |tasks| Size { tasks, workers: 1, ticks: TICKS };
    let chosen: Vec<_> = arguments.iter().filter_map(|argument| argument.parse().ok()).map(alone).collect();
    let all = chosen.is_empty();
    let slow = Size { tasks: 1, workers: 1, ticks: 1_000 };
    let sizes = match (measure, chosen.is_empty()) {
        (_, false) => chosen,
        (true, true) => {
            let alone = [1, 10, 100, 1_000, 10_000, 100_000].map(alone);
            let shared = [2, 4, 8, 16].map(|workers| Size { tasks: 10_000, workers, ticks: TICKS });
            [slow].into_iter().chain(alone).chain(shared).collect()
        }
        (false, true) => vec![slow, Size { tasks: 20, workers: 2, ticks: 200 }],
    };
    let rounds = if measure { 3 } else { 1 };
    let mut rows: Vec<Vec<Row>> = sizes.iter().map(|_| Vec::new()).collect();
    let mut latest = Value::Null;
    for round in 1..=rounds {
        for (rows, size) in rows.iter_mut().zip(&sizes) {
            eprintln!("round {round} of {rounds}: {} tasks, {} workers", size.tasks, size.workers);
            let (row, summary) = run(*size, measure);
            rows.push(row);
            latest = summary;
        }
    }
    println!("{}\n", facts(&latest));
    println!("{rounds} rounds in turns; medians.\n");
    let titles = COLUMNS.map(|(title, _)| title).join(" | ");
    println!("| tasks | workers | ticks a second | {titles} |\n|{}", " ---: |".repeat(3 + COLUMNS.len()));
    for (rows, Size { tasks, workers, ticks }) in rows.iter().zip(&sizes) {
        let cells = COLUMNS.iter().enumerate().map(|(column, (_, digits))| {
            let value = median(rows.iter().map(|row| row[column]).collect());
            format!("{value:.digits$}")
        });
        println!("| {tasks} | {workers} | {ticks} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    if all {
        minute(if measure { Span::from_seconds(60) } else { Span::from_seconds(1) });
    }
}
