//! Instructions of a whole tick on the virtual clock, and of its parts, counted by callgrind.
//!
//!     cargo bench --bench instructions        # needs valgrind; ends with 1 if anything takes more than it may
//!
//! Time depends on what else the machine does; the number of instructions does not. Each case runs twice under callgrind, with
//! different numbers of repetitions: the difference is what the repetitions took, without the start of the program. The limits are
//! a tenth above what one compiler made of it: another may need a few more, but hardly a tenth.

mod virtual_loop;

use hertzd::internals::{EvidenceSource, NeverPreempted, SimClock, Sleeps, Tail, TickRecord, TickSink};
use hertzd::pacing::{Account, Grid, Overrun, Rate};
use hertzd::time::{Instant, Span};
use std::env::{args, current_exe};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use virtual_loop::Phases::{self, Equal, Spread};
use virtual_loop::{Nowhere, runner};

/// Repetitions of the two runs.
const FEW: u32 = 2_000;
const MANY: u32 = 12_000;

struct Case {
    name: &'static str,
    at_most: f64, // instructions each time
    work: fn(u32),
}

const ONE: (u32, Phases) = (1, Equal);

const AUTO: Tail = Tail::Auto { cpu_max: 0.05, target: None };

const CASES: &[Case] = &[
    Case { name: "tick, 1 task, a sleep before each", at_most: 1790.0, work: |ticks| ran(Tail::Off, ONE, ticks) },
    Case { name: "tick, 100 tasks", at_most: 1850.0, work: |ticks| ran(Tail::Off, (100, Spread), ticks) },
    Case { name: "tick, 10,000 tasks", at_most: 1860.0, work: |ticks| ran(Tail::Off, (10_000, Spread), ticks) },
    Case { name: "tick, 100 tasks due together", at_most: 1350.0, work: |ticks| ran(Tail::Off, (100, Equal), ticks) },
    Case {
        name: "tick, 2,000 tasks due together",
        at_most: 1360.0,
        work: |ticks| ran(Tail::Off, (2_000, Equal), ticks),
    },
    Case { name: "tick, 1 task, spin = \"auto\"", at_most: 2400.0, work: |ticks| ran(AUTO, ONE, ticks) },
    Case { name: "tick, 1 task, evidence = \"tick\"", at_most: 1930.0, work: with_evidence },
    Case { name: "instant of a release, 30000/1001 Hz", at_most: 37.0, work: release },
    Case { name: "first release from an instant, 30000/1001 Hz", at_most: 82.0, work: first_release },
    Case { name: "settlement of a tick on time, drop", at_most: 155.0, work: |n| settle(Overrun::Drop, 20, n) },
    Case { name: "settlement of a late tick, drop", at_most: 510.0, work: |n| settle(Overrun::Drop, 2_500, n) },
    Case { name: "settlement of a late tick, delay", at_most: 96.0, work: |n| settle(Overrun::Delay, 2_500, n) },
    Case { name: "plan of a sleep and its lesson, spin = \"auto\"", at_most: 485.0, work: plan },
    Case { name: "record into the channel and out of it", at_most: 515.0, work: hand_over },
];

/// A virtual clock whose wake-ups are 10 to 41 µs late.
fn clock() -> SimClock {
    SimClock::new(Instant::ZERO, (0..32).map(|late| Span::from_micros(10 + late * 7 % 32)).collect())
}

fn ran(tail: Tail, tasks: (u32, Phases), ticks: u32) {
    let (report, ..) = runner(clock(), Instant::ZERO, tail, tasks, ticks, Nowhere).run();
    assert_eq!(report.tasks.iter().map(|(_, counts)| counts.ran).sum::<u64>(), u64::from(ticks));
}

fn with_evidence(ticks: u32) {
    let evidence: Box<dyn EvidenceSource> = Box::new(NeverPreempted);
    let (report, ..) =
        runner(clock(), Instant::ZERO, Tail::Off, ONE, ticks, Nowhere).with_evidence(evidence, true).run();
    assert_eq!(report.tasks[0].1.ran, u64::from(ticks));
}

fn ntsc() -> Rate {
    Rate::new(30_000, 1_001).unwrap()
}

fn release(times: u32) {
    let rate = ntsc();
    (0..times).for_each(|n| _ = black_box(rate.offset(black_box(u64::from(n) + (1 << 40)))));
}

fn first_release(times: u32) {
    let rate = ntsc();
    (0..times).for_each(|n| _ = black_box(rate.ticks_before(black_box(i128::from(n) * 33_366_667))));
}

fn settle(overrun: Overrun, run: i64, times: u32) {
    let grid = Grid::starting_at(Instant::ZERO, Rate::new(1_000, 1).unwrap());
    let mut account = Account::new(grid, overrun, 0, Instant::MAX);
    for _ in 0..times {
        let (_, started) = account.next().unwrap();
        black_box(account.settle(started, started + Span::from_micros(black_box(run))));
    }
}

fn plan(times: u32) {
    let mut sleeps = Sleeps::new(AUTO);
    let mut now = Instant::ZERO;
    for n in 0..times {
        let release = now + Span::from_millis(1);
        if let Some(asked) = sleeps.plan(now, release).sleep_until {
            sleeps.learn(asked, asked + Span::from_nanos(12_000 + i64::from(n % 64) * 500));
        }
        sleeps.spent(Span::from_micros(20), Span::ZERO);
        now = release;
    }
}

fn hand_over(times: u32) {
    let (mut sender, mut receiver) = hertzd::internals::ticks(4_096);
    for n in 0..times {
        sender.offer(TickRecord { n: n.into(), ..TickRecord::EMPTY });
        black_box(receiver.take());
    }
}

/// The instructions of this program if it does `case` so many times.
fn instructions(case: usize, times: u32) -> Result<f64, String> {
    let program = current_exe().map_err(|error| format!("this program's path is not known: {error}"))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = valgrind.args(["--do", &case.to_string(), &times.to_string()]).output();
    let output =
        output.map_err(|error| format!("valgrind cannot be run: {error} (on Debian: apt install valgrind)"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let count = told.lines().find_map(|line| line.split_once("Collected :")?.1.split_whitespace().next()?.parse().ok());
    count.filter(|_| output.status.success()).ok_or_else(|| format!("valgrind failed: {}\n{told}", output.status))
}

fn compare() -> Result<bool, String> {
    println!("instructions at most  of");
    let mut within = true;
    for (index, Case { name, at_most, .. }) in CASES.iter().enumerate() {
        let taken = instructions(index, MANY)? - instructions(index, FEW)?;
        let each = taken / f64::from(MANY - FEW);
        let much = each > *at_most;
        println!("{each:>12.1} {at_most:>7.0}  {name}{}", if much { "  <- more than it may" } else { "" });
        within &= !much;
    }
    Ok(within)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--do", case, times] => {
            let parsed = case.parse::<usize>().ok().and_then(|case| Some((CASES.get(case)?, times.parse().ok()?)));
            let (case, times) = parsed.expect("the number of a case and a number of repetitions");
            (case.work)(times);
        }
        // `cargo bench` says so; without it this is `cargo test --benches`, which only checks that it works.
        ref others if !others.contains(&"--bench") => CASES.iter().for_each(|case| (case.work)(FEW)),
        _ => match compare() {
            Ok(true) => {}
            Ok(false) => {
                eprintln!(
                    "something takes more instructions than it may: find out why, or raise the limit in benches/instructions.rs"
                );
                return ExitCode::FAILURE;
            }
            Err(problem) => {
                eprintln!("{problem}");
                return ExitCode::FAILURE;
            }
        },
    }
    ExitCode::SUCCESS
}
