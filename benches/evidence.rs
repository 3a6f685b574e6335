//! What evidence costs: the lateness of a 1 kHz task with `evidence = "off"`, `"wake"` and `"tick"`, in short runs that take
//! turns, so that other load on the machine meets all of them alike; and the time to judge a record.
//!
//!     cargo bench --bench evidence

use hertzd::config::Kinds;
use hertzd::internals::{Clock, Embedded, KernelClock, Summary};
use hertzd::time::Span;

const MODES: [&str; 3] = ["off", "wake", "tick"];

/// Runs a 1 kHz task for that long.
fn run(evidence: &str, length: Span) -> Summary {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpu = online.trim().rsplit(['-', ',']).next().unwrap_or("0");
    let config = format!(
        "[worker.main]\ncpu = {cpu}\npolicy = \"fifo\"\nspin = \"off\"\nevidence = \"{evidence}\"\n\
         [task.control]\nkind = \"load\"\nrate = 1000\nrun = \"50us\"\n"
    );
    Embedded::of(Kinds::builtin(), config).lasting(length).telling(|| {}).run().summary
}

fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values[values.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
fn paired(rounds: usize, length: Span) {
    let mut found = MODES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (found, mode) in found.iter_mut().zip(MODES) {
            let summary = run(mode, length);
            let (task, worker) = (&summary.tasks[0], &summary.workers[0]);
            let (p50, p99) = (task.lateness_ns.p50 as f64, task.lateness_ns.p99 as f64);
            found.push([p50, p99, task.counts.missed as f64, 100.0 * worker.cpu_share]);
        }
    }
    println!("a 1 kHz task, {rounds} runs of {length} of each, in turns; medians of the runs:");
    for (index, mode) in MODES.iter().enumerate() {
        let of = |part: usize| median(found[index].iter().map(|numbers| numbers[part]).collect());
        let ratios = |part: usize| {
            let pairs = found[index].iter().zip(&found[0]);
            median(pairs.map(|(with, without)| with[part] / without[part].max(1.0)).collect())
        };
        println!(
            "  {mode:<4}  late p50 {:.1} µs ({:.3} of off), p99 {:.1} µs ({:.3} of off), missed {}, {:.2} % of a CPU",
            of(0) / 1e3,
            ratios(0),
            of(1) / 1e3,
            ratios(1),
            of(2),
            of(3)
        );
    }
}

const KEEP: &str = "overrun = \"keep-working\"";
const CREDIT: &str = "overrun = \"credit\"\nmax-debt = \"1s\"";

/// Nanoseconds for each tick of a simulation, the loop and the metrics together.
#[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
fn simulated(run: &str, overrun: &str, length: Span) -> f64 {
    let config = format!(
        "[worker.main]\n[task.a]\nkind = \"load\"\nrate = 1000\n{overrun}\n[task.a.simulate]\nrun = [\"{run}\"]\n\
         [task.b]\nkind = \"load\"\nrate = 1000\n[task.b.simulate]\nrun = [\"100us\"]\n"
    );
    let clock = KernelClock::monotonic();
    let begun = clock.now();
    let summary = Embedded::of(Kinds::builtin(), config).simulate(length);
    let took = clock.now() - begun;
    assert!(summary.tasks.iter().all(|task| task.counts.met + task.counts.missed == task.counts.due));
    took.seconds() * 1e9 / summary.tasks.iter().map(|task| task.counts.ran).sum::<u64>() as f64
}

fn main() {
    // Without it this is `cargo test --benches`, a short run that only checks that it works.
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (rounds, length, virtual_length) = match measure {
        true => (12, Span::from_seconds(2), Span::from_seconds(200)),
        false => (1, Span::from_millis(100), Span::from_seconds(1)),
    };
    println!("a tick of a simulation, with the loop, the metrics and the judge:");
    for (title, run, overrun) in [
        ("nothing is missed", "200us", KEEP),
        ("every tick misses something", "1500us", KEEP),
        ("every tick is a second late", "1500us", CREDIT),
    ] {
        let costs = (0..5).map(|_| simulated(run, overrun, virtual_length)).collect();
        println!("  {:>8.1} ns  {title}", median(costs));
    }
    paired(rounds, length);
}
