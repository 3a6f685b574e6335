//! Invariants of every set of tasks. The real loop runs on the virtual clock with random rates, phases, policies, deadlines, runs,
//! oversleeps, spins that end late and stalls, and with a clock that is stepped back. Also: a tick chosen before the wait is the same as
//! the tick chosen after it.
//!
//! This file computes every expectation from the records alone: releases from the index in wide integers, and kept releases by checking
//! them one by one. proptest prints the smallest worker that fails.

use super::virtual_worker::{Spec, run, spans};
use crate::channels::TickRecord;
use crate::pacing::{Account, GivenUp, Grid, Next, Overrun, Rate, Schedule, Tail, Target};
use crate::sim::SimClock;
use crate::task::{Task, Tick, TickError};
use crate::time::{Clock, Instant, Span, Wake};
use crate::worker::Report;
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::{Arc, Mutex};

const SECOND: i64 = 1_000_000_000;

/// One random task. All spans are nanoseconds.
#[derive(Clone, Debug)]
struct Plan {
    num: u64,
    den: u64,
    phase: i64,
    overrun: Overrun,
    deadline: i64,
    runs: Vec<i64>, // cycled; a negative one steps the clock back
}

impl Plan {
    fn rate(&self) -> Rate {
        Rate::new(self.num, self.den).unwrap()
    }

    /// `phase + floor(n·den·10⁹/num)`, from the epoch.
    fn release(&self, n: u64) -> i128 {
        i128::from(self.phase) + i128::from(n) * i128::from(self.den) * 1_000_000_000 / i128::from(self.num)
    }

    /// Number of releases in the first `length` of the run, counted one by one.
    fn due(&self, length: i64) -> u64 {
        (0..).take_while(|&n| self.release(n) < length.into()).count() as u64
    }

    /// Whether the releases form a fixed grid.
    fn has_grid(&self) -> bool {
        self.overrun != Overrun::Delay
    }

    /// The release to run first at `now`. `next` is the first release that has not been given up.
    fn admitted(&self, next: u64, now: i128) -> u64 {
        let mut first = next;
        match self.overrun {
            Overrun::Drop | Overrun::KeepWorking => {
                while self.release(first + 1) <= now {
                    first += 1;
                }
            }
            Overrun::CatchUp { max } => {
                while self.release(first + u64::from(max)) <= now {
                    first += 1;
                }
            }
            Overrun::Credit { max_debt } => {
                while self.release(first) < now - i128::from(max_debt.nanos()) {
                    first += 1;
                }
            }
            Overrun::Delay => {}
        }
        first
    }
}

/// A worker with its tasks.
#[derive(Clone, Debug)]
struct Case {
    tasks: Vec<Plan>,
    oversleeps: Vec<i64>,
    overspins: Vec<i64>,
    tail: Tail,
    epoch: i64,
    length: i64,
}

impl Case {
    fn twice_as_long(&self) -> Self {
        Self { length: 2 * self.length, ..self.clone() }
    }

    fn run(&self) -> Outcome {
        self.run_for(self.length)
    }

    fn run_for(&self, length: i64) -> Outcome {
        let epoch = Instant::from_nanos(self.epoch.into());
        let clock = SimClock::new(epoch, spans(&self.oversleeps));
        let ticks: Vec<_> = self.tasks.iter().map(|_| Arc::default()).collect();
        let spec = |(plan, ticks): (&Plan, &Ticks)| Spec {
            rate: plan.rate(),
            phase: Span::from_nanos(plan.phase),
            overrun: plan.overrun,
            deadline: Span::from_nanos(plan.deadline),
            task: Box::new(Winding { clock: clock.clone(), runs: spans(&plan.runs), ticks: Arc::clone(ticks) }),
        };
        let specs = self.tasks.iter().zip(&ticks).map(spec).collect();
        let spinning = Overspinning { clock: clock.clone(), late: spans(&self.overspins), spins: Cell::new(0) };
        let (report, records) = run(spinning, epoch, specs, self.tail, Span::from_nanos(length));
        let ticks = ticks.iter().map(|ticks| std::mem::take(&mut *ticks.lock().unwrap())).collect();
        Outcome { report, records, ticks }
    }

    /// Nanoseconds since the epoch.
    fn since_epoch(&self, at: Instant) -> i128 {
        at.nanos() - i128::from(self.epoch)
    }
}

/// A clock whose spins end late, each by the next of `late`, repeated in a cycle.
struct Overspinning {
    clock: SimClock,
    late: Vec<Span>,
    spins: Cell<usize>,
}

