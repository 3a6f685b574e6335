//! Compares the articles' loops, transcribed literally, with hertzd's own loop: start by start and tick by tick, over thousands of random
//! traces.
//!
//! The transcriptions count integer nanoseconds on a virtual clock: `sleep(x)` advances it by `x` plus the next scripted oversleep, and a
//! tick advances it by the next scripted run. hertzd runs through `worker::Runner`, and on every fourth trace also through
//! `daemon::simulate` with a configuration. Both must agree with the article.
//!
//! | here | transcribed from | hertzd |
//! | --- | --- | --- |
//! | `drop_and_rest` | constant-rate loop, "drop & rest" | `drop` |
//! | `no_rest` | constant-rate loop, "no rest, keep working" | `keep-working` |
//! | `stretchy_sleep` | stretchy sleep | `credit` |
//! | `measured_sleep` | game loop in C++, third approach | `credit` |
//! | `fixed_sleep`, `sleep_the_rest`, `unmeasured_sleep` | the first attempts of those articles, which they show to drift | none |
//! | `up_to_n_updates` | simulation-loop module, choices (a) to (c) | `pacing::FixedStep` |
//!
//! Two differences are intended:
//!
//! - A release exactly at the finish is on time in hertzd and runs. "Drop & rest" rests through it when more than one period was used up.
//!   Random nanoseconds never hit that case; `a_release_on_the_finish_runs` does.
//! - After an oversleep of a period or more, hertzd gives up the stale releases before it runs anything. The constant-rate loops run one
//!   stale tick first. So the comparisons with them keep oversleeps below a period, and `stale_releases_are_given_up_before_a_tick` shows
//!   the difference.

use super::virtual_worker::{Spec, run, spans};
use crate::config::{Config, Facts, Kinds};
use crate::daemon::{SimulateOptions, simulate};
use crate::pacing::{Excess, FixedStep, Overrun, Rate, Tail};
use crate::random::SplitMix;
use crate::sim::{Scripted, SimClock};
use crate::time::{Instant, Span};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Index and start of a tick.
type Start = (u64, i64);

const MILLI: i64 = 1_000_000;

/// The input of a loop: its period, and scripted runs and oversleeps, both cycled.
#[derive(Clone, Debug)]
struct Trace {
    period: i64,
    runs: Vec<i64>,
    oversleeps: Vec<i64>,
    ticks: i64, // releases that exist
}

impl Trace {
    fn of_millis(period: i64, runs: &[i64], oversleeps: &[i64], ticks: i64) -> Self {
        let nanos = |millis: &[i64]| millis.iter().map(|ms| ms * MILLI).collect();
        Self { period: period * MILLI, runs: nanos(runs), oversleeps: nanos(oversleeps), ticks }
    }

    /// Periods from 1 µs to 0.1 s, almost none of them a whole number of microseconds. Runs from zero to `longest` periods. Oversleeps from
    /// zero to just below `latest` periods.
    fn random(random: &mut SplitMix, longest: i64, latest: i64) -> Self {
        let period = 1_000 * 10_i64.pow(u32::try_from(random.below(6)).unwrap()) + random.below(999_000_000) % 999_983;
        let never_overruns = random.below(4) == 0;
        let run_below = if never_overruns { period } else { longest * period };
        let mut runs = random.some_below(40, run_below);
        for run in &mut runs {
            match random.below(4) {
                0 => *run = 0,
                1 => *run %= period,
                _ => {}
            }
        }
        let mut oversleeps = random.some_below(40, latest * period);
        for oversleep in &mut oversleeps {
            match random.below(4) {
                0 => *oversleep = 0,
                1 => *oversleep %= period / 100,
                _ => {}
            }
        }
        Self { period, runs, oversleeps, ticks: 20 + random.below(150) }
    }
}

/// The clock of the transcriptions.
struct Wound<'a> {
    trace: &'a Trace,
    now: i64,
    sleeps: usize,
    starts: Vec<Start>,
}

impl<'a> Wound<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self { trace, now: 0, sleeps: 0, starts: Vec::new() }
    }

    fn sleep(&mut self, span: i64) {
        assert!(span >= 0, "no loop can sleep {span} ns");
        self.now += span + self.trace.oversleeps[self.sleeps % self.trace.oversleeps.len()];
        self.sleeps += 1;
    }

    fn call(&mut self, it: i64) {
        let run = self.trace.runs[self.starts.len() % self.trace.runs.len()];
        self.starts.push((u64::try_from(it).unwrap(), self.now));
        self.now += run;
    }
}

