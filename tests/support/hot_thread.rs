//! Counts the system calls of a worker with `strace`.

use crate::program;
use crate::program::{count, pause, run, signal, skip, thread_named};
use hertzd::time::Span;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

/// One period of the tasks here, in nanoseconds.
const PERIOD: i128 = 1_000_000;

/// The number of sleeps after which a worker is in its loop: earlier it waits for its orders, and measuring a tail takes 20 sleeps.
const IN_LOOP: u64 = 100;

/// Calls at the edges of the trace: strace interrupts one sleep when it attaches and one when it detaches.
pub(crate) const EDGES: u64 = 4;

/// The calls of one thread, as traced by strace.
pub(crate) struct Trace {
    pub calls: BTreeMap<String, u64>,
    between: BTreeMap<String, u64>, // the first sleep and the last one
    sleeps: Vec<i128>,              // the instants asked for
    pub text: String,
    vdso_is_blind: bool, // reading the clock takes a system call
    seconds: f64,
}

impl Trace {
    /// Reads the output of `strace -ttt`.
    fn parse(text: &str) -> Self {
        let (calls, between, sleeps, text_seen) = (BTreeMap::new(), BTreeMap::new(), Vec::new(), text.to_owned());
        let mut trace = Self { calls, between, sleeps, text: text_seen, vdso_is_blind: false, seconds: 0.0 };
        let (mut first, mut since_sleep) = (None, Vec::new());
        for line in text.lines() {
            let Some((time, call)) = line.split_once(' ') else {
                continue;
            };
            let Ok(time) = time.parse::<f64>() else { panic!("not a line of strace: {line}") };
            trace.seconds = time - *first.get_or_insert(time);
            let Some((name, rest)) = call.split_once('(') else {
                continue;
            };
            // The kernel restarts a sleep that the tracer interrupted: this counts as one sleep.
            if rest.contains("ERESTART") || name == "restart_syscall" {
                continue;
            }
            trace.vdso_is_blind |= name == "clock_gettime" && rest.starts_with("CLOCK_MONOTONIC,");
            *trace.calls.entry(name.to_owned()).or_default() += 1;
            if name == "clock_nanosleep" {
                assert!(rest.starts_with("CLOCK_MONOTONIC, TIMER_ABSTIME, "), "{line}");
                let part = |key: &str| -> i128 {
                    let digits = rest.split_once(key).unwrap().1;
                    digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
                };
                let before_the_first = trace.sleeps.is_empty();
                trace.sleeps.push(part("tv_sec=") * 1_000_000_000 + part("tv_nsec="));
                for name in since_sleep.drain(..).filter(|_| !before_the_first) {
                    *trace.between.entry(name).or_default() += 1;
                }
            } else {
                since_sleep.push(name.to_owned());
            }
        }
        trace
    }

    pub(crate) fn count(&self, call: &str) -> u64 {
        self.calls.get(call).copied().unwrap_or(0)
    }

    /// Asserts at most one `call` per release of a task; `ran` ticks have run and `due` releases were due in all. A worker sleeps only when
    /// nothing is due. So all ticks between one sleep and a later one are of releases from the first sleep's on, and before the later
    /// sleep's. A busy machine has more ticks before the first sleep and after the last one.
    pub(crate) fn assert_at_most_one_a_release(&self, call: &str, due: u64, ran: u64) {
        let (all, between) = (self.count(call), self.between.get(call).copied().unwrap_or(0));
        let releases = self.releases();
        assert!(between < releases, "{between} times {call} from the first of {releases} releases to the last");
        assert!(all <= ran + EDGES, "{all} times {call}, {ran} ticks in all");
        // The same calculation as for sleeps.
        assert!(all + due.saturating_sub(releases) + EDGES >= ran, "{all} times {call}, {ran} ticks in all");
    }

    /// Releases between the first sleep and the last one.
    fn releases(&self) -> u64 {
        let length = self.sleeps.last().unwrap() - self.sleeps.first().unwrap();
        u64::try_from(length / PERIOD).unwrap() + 1
    }
}