impl Clock for Overspinning {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep_until(&self, at: Instant) -> Wake {
        self.clock.sleep_until(at)
    }

    fn spin_until(&self, at: Instant) -> Instant {
        let spin = self.spins.replace(self.spins.get() + 1);
        let late = self.late.get(spin % self.late.len().max(1)).copied().unwrap_or_default();
        self.clock.spin_until(at + late)
    }
}

type Ticks = Arc<Mutex<Vec<Tick>>>;

/// Advances the clock by its script, possibly backwards, and keeps every `Tick` that it was given.
struct Winding {
    clock: SimClock,
    runs: Vec<Span>,
    ticks: Ticks,
}

impl Task for Winding {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let mut ticks = self.ticks.lock().unwrap();
        self.clock.advance(self.runs[ticks.len() % self.runs.len()]);
        ticks.push(*tick);
        Ok(())
    }
}

/// The result of a run.
#[derive(Debug)]
struct Outcome {
    report: Report,
    records: Vec<TickRecord>,
    ticks: Vec<Vec<Tick>>,
}

impl Outcome {
    fn of(&self, task: usize) -> impl Iterator<Item = &TickRecord> {
        self.records.iter().filter(move |record| record.task as usize == task)
    }

    fn given_up(&self, task: usize) -> u64 {
        self.report
            .given_up
            .iter()
            .filter(|(_, given_up)| given_up.task == task)
            .map(|(_, given_up)| given_up.count)
            .sum()
    }
}

fn rate() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        Just((1, 1)),
        Just((10, 1)),
        Just((60, 1)),
        Just((1_000, 1)),
        Just((30_000, 1_001)),
        Just((24_000, 1_001)),
        Just((2_997, 100)),
        Just((1, 5)),
        (1_u64..1_000, 1_u64..12),
        // Periods that are a whole number of nanoseconds but not of any larger unit.
        (1_000_000_u64..400_000_000).prop_map(|period| (1_000_000_000, period)),
    ]
}

fn overrun() -> impl Strategy<Value = Overrun> {
    prop_oneof![
        Just(Overrun::Drop),
        Just(Overrun::KeepWorking),
        (1_u32..8).prop_map(|max| Overrun::CatchUp { max }),
        (1_i64..SECOND).prop_map(|nanos| Overrun::Credit { max_debt: Span::from_nanos(nanos) }),
        Just(Overrun::Delay),
    ]
}

/// The length of a run or an oversleep.
fn short() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0), 8 => 0..200_000_i64, 3 => 0..3_000_000_i64]
}

/// The same, but sometimes a few periods, and rarely a stall of thousands.
fn taken() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => short(),
        4 => 0..20_000_000_i64,
        2 => (0..100_i64).prop_map(|ms| ms * 1_000_000), // so that some instants fall exactly on releases
        1 => 0..SECOND,
        1 => 0..5 * SECOND,
    ]
}

/// One script. Most have no stall, because a stall makes a run give up nearly all of its releases.
fn script() -> BoxedStrategy<Vec<i64>> {
    let long = prop::collection::vec(taken(), 1..30);
    prop_oneof![3 => prop::collection::vec(short(), 1..12), 1 => long].boxed()
}

/// A script that sometimes steps the clock back.
fn script_with_steps_back() -> BoxedStrategy<Vec<i64>> {
    let taken_or_back = prop_oneof![4 => taken(), 1 => taken().prop_map(|nanos| -nanos)];
    prop_oneof![1 => script(), 1 => prop::collection::vec(taken_or_back, 1..12)].boxed()
}

fn plan(runs: BoxedStrategy<Vec<i64>>) -> impl Strategy<Value = Plan> {
    let period = |(num, den): (u64, u64)| i64::try_from(u128::from(den) * 1_000_000_000 / u128::from(num)).unwrap();
    let shares = (prop_oneof![Just(0), 0..1_000_i64], prop_oneof![Just(1_000), 1..3_000_i64]);
    (rate(), overrun(), shares, runs).prop_map(move |((num, den), overrun, (phase, deadline), runs)| Plan {
        num,
        den,
        phase: period((num, den)) * phase / 1_000,
        overrun,
        deadline: (period((num, den)) * deadline / 1_000).max(1),
        runs,
    })
}