fn drop_and_rest(trace: &Trace) -> Vec<Start> {
    let (mut clock, rate) = (Wound::new(trace), trace.period);
    let mut t1 = clock.now;
    let mut it = 0;
    while it < trace.ticks {
        clock.call(it);
        let t2 = clock.now;
        let mut rest = rate - (t2 - t1);
        if rest < 0 {
            let behind = -rest;
            rest = rate - behind % rate;
            let lost = behind + rest;
            t1 += lost;
            it += lost / rate;
        }
        clock.sleep(rest);
        t1 += rate;
        it += 1;
    }
    clock.starts
}

fn no_rest(trace: &Trace) -> Vec<Start> {
    let (mut clock, rate) = (Wound::new(trace), trace.period);
    let mut t1 = clock.now;
    let mut it = 0;
    while it < trace.ticks {
        clock.call(it);
        let t2 = clock.now;
        let rest = rate - (t2 - t1);
        if rest < 0 {
            let behind = -rest;
            let lost = behind - behind % rate;
            t1 += lost;
            it += lost / rate;
        } else {
            clock.sleep(rest);
        }
        t1 += rate;
        it += 1;
    }
    clock.starts
}

fn stretchy_sleep(trace: &Trace) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    let mut last_time = clock.now;
    let mut credit = 0;
    for it in 0..trace.ticks {
        let mut target = 0;
        if credit > 0 {
            clock.sleep(credit);
            target += credit;
            credit = 0;
        }
        clock.call(it);
        target += trace.period;
        let new_time = clock.now;
        credit += target - (new_time - last_time);
        last_time = new_time;
    }
    clock.starts
}

/// In nanoseconds; the article truncates every difference to microseconds.
fn measured_sleep(trace: &Trace) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    let mut time_to_wait = 0;
    for it in 0..trace.ticks {
        let start_time = clock.now;
        clock.call(it);
        time_to_wait += trace.period - (clock.now - start_time);
        if time_to_wait > 0 {
            let sleep_start_time = clock.now;
            clock.sleep(time_to_wait);
            time_to_wait -= clock.now - sleep_start_time;
        }
    }
    clock.starts
}

fn fixed_sleep(trace: &Trace) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    for it in 0..trace.ticks {
        clock.call(it);
        clock.sleep(trace.period);
    }
    clock.starts
}

/// First approach of the C++ article, and second loop of the stretchy sleep.
fn sleep_the_rest(trace: &Trace) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    for it in 0..trace.ticks {
        let start_time = clock.now;
        clock.call(it);
        let loop_time = clock.now - start_time;
        // A sleep of zero or less returns at once, without an oversleep.
        if trace.period > loop_time {
            clock.sleep(trace.period - loop_time);
        }
    }
    clock.starts
}

/// Second approach of the C++ article.
fn unmeasured_sleep(trace: &Trace) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    let mut time_to_wait = 0;
    for it in 0..trace.ticks {
        let start_time = clock.now;
        clock.call(it);
        time_to_wait += trace.period - (clock.now - start_time);
        if time_to_wait > 0 {
            clock.sleep(time_to_wait);
            time_to_wait = 0;
        }
    }
    clock.starts
}

/// `delay` written by hand: the next start is a period after this one, or at once if that has passed.
fn fixed_sleep_done_right(trace: &Trace) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    let (mut it, mut next) = (0, 0);
    while next < trace.ticks * trace.period {
        if next > clock.now {
            clock.sleep(next - clock.now);
        }
        next = clock.now + trace.period;
        clock.call(it);
        it += 1;
    }
    clock.starts
}

/// `catch-up` written by hand: a queue of at most `room` releases, filled one at a time.
fn bounded_queue(trace: &Trace, room: usize) -> Vec<Start> {
    let mut clock = Wound::new(trace);
    let (mut queue, mut it) = (VecDeque::new(), 0);
    loop {
        while it * trace.period <= clock.now {
            queue.push_back(it);
            it += 1;
            if queue.len() > room {
                queue.pop_front();
            }
        }
        match queue.pop_front() {
            Some(it) if it < trace.ticks => clock.call(it),
            None if it < trace.ticks => clock.sleep(it * trace.period - clock.now),
            _ => return clock.starts,
        }
    }
}

