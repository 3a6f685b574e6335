//! The cost of a tick by the number of tasks on the worker: the hot loop without sleep and without work.
//!
//!     cargo bench --bench tick_cost
//!
//! Repetitions alternate between the sizes, so that other load on the machine affects all of them alike. The ratio to one
//! task is then meaningful even where the nanoseconds are not.

mod virtual_loop;

use hertzd::internals::{
    Clock, EvidenceSource, KernelClock, SimClock, Sleeps, Tail, ThreadEvidence, TickRecord, TickSink,
};
use hertzd::pacing::{Account, Grid, Overrun, Rate};
use hertzd::time::{Instant, Span};
use std::hint::black_box;
use virtual_loop::{Nowhere, Phases, runner};

const SIZES: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// Runs `ticks` ticks from `epoch`, one per millisecond, distributed over `tasks`. Returns nanoseconds per tick.
fn run<C: Clock>(clock: C, epoch: Instant, (tasks, phases): (u32, Phases), ticks: u32) -> f64 {
    let runner = runner(clock, epoch, Tail::Off, (tasks, phases), ticks, Nowhere);
    let real = KernelClock::monotonic();
    let begun = real.now();
    let (report, ..) = runner.run();
    let taken = real.now() - begun;
    assert_eq!(report.tasks.iter().map(|(_, counts)| counts.ran).sum::<u64>(), u64::from(ticks));
    per(taken, ticks)
}

fn per(taken: Span, times: u32) -> f64 {
    taken.seconds() * 1e9 / f64::from(times)
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn by_size(title: &str, repetitions: u32, cost: impl Fn(u32) -> f64) {
    println!("{title}");
    let mut costs = SIZES.map(|_| Vec::new());
    for _ in 0..repetitions {
        for (costs, tasks) in costs.iter_mut().zip(SIZES) {
            costs.push(cost(tasks));
        }
    }
    let medians = costs.map(median);
    for (tasks, cost) in SIZES.iter().zip(medians) {
        println!("  {tasks:>5} tasks  {cost:>8.1} ns a tick  {:>5.2} times that of one task", cost / medians[0]);
    }
}

/// Repeats `work`; prints the median nanoseconds per call.
fn micro(title: &str, repetitions: u32, times: u32, mut work: impl FnMut(u32)) {
    let real = KernelClock::monotonic();
    let mut costs = Vec::new();
    for _ in 0..repetitions {
        let begun = real.now();
        for index in 0..times {
            work(black_box(index));
        }
        costs.push(per(real.now() - begun, times));
    }
    println!("  {:>8.1} ns  {title}", median(costs));
}

fn main() {
    // Without it this is `cargo test --benches`, a short run that only checks that it works.
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (repetitions, ticks, times) = if measure { (15, 100_000, 1_000_000) } else { (1, 2_000, 1_000) };
    let real = KernelClock::monotonic();

    by_size("every tick on time, on the virtual clock (a rest before each):", repetitions, |tasks| {
        run(SimClock::new(Instant::ZERO, Vec::new()), Instant::ZERO, (tasks, Phases::Spread), ticks)
    });
    by_size("every tick late, on the kernel's clock (no rest, one reading of the clock):", repetitions, |tasks| {
        run(real, real.now() - Span::from_seconds(3_600), (tasks, Phases::Spread), ticks)
    });
    by_size("the same, all tasks due together:", repetitions, |tasks| {
        run(real, real.now() - Span::from_seconds(3_600), (tasks, Phases::Equal), ticks)
    });

    println!("parts of a tick:");
    micro("reading the clock", repetitions, times, |_| {
        black_box(real.now());
    });
    let mut evidence = ThreadEvidence::of_this_thread();
    micro("evidence: the mark before each sleep", repetitions, times / 10, |_| evidence.mark(Span::ZERO, true));
    for (title, missed) in [("a tick, with evidence = \"tick\"", false), ("a tick in which something was missed", true)]
    {
        micro(&format!("evidence: {title}"), repetitions, times / 10, |_| {
            black_box(evidence.take(Span::ZERO, false, missed));
        });
    }
    let rate = Rate::new(30_000, 1_001).unwrap();
    micro("Rate::offset, at 30000/1001 Hz", repetitions, times, |n| {
        black_box(rate.offset(u64::from(n) + (1 << 40)));
    });
    micro("Rate::ticks_before, at 30000/1001 Hz", repetitions, times, |n| {
        black_box(rate.ticks_before(i128::from(n) * 33_366_667));
    });
    for (title, run) in [("in time", 20), ("late by one period and a half", 2_500)] {
        for (name, overrun) in [
            ("drop", Overrun::Drop),
            ("keep-working", Overrun::KeepWorking),
            ("credit", Overrun::Credit { max_debt: Span::from_seconds(1) }),
            ("delay", Overrun::Delay),
        ] {
            let grid = Grid::starting_at(Instant::ZERO, Rate::new(1_000, 1).unwrap());
            let mut account = Account::new(grid, overrun, 0, Instant::MAX);
            micro(&format!("Account::settle, {name}, {title}"), repetitions, times, |_| {
                let (_, started) = account.next().unwrap();
                black_box(account.settle(started, started + Span::from_micros(run)));
            });
        }
    }
    for (title, tail) in [
        ("off", Tail::Off),
        ("50us", Tail::Fixed(Span::from_micros(50))),
        ("auto", Tail::Auto { cpu_max: 0.05, target: None }),
    ] {
        let mut sleeps = Sleeps::new(tail);
        let mut now = Instant::ZERO;
        micro(&format!("Sleeps::plan, learn and spent, {title}"), repetitions, times, |n| {
            let release = now + Span::from_millis(1);
            let plan = sleeps.plan(now, release);
            if let Some(asked) = plan.sleep_until {
                sleeps.learn(asked, asked + Span::from_nanos(12_000 + i64::from(n % 64) * 500));
            }
            sleeps.spent(Span::from_micros(if plan.spin { 20 } else { 0 }), Span::ZERO);
            now = release;
        });
    }
    let (mut sender, mut receiver) = hertzd::internals::ticks(4_096);
    micro("a record into the channel and out of it, on one thread", repetitions, times, |n| {
        sender.offer(TickRecord { n: n.into(), ..TickRecord::EMPTY });
        black_box(receiver.take());
    });
}
