//! A thousand tasks at 20 Hz on one worker in real time: how many releases are skipped, how many records are dropped, and
//! how late ticks start.
//!
//!     cargo bench --bench thousand_tasks
//!
//! Runs once with phases 50 µs apart, spread over the period, and once with all tasks due at the same instant, so that the
//! last one waits for 999 others.

use hertzd::config::Kinds;
use hertzd::internals::{Embedded, Summary};
use hertzd::time::Span;
use std::fmt::Write;

const TASKS: u64 = 1_000;

fn run(spin: &str, spread: bool, seconds: i64) -> Summary {
    let mut text = format!("[worker.main]\npolicy = \"fifo\"\nspin = \"{spin}\"\n");
    for task in 0..TASKS {
        let phase = if spread { task * 50 } else { 0 };
        // Writing to a String does not fail.
        let _ = writeln!(text, "[task.t{task}]\nkind = \"load\"\nrate = 20\nphase = \"{phase}us\"");
    }
    Embedded::of(Kinds::builtin(), text).lasting(Span::from_seconds(seconds)).telling(|| {}).run().summary
}

fn report(title: &str, summary: &Summary) {
    let [due, ran, skipped, overruns] = summary.tasks.iter().map(|task| &task.counts).fold([0; 4], |sum, counts| {
        let counts = [counts.due, counts.ran, counts.skipped, counts.overruns];
        std::array::from_fn(|at| sum[at] + counts[at])
    });
    assert_eq!(ran + skipped, due);
    let worker = &summary.workers[0];
    let mut medians: Vec<_> = summary.tasks.iter().map(|task| task.lateness_ns.p50).collect();
    medians.sort_unstable();
    let lateness = || summary.tasks.iter().map(|task| &task.lateness_ns);
    let worst = [lateness().map(|late| late.p99).max(), lateness().map(|late| late.max).max()];
    let [p99, max] = worst.map(|late| Span::from_nanos(late.unwrap_or(0)));
    println!("{title} ({}):", worker.granted.policy);
    println!("  due {due}, ran {ran}, skipped {skipped}, overruns {overruns}");
    println!(
        "  records dropped {}, wakes {}, CPU {:.1} %, of which spun {:.1} %",
        summary.records.dropped,
        worker.wakes,
        100.0 * worker.cpu_share,
        100.0 * worker.spin_share
    );
    let span = Span::from_nanos;
    println!(
        "  lateness: p50 {} for the median task, {} for the latest; p99 at most {p99}, max {max}",
        span(medians[medians.len() / 2]),
        span(medians[medians.len() - 1])
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
