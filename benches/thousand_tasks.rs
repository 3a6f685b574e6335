//! A thousand tasks at 20 Hz on one worker in real time: how many releases are skipped, how many records are dropped, and
//! how late ticks start.
//!
//!     cargo bench --bench thousand_tasks
//!
//! Runs once with phases 50 µs apart, spread over the period, and once with all tasks due at the same instant, so that the
//! last one waits for 999 others.

use hertzd::config::Kinds;
use hertzd::internals::{
    Config, Connections, Event, Facts, Host, Options, Output, PanicEvent, Summary, cpu_set_size, run_daemon,
};
use hertzd::time::Span;
use std::fmt::Write;

const TASKS: u64 = 1_000;

struct Quiet;

impl Output for Quiet {
    fn event(&mut self, _: &Event<'_>) {}
    fn panicked(&mut self, _: &PanicEvent<'_>) {}
    fn dropped(&mut self, _: &str, _: u64) {}
}

fn run(spin: &str, spread: bool, seconds: i64) -> Summary {
    let mut text = format!("[worker.main]\npolicy = \"fifo\"\nspin = \"{spin}\"\n");
    for task in 0..TASKS {
        let phase = if spread { task * 50 } else { 0 };
        // Writing to a String does not fail.
        let _ = writeln!(text, "[task.t{task}]\nkind = \"load\"\nrate = 20\nphase = \"{phase}us\"");
    }
    let facts = Facts { online_cpus: Host::read().online_cpus, cpu_set_size: cpu_set_size() };
    let config = Config::parse(text, "bench", &Kinds::builtin(), &facts);
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    let options = Options { length: Some(Span::from_seconds(seconds)), ..Options::default() };
    let outcome = run_daemon(config, &options, Connections { output: Box::new(Quiet), ..Connections::default() });
    outcome.unwrap_or_else(|failure| panic!("{failure}")).summary
}

fn report(title: &str, summary: &Summary) {
    let sum =
        |part: fn(&hertzd::internals::TaskSummary) -> u64| summary.tasks.iter().map(|task| part(task)).sum::<u64>();
    let (due, ran, skipped) =
        (sum(|task| task.counts.due), sum(|task| task.counts.ran), sum(|task| task.counts.skipped));
    assert_eq!(ran + skipped, due);
    let worker = &summary.workers[0];
    let mut medians: Vec<_> = summary.tasks.iter().map(|task| task.lateness_ns.p50).collect();
    medians.sort_unstable();
    let worst = |part: fn(&hertzd::internals::TaskSummary) -> i64| {
        summary.tasks.iter().map(|task| part(task)).max().unwrap_or(0)
    };
    println!("{title} ({}):", worker.granted.policy);
    println!("  due {due}, ran {ran}, skipped {skipped}, overruns {}", sum(|task| task.counts.overruns));
    println!(
        "  records dropped {}, wakes {}, CPU {:.1} %, of which spun {:.1} %",
        summary.records.dropped,
        worker.wakes,
        100.0 * worker.cpu_share,
        100.0 * worker.spin_share
    );
    let span = Span::from_nanos;
    println!(
        "  lateness: p50 {} for the median task, {} for the latest; p99 at most {}, max {}",
        span(medians[medians.len() / 2]),
        span(medians[medians.len() - 1]),
        span(worst(|task| task.lateness_ns.p99)),
        span(worst(|task| task.lateness_ns.max))
    );
}

fn main() {
    // Without it this is `cargo test --benches`, a short run that only checks that it works.
    let seconds = if std::env::args().any(|argument| argument == "--bench") { 5 } else { 1 };
    for (title, spread) in [("phases spread, one tick every 50 µs", true), ("all at once", false)] {
        for spin in ["off", "auto"] {
            report(&format!("{title}, spin {spin}"), &run(spin, spread, seconds));
        }
    }
}