/// hertzd's run of the same trace, with its counts.
struct Ours {
    starts: Vec<Start>,
    ran: u64,
    skipped: u64,
}

fn ours(trace: &Trace, overrun: Overrun) -> Ours {
    let length = Span::from_nanos(trace.ticks * trace.period);
    let clock = SimClock::new(Instant::ZERO, spans(&trace.oversleeps));
    let spec = Spec {
        rate: Rate::from_period(Span::from_nanos(trace.period)).unwrap(),
        phase: Span::ZERO,
        overrun,
        deadline: Span::from_nanos(trace.period),
        task: Box::new(Scripted::new(clock.clone(), spans(&trace.runs))),
    };
    let (report, records) = run(clock, Instant::ZERO, vec![spec], Tail::Off, length);
    let starts = records.iter().map(|record| (record.n, i64::try_from(record.started().nanos()).unwrap()));
    let starts: Vec<_> = starts.collect();
    for record in &records {
        assert!(record.lateness >= Span::ZERO, "{overrun:?} started early: {record:?}\n{trace:?}");
    }
    Ours { starts, ran: report.tasks[0].1.ran, skipped: report.tasks[0].1.skipped }
}

/// The same run from a configuration, as in `hertzd simulate`.
fn by_configuration(trace: &Trace, overrun: Overrun) -> Vec<Start> {
    let length = Span::from_nanos(trace.ticks * trace.period);
    let quoted = |ns: &i64| format!("\"{ns}ns\"");
    let list = |nanos: &[i64]| nanos.iter().map(quoted).collect::<Vec<_>>().join(", ");
    let overrun = match overrun {
        Overrun::Drop => "overrun = \"drop\"".to_owned(),
        Overrun::KeepWorking => "overrun = \"keep-working\"".to_owned(),
        Overrun::CatchUp { max } => format!("overrun = \"catch-up\"\nmax-catch-up = {max}"),
        Overrun::Credit { max_debt } => format!("overrun = \"credit\"\nmax-debt = \"{}ns\"", max_debt.nanos()),
        Overrun::Delay => "overrun = \"delay\"".to_owned(),
    };
    let text = format!(
        "[worker.main.simulate]\noversleep = [{}]\n[task.loop]\nkind = \"load\"\nperiod = \"{}ns\"\n{overrun}\n\
         [task.loop.simulate]\nrun = [{}]\n",
        list(&trace.oversleeps),
        trace.period,
        list(&trace.runs)
    );
    let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
    let config =
        Config::parse(&text, "trace", &Kinds::builtin(), &facts).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let mut starts = Vec::new();
    let summary = simulate(&config, SimulateOptions { length, first_tick: 0 }, &mut |line| {
        assert_eq!(line.task, "loop");
        starts.push((line.n, i64::try_from(line.started_ns).unwrap()));
        Ok(())
    });
    let task = &summary.unwrap().tasks[0];
    assert_eq!(task.counts.ran, u64::try_from(starts.len()).unwrap());
    starts
}

const UNLIMITED: Overrun = Overrun::Credit { max_debt: Span::from_seconds(1_000_000) };

/// Asserts that `article` and hertzd start the same ticks at the same instants on random traces.
fn same_on_random_traces(
    seed: u64,
    (longest, latest): (i64, i64),
    article: impl Fn(&Trace) -> Vec<Start>,
    overrun: Overrun,
) {
    let mut random = SplitMix(seed);
    let (mut compared, mut given_up) = (0, 0);
    for case in 0..600 {
        let trace = Trace::random(&mut random, longest, latest);
        let wanted = article(&trace);
        let ours = ours(&trace, overrun);
        let first = wanted.iter().zip(&ours.starts).position(|(wanted, found)| wanted != found);
        assert!(
            ours.starts == wanted,
            "seed {seed:#x}, case {case}: {} starts, wanted {}; other from {first:?} on\n{trace:?}\n{:?}\n{wanted:?}",
            ours.starts.len(),
            wanted.len(),
            ours.starts
        );
        if case % 4 == 0 {
            let found = by_configuration(&trace, overrun);
            assert!(found == wanted, "simulate, seed {seed:#x}, case {case}: {trace:?}\n{found:?}\n{wanted:?}");
        }
        if overrun != Overrun::Delay {
            assert_eq!(
                ours.ran + ours.skipped,
                u64::try_from(trace.ticks).unwrap(),
                "seed {seed:#x}, case {case}: {trace:?}"
            );
        }
        compared += wanted.len();
        given_up += ours.skipped;
    }
    println!("seed {seed:#x}: {compared} starts are the same, {given_up} releases were given up");
    // Traces without any overrun would prove nothing.
    assert!(compared > 10_000, "{compared}");
    assert_eq!(given_up > 1_000, !matches!(overrun, Overrun::Credit { .. } | Overrun::Delay), "{given_up}");
}