fn tail() -> impl Strategy<Value = Tail> {
    prop_oneof![
        2 => Just(Tail::Off),
        1 => (1_i64..1_000_000).prop_map(|nanos| Tail::Fixed(Span::from_nanos(nanos))),
        1 => (1_u32..50, prop::option::of((500_u32..1_000, 1_i64..100_000))).prop_map(|(percent, target)| {
            let of = |(thousandths, below)| Target { thousandths, below: Span::from_nanos(below) };
            Tail::Auto { cpu_max: f64::from(percent) / 100.0, target: target.map(of) }
        }),
    ]
}

fn case(runs: BoxedStrategy<Vec<i64>>) -> impl Strategy<Value = Case> {
    let tasks = prop::collection::vec(plan(runs), 1..=8);
    let oversleeps = prop_oneof![1 => Just(Vec::new()), 6 => script()];
    let overspins = prop_oneof![2 => Just(Vec::new()), 1 => script()];
    let length = prop_oneof![3 => 0..SECOND / 5, 2 => 0..3 * SECOND];
    let case = |(tasks, (oversleeps, overspins), tail, epoch, length)| Case {
        tasks,
        oversleeps,
        overspins,
        tail,
        epoch,
        length,
    };
    (tasks, (oversleeps, overspins), tail(), -SECOND..100 * SECOND, length).prop_map(case)
}

/// Checks counts, indices and releases. None of these needs a clock that only goes forward.
fn counts_add_up(case: &Case, outcome: &Outcome) -> Result<(), TestCaseError> {
    for (index, plan) in case.tasks.iter().enumerate() {
        let (_, counts) = outcome.report.tasks[index];
        let ran = outcome.of(index).count() as u64;
        let skipped: u64 = outcome.of(index).map(TickRecord::skipped).sum();
        prop_assert_eq!(counts.ran, ran, "task {}", index);
        prop_assert_eq!(counts.skipped, skipped + outcome.given_up(index), "task {}", index);
        if plan.has_grid() {
            prop_assert_eq!(counts.ran + counts.skipped, plan.due(case.length), "task {}", index);
        } else {
            prop_assert_eq!(counts.skipped, 0, "delay has no debt: task {}", index);
        }

        let mut expected = 0;
        let mut latest = None;
        for record in outcome.of(index) {
            prop_assert!(record.lateness >= Span::ZERO, "early: {:?}", record);
            prop_assert_eq!(record.n, expected + record.missed, "what was skipped shows in the index: {:?}", record);
            expected = record.n + 1 + record.dropped;
            if plan.has_grid() {
                prop_assert_eq!(case.since_epoch(record.release), plan.release(record.n), "off the grid: {:?}", record);
            }
            prop_assert!(latest < Some(record.release), "released at or before the last one: {:?}", record);
            prop_assert!(case.since_epoch(record.release) < case.length.into(), "past the end: {:?}", record);
            latest = Some(record.release);
        }
        if plan.has_grid() {
            prop_assert_eq!(expected + outcome.given_up(index), plan.due(case.length), "task {}", index);
        }
    }
    for (_, GivenUp { task, count, .. }) in &outcome.report.given_up {
        prop_assert!(*count > 0 && *task < case.tasks.len());
    }
    Ok(())
}

/// The `Tick` passed to a task agrees with the records.
fn ticks_match_the_records(case: &Case, outcome: &Outcome) -> Result<(), TestCaseError> {
    for (index, plan) in case.tasks.iter().enumerate() {
        let mut before: Option<&TickRecord> = None;
        for (record, tick) in outcome.of(index).zip(&outcome.ticks[index]) {
            let facts = (tick.n, tick.release, tick.started, tick.lateness);
            prop_assert_eq!(facts, (record.n, record.release, record.started(), record.lateness));
            prop_assert_eq!(tick.skipped, before.map_or(0, |before| before.dropped) + record.missed, "{:?}", tick);
            prop_assert_eq!(
                tick.period.nanos(),
                i64::try_from(plan.release(1) - plan.release(0))
                    .map(|floor| { floor + i64::from(plan.den * 1_000_000_000 % plan.num > 0) })
                    .unwrap()
            );
            let credit = match before {
                None => Span::ZERO,
                Some(before) if plan.has_grid() => {
                    let next = Instant::from_nanos(i128::from(case.epoch) + plan.release(before.n + 1));
                    next - before.finished()
                }
                Some(before) => before.started() + tick.period - before.finished(),
            };
            prop_assert_eq!(tick.credit, credit, "{:?}", tick);
            before = Some(record);
        }
    }
    Ok(())
}