/// Runs `tasks` under strace. `None` if that is not possible here; prints the reason.
pub(crate) fn trace_run(spin: &str, evidence: &str, tasks: &str) -> Option<(Trace, Value)> {
    if !Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        program::emulation::say_skipped("there is no strace here");
        return None;
    }
    let config = format!("[worker.main]\nspin = \"{spin}\"\nevidence = \"{evidence}\"\n{tasks}");
    let mut hertzd = run(&config, &["--for", "12s", "--json"]);
    hertzd.wait_until_granted();
    let thread = thread_named(hertzd.pid(), "hz-").unwrap();
    let status = format!("/proc/{}/task/{thread}/status", hertzd.pid());
    hertzd.wait_for("the worker is in its loop", |_| waits(&status) > IN_LOOP);
    let path = hertzd.folder().join("strace");
    let refusal = hertzd.folder().join("refusal");
    let mut strace = Command::new("strace")
        .args(["-ttt", "-y", "-p", &thread.to_string(), "-o"])
        .arg(&path)
        .stderr(fs::File::create(&refusal).unwrap())
        .spawn()
        .unwrap();
    pause(Span::from_seconds(10));
    if strace.try_wait().unwrap().is_none() {
        signal(strace.id(), "INT");
        strace.wait().unwrap();
    }
    let outlasted = thread_named(hertzd.pid(), "hz-").is_some();
    let ended = hertzd.wait();
    let seen = fs::read_to_string(ended.folder.path().join("strace")).unwrap_or_default();
    if seen.is_empty() {
        let refusal = fs::read_to_string(ended.folder.path().join("refusal")).unwrap();
        program::emulation::say_skipped(&format!("strace may not attach: {refusal}"));
        return None;
    }
    if !outlasted {
        program::emulation::say_skipped("the run ended before strace did, so the trace has more than the loop");
        return None;
    }
    assert!(ended.status.success(), "{}", ended.describe());
    let summary = ended.summary();
    let trace = Trace::parse(&seen);
    println!("spin {spin}: {:?} in {:.1} s, {} sleeps in all", trace.calls, trace.seconds, wakes(&summary));
    if trace.vdso_is_blind {
        program::emulation::say_skipped(&format!(
            "the vDSO cannot read the clock of this machine: {}",
            summary["host"]["clocksource"]
        ));
        return None;
    }
    if trace.sleeps.len() < 2 {
        let skipped: u64 = summary["tasks"].as_array().unwrap().iter().map(|task| count(task, "skipped")).sum();
        assert!(skipped > 0, "the worker never slept, though it was behind with nothing: {:?}", trace.calls);
        skip("this machine is too slow for these tasks: the worker was behind all the time, and never slept");
        return None;
    }
    Some((trace, summary))
}

/// The number of times that a thread has gone to sleep or waited.
fn waits(status: &str) -> u64 {
    let status = fs::read_to_string(status).unwrap();
    let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waits.unwrap().trim().parse().unwrap()
}

fn wakes(summary: &Value) -> u64 {
    count(&summary["workers"][0], "wakes")
}

/// Asserts at most one sleep per release. Outside the trace, the summary shows it: at most one wake-up per release.
pub(crate) fn assert_at_most_one_sleep_a_release(trace: &Trace, summary: &Value) {
    let (sleeps, releases) = (trace.count("clock_nanosleep"), trace.releases());
    assert!(trace.sleeps.is_sorted(), "sleeps go forward");
    assert!(sleeps <= releases + EDGES, "{sleeps} sleeps for {releases} releases");
    assert!(sleeps <= wakes(summary) + EDGES, "{sleeps} sleeps, but the summary knows of {}", wakes(summary));
    let due = count(&summary["tasks"][0], "due");
    let elsewhere = due.saturating_sub(releases);
    assert!(sleeps + elsewhere + EDGES >= wakes(summary), "{sleeps} sleeps, {} in all", wakes(summary));
}

/// Asserts that calls outside `known` occur at most twice a second and neither wait nor allocate memory.
pub(crate) fn assert_nothing_else(trace: &Trace, known: &[&str]) {
    let others: Vec<_> = trace.calls.iter().filter(|(call, _)| !known.contains(&call.as_str())).collect();
    for (call, count) in &others {
        for never in ["futex", "mmap", "munmap", "brk", "madvise", "write", "writev", "open", "clone", "sched_yield"] {
            assert!(!call.starts_with(never), "{count} times {call}");
        }
    }
    let total: u64 = others.iter().map(|(_, count)| **count).sum();
    let total = f64::from(u32::try_from(total).unwrap());
    assert!(total <= 2.0 * trace.seconds, "in {:.1} s: {others:?}", trace.seconds);
}

pub(crate) const LOAD: &str = "[task.load]\nkind = \"load\"\nrate = \"1 kHz\"\nrun = \"20us\"\n";