// releases      0         1         2         3         4         5
// drop & rest   [0---------------------]      [3]       [4]       [5]     1 and 2 lost: rest until the next slot
#[test]
fn drop_is_drop_and_rest() {
    let drawn = Trace::of_millis(100, &[225, 30, 30, 30], &[0], 6);
    assert_eq!(drop_and_rest(&drawn), [0, 3, 4, 5].map(|n| (n, 100 * MILLI * i64::try_from(n).unwrap())));
    assert_eq!(ours(&drawn, Overrun::Drop).starts, drop_and_rest(&drawn));
    same_on_random_traces(0xd809, (5, 1), drop_and_rest, Overrun::Drop);
}

// releases      0         1         2         3         4         5
// no rest       [0---------------------][2]   [3]       [4]       [5]     1 lost; 2 runs at once, in the rest of its slot
#[test]
fn keep_working_is_no_rest() {
    let drawn = Trace::of_millis(100, &[225, 30, 30, 30, 30], &[0], 6);
    assert_eq!(no_rest(&drawn), [(0, 0), (2, 225), (3, 300), (4, 400), (5, 500)].map(|(n, ms)| (n, ms * MILLI)));
    assert_eq!(ours(&drawn, Overrun::KeepWorking).starts, no_rest(&drawn));
    same_on_random_traces(0x5eed, (5, 1), no_rest, Overrun::KeepWorking);
    same_on_random_traces(0x5eee, (5, 1), no_rest, Overrun::CatchUp { max: 1 });
}

// releases      0         1         2         3         4         5
// stretchy      [0---------------------][1][2][3]       [4]       [5]     nothing lost; 1 and 2 late, then caught up
#[test]
fn credit_is_the_stretchy_sleep() {
    let drawn = Trace::of_millis(100, &[225, 30, 30, 30, 30, 30], &[0], 6);
    let starts = [(0, 0), (1, 225), (2, 255), (3, 300), (4, 400), (5, 500)].map(|(n, ms)| (n, ms * MILLI));
    assert_eq!(stretchy_sleep(&drawn), starts);
    assert_eq!(ours(&drawn, UNLIMITED).starts, starts);
    // No release is ever given up, no matter how late a sleep ends.
    same_on_random_traces(0xc8ed, (5, 1), stretchy_sleep, UNLIMITED);
    same_on_random_traces(0xc8ee, (3, 7), stretchy_sleep, UNLIMITED);
}

// ms            0        100       200       300       400
// releases      0         1         2         3         4
// measured      [0----------------][1-------][2-]       [4
//               180 ms             90 ms     20 ms [3]  and so on: -80, -70, +10 ms to wait
#[test]
fn credit_is_the_measured_sleep() {
    let example = Trace::of_millis(100, &[180, 90, 20, 50], &[0], 5);
    let starts = [(0, 0), (1, 180), (2, 270), (3, 300), (4, 400)].map(|(n, ms)| (n, ms * MILLI));
    assert_eq!(measured_sleep(&example), starts);
    assert_eq!(ours(&example, UNLIMITED).starts, starts);
    same_on_random_traces(0x3d, (5, 1), measured_sleep, UNLIMITED);
    same_on_random_traces(0x3e, (3, 7), measured_sleep, UNLIMITED);
}