/// The number of releases pending when a tick starts stays within what the policy allows.
fn bursts_are_bounded(case: &Case, outcome: &Outcome) -> Result<(), TestCaseError> {
    for record in &outcome.records {
        let plan = &case.tasks[record.task as usize];
        let started = case.since_epoch(record.started());
        let most = match plan.overrun {
            Overrun::Drop | Overrun::KeepWorking => 1,
            Overrun::CatchUp { max } => u64::from(max),
            Overrun::Credit { max_debt } => {
                prop_assert!(record.lateness <= max_debt, "{:?} behind: {:?}", record.lateness, record);
                continue;
            }
            Overrun::Delay => continue,
        };
        let pending = (record.n..).take_while(|&n| plan.release(n) <= started).count() as u64;
        prop_assert!(pending <= most, "{} pending, {:?}: {:?}", pending, plan.overrun, record);
    }
    for (index, plan) in case.tasks.iter().enumerate() {
        let pairs = outcome.of(index).zip(outcome.of(index).skip(1));
        for (before, after) in pairs {
            match plan.overrun {
                // A task never runs its own debt: the next release is at or after the finish.
                Overrun::Drop => prop_assert!(after.release >= before.finished(), "{:?} {:?}", before, after),
                Overrun::Delay => {
                    prop_assert!(
                        after.started() - before.started() >= plan.rate().period(),
                        "{:?} {:?}",
                        before,
                        after
                    );
                    prop_assert_eq!(after.release, before.started() + plan.rate().period());
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A release is given up only when the policy requires it.
fn releases_are_given_up_only_when_required(case: &Case, outcome: &Outcome) -> Result<(), TestCaseError> {
    for (index, plan) in case.tasks.iter().enumerate().filter(|(_, plan)| plan.has_grid()) {
        let due = plan.due(case.length);
        let mut first = 0;
        for record in outcome.of(index) {
            let started = case.since_epoch(record.started());
            prop_assert_eq!(record.n, plan.admitted(first, started), "{:?}: {:?}", plan.overrun, record);
            let finished = case.since_epoch(record.finished());
            let next = record.n + 1;
            let kept = match plan.overrun {
                // A release exactly at the finish is on time.
                Overrun::Drop => (next..).find(|&n| plan.release(n) >= finished).unwrap(),
                _ => plan.admitted(next, finished),
            };
            prop_assert_eq!(record.dropped, kept.min(due).saturating_sub(next), "{:?}: {:?}", plan.overrun, record);
            first = next + record.dropped;
        }
    }
    Ok(())
}

/// Ticks never overlap, and the one with the earliest deadline always runs. Ties go first to a task that had to give up releases on two
/// occasions while it waited, then to the task whose last tick is longest ago.
fn order_is_by_deadline(case: &Case, outcome: &Outcome) -> Result<(), TestCaseError> {
    // For each task: the first release that it has not given up; under `delay` also its instant; how often it gave up some while it waited.
    let mut next: Vec<_> = case.tasks.iter().map(|plan| (0, plan.release(0), 0)).collect();
    let mut finished = i128::MIN;
    let mut ran = vec![0; case.tasks.len()]; // ticks of all tasks that had run when its last one had
    for (ticks, record) in (1..).zip(&outcome.records) {
        let started = case.since_epoch(record.started());
        prop_assert!(started >= finished, "it overlaps the previous tick: {:?}", record);
        finished = case.since_epoch(record.finished());

        let own = record.task as usize;
        let turn = |index: usize, (n, at, gave_up): (u64, i128, u32)| {
            let plan = &case.tasks[index];
            let release = if plan.has_grid() { plan.release(n) } else { at };
            (release + i128::from(plan.deadline), gave_up < 2, ran[index], index)
        };
        let (first, at, gave_up) = next[own];
        let gave_up = gave_up + u32::from(case.tasks[own].has_grid() && record.n > first);
        let own_turn = turn(own, (record.n, at, gave_up));
        for (index, plan) in case.tasks.iter().enumerate().filter(|(index, _)| *index != own) {
            let (first, at, gave_up) = next[index];
            let release = if plan.has_grid() { plan.release(first) } else { at };
            if release > started || release >= case.length.into() || own_turn < turn(index, next[index]) {
                continue;
            }
            // Its turn came before, so it must have given up that release.
            let kept = if plan.has_grid() { plan.admitted(first, started) } else { first };
            let is_due = plan.release(kept) <= started && plan.release(kept) < case.length.into();
            next[index] = (kept, at, gave_up + 1);
            prop_assert!(
                kept > first && (!is_due || own_turn < turn(index, next[index])),
                "task {} should run release {} before {:?}: {:?}, {:?}",
                index,
                kept,
                record,
                turn(index, next[index]),
                own_turn
            );
        }

        let period = i128::from(case.tasks[own].rate().period().nanos());
        ran[own] = ticks;
        next[own] = (record.n + 1 + record.dropped, started + period, 0);
    }
    Ok(())
}

/// No tick is delayed without reason: the worker never idles while a tick is due.
fn the_worker_never_idles_while_a_tick_is_due(case: &Case, outcome: &Outcome) -> Result<(), TestCaseError> {
    let mut finished = i128::from(0);
    for record in &outcome.records {
        let (release, started) = (case.since_epoch(record.release), case.since_epoch(record.started()));
        if release <= finished {
            prop_assert_eq!(started, finished, "it was due when the worker became free: {:?}", record);
        }
        finished = case.since_epoch(record.finished());
    }
    Ok(())
}

/// The events while a worker waits for a release, and during the tick that follows.
#[derive(Clone, Debug)]
struct Turn {
    late: i64,         // how late the wait ends; negative: it is interrupted
    run: i64,          // of the tick
    ends: bool,        // the tick disables its task
    step: Option<i64>, // of the clock, after the wait
}

fn turn() -> impl Strategy<Value = Turn> {
    let late = prop_oneof![4 => Just(0), 4 => 0..2_000_i64, 2 => taken(), 1 => -5_000_000..0_i64];
    let step = prop_oneof![30 => Just(None), 1 => (-SECOND..SECOND).prop_map(Some)];
    let ends = prop_oneof![200 => Just(false), 1 => Just(true)];
    (late, taken(), ends, step).prop_map(|(late, run, ends, step)| Turn { late, run, ends, step })
}

/// Compares a schedule that chooses the tick before each wait with one that chooses it afterwards.
fn deciding_ahead_changes_nothing(tasks: &[Plan], turns: &[Turn], end: i64) -> Result<u32, TestCaseError> {
    let end = Instant::from_nanos(end.into());
    let account = |plan: &Plan| {
        let grid = Grid::starting_at(Instant::from_nanos(plan.phase.into()), plan.rate());
        (Account::new(grid, plan.overrun, 0, end), Span::from_nanos(plan.deadline))
    };
    let mut after = Schedule::new(tasks.iter().map(account));
    let mut ahead = after.clone();
    let (mut now, mut held) = (Instant::ZERO, 0);
    for turn in turns {
        let decided = after.next(now);
        prop_assert_eq!(ahead.next(now), decided);
        let due = match decided {
            Next::Finished => break,
            Next::Run(due) => due,
            Next::Rest(release) => {
                let prepared = ahead.prepare(release);
                now = now.max(release + Span::from_nanos(turn.late));
                match prepared {
                    Some(prepared) if release <= now && now < prepared.until && turn.step.is_none() => {
                        prop_assert_eq!(after.next(now), Next::Run(prepared.due));
                        held += 1;
                        prepared.due
                    }
                    prepared => {
                        prepared.into_iter().for_each(|prepared| ahead.hand_back(prepared.due.task));
                        if let Some(step) = turn.step {
                            let by = Span::from_nanos(step);
                            now = now + by;
                            [&mut after, &mut ahead].into_iter().for_each(|schedule| schedule.step(by, now));
                        }
                        continue;
                    }
                }
            }
        };
        let (started, finished) = (now, now + Span::from_nanos(turn.run));
        let settled = [&mut after, &mut ahead].map(|schedule| match turn.ends {
            true => schedule.disable(due.task, started, finished),
            false => schedule.settle(due.task, started, finished),
        });
        prop_assert_eq!(settled[0], settled[1]);
        now = finished;
    }
    let given_up = [&mut after, &mut ahead].map(|schedule| {
        let mut given_up = Vec::new();
        schedule.close(now, |one| given_up.push(one));
        given_up
    });
    prop_assert_eq!(&given_up[0], &given_up[1]);
    for (after, ahead) in after.accounts().zip(ahead.accounts()) {
        prop_assert_eq!((after.ran(), after.skipped(), after.next()), (ahead.ran(), ahead.skipped(), ahead.next()));
    }
    Ok(held)
}

fn facts(outcome: &Outcome) -> impl Iterator<Item = (u32, u64, Instant, Instant, Instant)> {
    outcome.records.iter().map(|record| (record.task, record.n, record.release, record.started(), record.finished()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold(case in case(script())) {
        let outcome = case.run();
        counts_add_up(&case, &outcome)?;
        ticks_match_the_records(&case, &outcome)?;
        bursts_are_bounded(&case, &outcome)?;
        releases_are_given_up_only_when_required(&case, &outcome)?;
        order_is_by_deadline(&case, &outcome)?;
        the_worker_never_idles_while_a_tick_is_due(&case, &outcome)?;
    }

    /// Ticks set the clock back by up to five seconds: nothing is counted twice.
    #[test]
    fn a_clock_that_goes_back_is_harmless(case in case(script_with_steps_back())) {
        let outcome = case.run();
        counts_add_up(&case, &outcome)?;
        ticks_match_the_records(&case, &outcome)?;
        bursts_are_bounded(&case, &outcome)?;
    }

    #[test]
    fn the_same_case_runs_the_same_way(case in case(script_with_steps_back())) {
        let (once, again) = (case.run(), case.run());
        prop_assert_eq!(once.records, again.records);
        prop_assert_eq!(once.report.tasks, again.report.tasks);
    }

    /// Both runs are identical until the shorter one ends. After that, the longer one has more releases, and those of another task may come
    /// first, except with a single task.
    #[test]
    fn a_short_run_is_the_beginning_of_a_long_one(case in case(script())) {
        let (short, long) = (case.run(), case.twice_as_long().run());
        let end = Instant::from_nanos((case.epoch + case.length).into());
        let counted: Vec<_> = facts(&short).take_while(|fact| case.tasks.len() == 1 || fact.3 < end).collect();
        prop_assert!(counted.iter().copied().eq(facts(&long).take(counted.len())));
        if case.tasks.len() == 1 {
            prop_assert_eq!(counted.len(), short.records.len());
        }
        for ((_, short), (_, long)) in short.report.tasks.iter().zip(&long.report.tasks) {
            prop_assert!(short.ran <= long.ran || case.tasks.len() > 1, "{:?} {:?}", short, long);
        }
    }

    /// The tick prepared before the wait is the one chosen at its end; otherwise it is handed back.
    #[test]
    fn a_prepared_tick_is_the_one_that_is_due(
        tasks in prop::collection::vec(plan(script()), 1..=8),
        turns in prop::collection::vec(turn(), 1..200),
        end in prop_oneof![1 => 0..SECOND, 3 => Just(i64::MAX)],
    ) {
        deciding_ahead_changes_nothing(&tasks, &turns, end)?;
    }

    /// A single task with frequent long stalls: the hardest case for a policy.
    #[test]
    fn stalls_of_thousands_of_periods(
        overrun in overrun(),
        (num, den) in prop_oneof![Just((1_000_u64, 1_u64)), Just((30_000, 1_001)), Just((44_100, 100)), Just((7, 3))],
        stalls in prop::collection::vec(0..3_000_i64, 1..6),
        rest in prop::collection::vec(0..SECOND, 1..6),
        runs in prop::collection::vec(taken(), 1..6),
        length in 1..3_000_i64,
    ) {
        let period = i64::try_from(den * 1_000_000_000 / num).unwrap();
        let oversleeps = stalls.iter().zip(rest.iter().cycle()).map(|(stall, rest)| stall * period + rest % period);
        let deadline = period;
        let case = Case {
            oversleeps: oversleeps.collect(),
            overspins: Vec::new(),
            tasks: vec![Plan { num, den, phase: 0, overrun, deadline, runs }],
            tail: Tail::Off,
            epoch: 0,
            length: length * period,
        };
        let outcome = case.run();
        counts_add_up(&case, &outcome)?;
        bursts_are_bounded(&case, &outcome)?;
        releases_are_given_up_only_when_required(&case, &outcome)?;
        the_worker_never_idles_while_a_tick_is_due(&case, &outcome)?;
    }
}

#[test]
fn a_prepared_tick_is_usually_run() {
    let plan = |num, overrun| Plan { num, den: 1, phase: 0, overrun, deadline: 1_000_000, runs: Vec::new() };
    let tasks = [plan(1_000, Overrun::Drop), plan(100, Overrun::KeepWorking), plan(70, Overrun::Delay)];
    let turns = vec![Turn { late: 500, run: 20_000, ends: false, step: None }; 2_000];
    let held = deciding_ahead_changes_nothing(&tasks, &turns, i64::MAX).unwrap();
    assert!(held > 1_000, "{held}");
}