// catch-up N = 2 after a tick of 4.5 periods: of 1, 2, 3 and 4 the last two are kept
//
// releases      0         1         2         3         4         5         6
// catch-up 2    [0--------------------------------------------][3][4][5]    [6]
#[test]
fn catch_up_is_a_queue_with_room_for_n() {
    let drawn = Trace::of_millis(100, &[450, 30, 30, 30, 30], &[0], 7);
    let starts = [(0, 0), (3, 450), (4, 480), (5, 510), (6, 600)].map(|(n, ms)| (n, ms * MILLI));
    assert_eq!(ours(&drawn, Overrun::CatchUp { max: 2 }).starts, starts);
    let mut random = SplitMix(0xca7c);
    for room in [1, 2, 3, 4, 10, 1_000] {
        for case in 0..100 {
            let trace = Trace::random(&mut random, 6, 12);
            let max = u32::try_from(room).unwrap();
            let ours = ours(&trace, Overrun::CatchUp { max });
            assert_eq!(ours.starts, bounded_queue(&trace, room), "seed 0xca7c, N = {room}, case {case}: {trace:?}");
            if case % 4 == 0 {
                let found = by_configuration(&trace, Overrun::CatchUp { max });
                assert_eq!(found, ours.starts, "seed 0xca7c, N = {room}, case {case}: {trace:?}");
            }
            for &(n, start) in &ours.starts {
                let pending = start / trace.period + 1 - i64::try_from(n).unwrap();
                assert!(pending <= max.into(), "{pending} pending at {start}, N = {room}, case {case}: {trace:?}");
            }
        }
    }
}

// A tick of 2.5 periods moves everything after it; nothing is ever closer than a period.
//
// ms            0        100       200       300       400       500
// delay         [0-----------------------][1]       [2]       [3]
#[test]
fn delay_is_a_fixed_sleep_done_right() {
    let drawn = Trace::of_millis(100, &[250, 30, 30, 30], &[0], 5);
    let starts = [(0, 0), (1, 250), (2, 350), (3, 450)].map(|(n, ms)| (n, ms * MILLI));
    assert_eq!(ours(&drawn, Overrun::Delay).starts, starts);
    same_on_random_traces(0xde1a, (5, 1), fixed_sleep_done_right, Overrun::Delay);
    same_on_random_traces(0xde1b, (3, 7), fixed_sleep_done_right, Overrun::Delay);

    let mut random = SplitMix(0xde1c);
    for case in 0..500 {
        let trace = Trace::random(&mut random, 4, 4);
        let ours = ours(&trace, Overrun::Delay).starts;
        for pair in ours.windows(2) {
            assert_eq!(pair[1].0, pair[0].0 + 1, "seed 0xde1c, case {case}: {trace:?}");
            assert!(pair[1].1 - pair[0].1 >= trace.period, "seed 0xde1c, case {case}: {pair:?}, {trace:?}");
        }
    }
}

// After exactly one period both run 1 on time. After exactly two, "drop & rest" rests through that release:
//
// releases      0         1         2         3
// drop          [0------------------][2]      [3]      2 is on time
// drop & rest   [0------------------]         [3]      2 is lost as well
#[test]
fn a_release_on_the_finish_runs() {
    let one_period = Trace::of_millis(100, &[100, 10, 10], &[0], 4);
    let starts = [0, 1, 2, 3].map(|n| (n, 100 * MILLI * i64::try_from(n).unwrap()));
    for overrun in [Overrun::Drop, Overrun::KeepWorking, UNLIMITED] {
        assert_eq!(ours(&one_period, overrun).starts, starts, "{overrun:?}");
    }
    assert_eq!(drop_and_rest(&one_period), starts);
    assert_eq!(no_rest(&one_period), starts);

    let two_periods = Trace::of_millis(100, &[200, 10, 10], &[0], 4);
    let with_the_second = [(0, 0), (2, 200 * MILLI), (3, 300 * MILLI)];
    assert_eq!(ours(&two_periods, Overrun::Drop).starts, with_the_second);
    assert_eq!(ours(&two_periods, Overrun::KeepWorking).starts, with_the_second);
    assert_eq!(no_rest(&two_periods), with_the_second);
    assert_eq!(drop_and_rest(&two_periods), [(0, 0), (3, 300 * MILLI)]);
}

// The sleep after 0 ends 2.5 periods late:
//
// releases      0         1         2         3         4         5
// hertzd        [0]  . . . . . . . . . . . . . . . [3]  [4]       [5]     1 and 2 are given up, 3 runs in its slot
// the articles  [0]  . . . . . . . . . . . . . . . [1]                    1 runs although its slot has passed
#[test]
fn stale_releases_are_given_up_before_a_tick() {
    let late = Trace::of_millis(100, &[10], &[250, 0, 0, 0, 0, 0], 6);
    let starts = [(0, 0), (3, 350), (4, 400), (5, 500)].map(|(n, ms)| (n, ms * MILLI));
    for overrun in [Overrun::Drop, Overrun::KeepWorking] {
        assert_eq!(ours(&late, overrun).starts, starts, "{overrun:?}");
    }
    assert_eq!(no_rest(&late)[..3], [(0, 0), (1, 350 * MILLI), (3, 360 * MILLI)]);
    assert_eq!(drop_and_rest(&late)[..3], [(0, 0), (1, 350 * MILLI), (4, 400 * MILLI)]);
}

// A sleep that ends 10 ms late each time, with runs far below the period:
//
// releases      0         1         2         3         4
// the rest      [0] . . . .[1]. . . . .[2]. . . . .[3]             later by one more oversleep each time
// hertzd        [0] . . . .[1]. . . . [2] . . . . [3] . . . . [4]  late by the last oversleep only
#[test]
fn the_starting_loops_of_the_articles_drift() {
    let policies = [Overrun::Drop, Overrun::KeepWorking, Overrun::CatchUp { max: 4 }, UNLIMITED];
    let mut random = SplitMix(0xd81f);
    for case in 0..500 {
        let mut trace = Trace::random(&mut random, 1, 1);
        // Runs of half a period and oversleeps of a third: no tick overruns, so any lateness is drift.
        trace.runs.iter_mut().for_each(|run| *run /= 2);
        trace.oversleeps.iter_mut().for_each(|oversleep| *oversleep /= 3);
        let at = |script: &[i64], index: usize| script[index % script.len()];
        let sum = |script: &[i64], count: usize| (0..count).map(|index| at(script, index)).sum::<i64>();
        let context = format!("seed 0xd81f, case {case}: {trace:?}");

        let (fixed, rest, unmeasured) = (fixed_sleep(&trace), sleep_the_rest(&trace), unmeasured_sleep(&trace));
        let ours = policies.map(|overrun| ours(&trace, overrun).starts);
        for tick in 0..usize::try_from(trace.ticks).unwrap() {
            let release = trace.period * i64::try_from(tick).unwrap();
            let (run_so_far, overslept) = (sum(&trace.runs, tick), sum(&trace.oversleeps, tick));
            assert_eq!(fixed[tick].1 - release, run_so_far + overslept, "fixed sleep, tick {tick}; {context}");
            assert_eq!(rest[tick].1 - release, overslept, "first approach, tick {tick}; {context}");
            assert_eq!(unmeasured[tick].1 - release, overslept, "second approach, tick {tick}; {context}");
            let last = tick.checked_sub(1).map_or(0, |sleep| at(&trace.oversleeps, sleep));
            for (starts, overrun) in ours.iter().zip(policies) {
                assert_eq!(starts[tick].1 - release, last, "{overrun:?}, tick {tick}; {context}");
            }
        }
    }
}

// One tick of 2.5 periods, and sleeps that end on time. The first approach drops its debt, the second works it off:
//
// releases      0         1         2         3         4         5
// first         [0-----------------------][1]       [2]       [3]       1.5 periods late for good
// second        [0-----------------------][1][2]    [3]       [4]
#[test]
fn a_loop_that_drops_its_debt_stays_late() {
    let one_long = Trace::of_millis(100, &[250, 10, 10, 10, 10, 10, 10, 10], &[0], 8);
    let late = |starts: Vec<Start>| {
        let (n, start) = starts[7];
        start / MILLI - 100 * i64::try_from(n).unwrap()
    };
    assert_eq!(late(fixed_sleep(&one_long)), 310);
    assert_eq!(late(sleep_the_rest(&one_long)), 150);
    assert_eq!(late(unmeasured_sleep(&one_long)), 0);
    assert_eq!(late(ours(&one_long, UNLIMITED).starts), 0);
}

/// The module's queue of updates that bring the simulation up to the clock. A call runs at most `limit`; the rest stay queued.
struct UpToNUpdates {
    sim_time: i64,
    dt: i64,
    limit: i64,
}

impl UpToNUpdates {
    fn queue(&mut self, clock_time: i64) -> i64 {
        let updates = ((clock_time - self.sim_time) / self.dt).min(self.limit);
        self.sim_time += updates * self.dt;
        updates
    }
}

fn limit(steps: FixedStep, limit: Option<u32>) -> FixedStep {
    match limit {
        Some(limit) => steps.max_updates(NonZeroU32::new(limit).unwrap()),
        None => steps.unlimited(),
    }
}

// The module's table: an update simulates 10 ms and takes 20 ms. Every turn takes twice as long as the last.
//
// clock         10   30        70                  150                                     310
// unlimited     [1]  [1][2]    [1][2][3][4]        [1][2][3][4][5][6][7][8]                [1]...      and so on
// N = 4         [1]  [1][2]    [1][2][3][4]        [1][2][3][4]        [1][2][3][4]        [1]...      slow, but alive
#[test]
fn the_death_spiral_of_the_module_and_its_guard() {
    let (dt, cost) = (10 * MILLI, 20 * MILLI);
    let spiral: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let guarded = [1, 2, 4, 4, 4, 4, 4, 4, 4, 4];
    for (most, wanted) in [(None, spiral), (Some(4), guarded)] {
        for excess in [Excess::Keep, Excess::KeepUpTo(NonZeroU32::new(4).unwrap()), Excess::Discard] {
            let mut steps = limit(FixedStep::every(Span::from_nanos(dt)).unwrap().excess(excess), most);
            let mut module = UpToNUpdates { sim_time: 0, dt, limit: most.map_or(i64::MAX, i64::from) };
            let first = steps.advance(Instant::ZERO);
            assert!(first.render && first.updates == 0, "iteration 0 shows the initial state: {first:?}");
            let (mut clock, mut settled) = (dt, 0);
            for updates in wanted {
                let frame = steps.advance(Instant::from_nanos(clock.into()));
                let context = format!("at {clock} ns, at most {most:?}, {excess:?}: {frame:?}");
                assert_eq!((frame.updates, module.queue(clock)), (updates, updates.cast_signed()), "{context}");
                settled += frame.updates + frame.discarded;
                assert_eq!((settled + frame.pending).cast_signed(), clock / dt, "{context}");
                clock += cost * updates.cast_signed();
            }
        }
    }
}

// The simulation catches up only if a turn of the loop takes less time than N updates simulate:
//
// clock   0    25    50    75          10 ms an update
// N = 2        2     2     2           the backlog grows by 0.5 updates a turn: it never catches up
// N = 3        2     3     2           as many as come due
#[test]
fn n_updates_a_turn_catch_up_with_turns_below_n_steps() {
    for most in 1..=6_u32 {
        for turn in 1..=80 {
            let mut steps = limit(FixedStep::every(Span::from_millis(10)).unwrap(), Some(most));
            steps.advance(Instant::ZERO);
            steps.advance(Instant::ZERO + Span::from_millis(500)); // a spike of 50 updates
            let mut last = None;
            for n in 1..=1_000 {
                last = Some(steps.advance(Instant::ZERO + Span::from_millis(500 + turn * n)));
            }
            let pending = last.unwrap().pending;
            let keeps_up = turn < 10 * i64::from(most);
            assert_eq!(pending == 0, keeps_up, "N = {most}, a turn of {turn} ms: {pending} pending");
        }
    }
}

#[test]
fn fixed_step_is_the_module_on_random_clocks() {
    let mut random = SplitMix(0xf12e);
    for case in 0..500 {
        let dt = 1_000 + random.below(50_000_000);
        let most = [None, Some(1), Some(2), Some(4), Some(9)][usize::try_from(random.below(5)).unwrap()];
        let start = random.below(1_000_000_000);
        let mut steps = limit(FixedStep::every(Span::from_nanos(dt)).unwrap(), most);
        let mut module = UpToNUpdates { sim_time: 0, dt, limit: most.map_or(i64::MAX, i64::from) };
        let mut clock = 0;
        for call in 0..200 {
            let frame = steps.advance(Instant::from_nanos((start + clock).into()));
            let context =
                format!("seed 0xf12e, case {case}, call {call}: dt {dt}, at most {most:?}, {clock} ns: {frame:?}");
            let stood_still = random.below(4) == 0;
            assert_eq!(frame.updates.cast_signed(), module.queue(clock), "{context}");
            assert_eq!(frame.pending.cast_signed(), (clock - module.sim_time) / dt, "{context}");
            assert!((0.0..=1.0).contains(&frame.interpolation), "{context}");
            assert!(call > 0 || frame.render, "the initial state is always rendered; {context}");
            if stood_still {
                module.queue(clock); // queued updates may still run
                assert!(
                    !steps.advance(Instant::from_nanos((start + clock).into())).render,
                    "time stood still; {context}"
                );
            }
            let spike = random.below(20) == 0;
            clock += 1 + random.below(if spike { 40 * dt } else { 2 * dt });
        }
    }
}
