//! Tests of the schedule.

use super::super::{Grid, Overrun, Rate};
use super::*;
use proptest::prelude::*;

fn at(millis: i64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

fn account(hertz: u64, overrun: Overrun, end: Instant) -> Account {
    Account::new(Grid::starting_at(Instant::ZERO, Rate::new(hertz, 1).unwrap()), overrun, 0, end)
}

fn run(schedule: &mut Schedule, now: i64) -> (usize, u64) {
    match schedule.next(at(now)) {
        Next::Run(due) => (due.task, due.n),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_earliest_deadline_runs_first_then_the_one_declared_first() {
    let deadlines = [100, 20, 20, 50].map(Span::from_millis);
    let mut schedule =
        Schedule::new(deadlines.map(|deadline| (account(10, Overrun::KeepWorking, Instant::MAX), deadline)));
    let mut order = Vec::new();
    for now in 0..4 {
        let (task, n) = run(&mut schedule, now);
        schedule.settle(task, at(now), at(now + 1));
        order.push((task, n));
    }
    assert_eq!(order, [(1, 0), (2, 0), (3, 0), (0, 0)]);
    assert_eq!(schedule.next(at(4)), Next::Rest(at(100)));
    assert_eq!(schedule.next(at(-4)), Next::Rest(at(100)));
}

#[test]
fn overload_starves_none_of_those_with_equal_deadlines() {
    let tasks =
        [1_000, 1_000, 1_000].map(|hertz| (account(hertz, Overrun::KeepWorking, Instant::MAX), Span::from_millis(1)));
    let mut schedule = Schedule::new(tasks);
    let mut order = Vec::new();
    // Each tick takes two periods, so all tasks are due again after each tick.
    for now in (0..18).step_by(2) {
        let (task, _) = run(&mut schedule, now);
        schedule.settle(task, at(now), at(now + 2));
        order.push(task);
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    let mut next = Schedule::with_room_for(4);
    (0..3).rev().for_each(|position| next.adopt(&schedule, position, Span::from_millis(1).into()));
    next.add(account(1_000, Overrun::KeepWorking, Instant::MAX), Span::from_millis(1).into());
    let mut order = Vec::new();
    for now in (18..26).step_by(2) {
        let (task, _) = run(&mut next, now);
        next.settle(task, at(now), at(now + 2));
        order.push(task);
    }
    assert_eq!(order, [2, 1, 0, 3], "a reload changes nothing: it goes by when they ran, and a new one comes last");
}

#[test]
fn a_task_that_moves_on_is_sorted_anew() {
    let tasks = [(5, 40), (2, 60)]
        .map(|(hertz, deadline)| (account(hertz, Overrun::KeepWorking, Instant::MAX), Span::from_millis(deadline)));
    let mut schedule = Schedule::new(tasks);
    // Both wait until 450: task 0 gives up 0 and 200 and moves on to 400 + 40, while task 1 still has 0 + 60.
    assert_eq!(run(&mut schedule, 450), (1, 0));
    schedule.settle(1, at(450), at(460));
    let Next::Run(due) = schedule.next(at(460)) else { panic!() };
    assert_eq!((due.task, due.n, due.skipped, due.missed), (0, 2, 2, 2));
}

#[test]
fn what_no_tick_reports_is_told_at_the_close() {
    let mut schedule = Schedule::new([(account(10, Overrun::KeepWorking, at(500)), Span::from_millis(100))]);
    // A stall past the end: every release is given up, and none is left to run.
    assert_eq!(schedule.next(at(2_000)), Next::Finished);
    let mut told = Vec::new();
    schedule.close(at(2_000), |given_up| told.push(given_up));
    assert_eq!(
        told,
        [GivenUp {
            task: 0,
            count: 5,
            oldest: Span::from_millis(2_000),
            at: at(2_000),
            jumped: Span::ZERO,
            disabled: false
        }]
    );
    assert_eq!(schedule.accounts().next().map(Account::due), Some(5));
}

#[test]
fn an_adopted_task_goes_on_as_it_was() {
    let task = || (account(10, Overrun::CatchUp { max: 3 }, Instant::MAX), Span::from_millis(100));
    let mut old = Schedule::new([task(), task(), task()]);
    for position in 0..3 {
        run(&mut old, 0);
        old.settle(position, at(0), at(1));
    }
    let mut new = Schedule::with_room_for(2);
    new.add(account(50, Overrun::Drop, Instant::MAX), Span::from_millis(20).into());
    new.adopt(&old, 1, Span::from_millis(100).into());
    assert_eq!(run(&mut new, 1), (0, 0));
    new.settle(0, at(1), at(2));
    assert_eq!(new.next(at(2)), Next::Rest(at(20)));
    assert_eq!(run(&mut new, 105), (0, 5), "the tick at 100 with the earlier deadline");
    assert_eq!(run(&mut new, 105), (1, 1));
    assert_eq!(new.accounts().map(Account::ran).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_disabled_task_goes_on_being_due() {
    let mut schedule = Schedule::new([(account(10, Overrun::Drop, at(1_000)), Span::from_millis(100))]);
    run(&mut schedule, 0);
    schedule.disable(0, at(0), at(1));
    assert_eq!(schedule.next(at(500)), Next::Rest(at(1_000)));
    assert_eq!(schedule.next(at(1_000)), Next::Finished);
    schedule.close(Instant::MAX, |given_up| assert!(given_up.disabled));
    let account = schedule.accounts().next().unwrap();
    assert_eq!((account.ran(), account.skipped()), (1, 9));
}

/// A task: its period and run in milliseconds, and the earlier tasks that read its values.
type Linked = (i64, i64, Vec<usize>);

/// The ticks that ran in this time, each with its task, release, start and end in milliseconds.
fn play(tasks: &[Linked], millis: i64) -> Vec<(usize, i64, i64, i64)> {
    let mut turns: Vec<Turn> = Vec::new();
    for (period, _, feeds) in tasks {
        let own = Turn::from(Span::from_millis(*period));
        turns.push(feeds.iter().fold(own, |turn, fed| turn.before(turns[*fed])));
    }
    let hertz = |period: i64| u64::try_from(1_000 / period).unwrap();
    let account = |(period, ..): &Linked| account(hertz(*period), Overrun::KeepWorking, at(millis));
    let mut schedule = Schedule::new(tasks.iter().map(account).zip(turns));
    let (mut now, mut ran) = (0, Vec::new());
    let millis = |instant: Instant| i64::try_from(instant.nanos() / 1_000_000).unwrap();
    loop {
        match schedule.next(at(now)) {
            Next::Run(Due { task, release, .. }) => {
                let finished = now + tasks[task].1;
                schedule.settle(task, at(now), at(finished));
                ran.push((task, millis(release), now, finished));
                now = finished;
            }
            Next::Rest(release) => now = millis(release),
            Next::Finished => return ran,
        }
    }
}

/// The longest time that each task waited for a tick.
fn waited(tasks: &[Linked], millis: i64) -> Vec<i64> {
    let ran = play(tasks, millis);
    let longest = |of: usize| {
        let ends = ran.iter().filter(|(task, ..)| *task == of).map(|(.., end)| *end);
        let ends: Vec<i64> = [0].into_iter().chain(ends).chain([millis]).collect();
        ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    };
    (0..tasks.len()).map(longest).collect()
}

#[test]
fn overload_starves_no_task_of_a_chain_and_none_beside_it() {
    let chains: [&[Linked]; 4] = [
        // A chain of three whose first value also goes to another task, then an unlinked task.
        &[(10, 1, vec![]), (10, 4, vec![0]), (10, 2, vec![]), (10, 6, vec![1, 2])],
        &[(10, 1, vec![]), (10, 1, vec![0]), (10, 9, vec![1]), (10, 1, vec![])],
        // The chain's first task takes longer than its period.
        &[(10, 1, vec![]), (10, 4, vec![0]), (10, 12, vec![1]), (10, 1, vec![])],
        // The same for a task that inherits the deadline of a faster one.
        &[(10, 1, vec![]), (50, 60, vec![0]), (50, 1, vec![])],
    ];
    for tasks in chains {
        let waited = waited(tasks, 10_000);
        assert!(waited.iter().all(|waited| *waited < 250), "{tasks:?}: {waited:?} ms");
    }
}

fn linked(periods: &'static [i64], longest: i64) -> impl Strategy<Value = Vec<Linked>> {
    let task = (prop::sample::select(periods), 1..=longest, prop::collection::vec(any::<prop::sample::Index>(), 0..3));
    prop::collection::vec(task, 2..7).prop_map(|tasks| {
        let tasks = tasks.into_iter().enumerate();
        tasks
            .map(|(at, (period, run, feeds))| {
                (period, run, feeds.iter().filter(|_| at > 0).map(|fed| fed.index(at)).collect())
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn of_tasks_with_equal_deadlines_each_runs_after_the_others_have_at_the_latest(tasks in linked(&[10], 25)) {
        let all: i64 = tasks.iter().map(|(_, run, _)| run).sum();
        let waited = waited(&tasks, 2_000);
        prop_assert!(waited.iter().all(|waited| *waited <= 3 * 10 + 2 * all), "{:?}: {:?} ms", tasks, waited);
    }

    #[test]
    fn without_overload_a_producer_runs_before_those_that_take_its_values(tasks in linked(&[10, 20, 50], 2)) {
        let ran = play(&tasks, 400);
        let due: i64 = tasks.iter().map(|(period, ..)| 400 / period).sum();
        let in_time = |(task, release, _, end): &(usize, i64, i64, i64)| *end <= release + tasks[*task].0;
        prop_assume!(i64::try_from(ran.len()).unwrap() == due && ran.iter().all(in_time));
        for (producer, (.., feeds)) in tasks.iter().enumerate() {
            for (task, release, start, _) in ran.iter().filter(|(task, ..)| feeds.contains(task)) {
                let later = ran.iter().find(|(other, of, begun, _)| *other == producer && of == release && begun > start);
                prop_assert!(later.is_none(), "{:?}: {} before {:?}", tasks, task, later);
            }
        }
    }
}

#[test]
fn a_stall_in_the_middle_of_a_chain_leaves_the_chain_in_order() {
    let first = Turn::from(Span::from_millis(10));
    let turns = [first, first.before(first), first.before(first).before(first.before(first))];
    let task = |turn| (account(100, Overrun::KeepWorking, at(1_000)), turn);
    // In the order of declaration, the chain's last task is the first.
    let mut schedule = Schedule::new(turns.map(task));
    let mut step = |now| {
        let (task, n) = run(&mut schedule, now);
        schedule.settle(task, at(now), at(now));
        (task, n)
    };
    assert_eq!([step(0), step(0), step(0)], [(2, 0), (1, 0), (0, 0)]);
    assert_eq!(
        [step(10), step(45), step(45), step(45)],
        [(2, 1), (2, 4), (1, 4), (0, 4)],
        "the worker stalled after one tick"
    );
    assert_eq!(
        [step(50), step(50), step(75), step(75), step(75)],
        [(2, 5), (1, 5), (2, 7), (1, 7), (0, 7)],
        "and after two"
    );
    // One that keeps waiting comes first.
    assert_eq!([step(80), step(95), step(105)], [(2, 8), (2, 9), (1, 10)]);
}

#[test]
fn a_stall_within_a_tick_of_a_chain_leaves_the_chain_in_order() {
    let last = Turn::from(Span::from_millis(10));
    let turns = [last, last.before(last), last.before(last.before(last))];
    let mut schedule = Schedule::new(turns.map(|turn| (account(100, Overrun::KeepWorking, at(1_000)), turn)));
    let mut step = |now, finished| {
        let (task, n) = run(&mut schedule, now);
        schedule.settle(task, at(now), at(finished));
        (task, n)
    };
    assert_eq!([step(0, 0), step(0, 0), step(0, 0)], [(2, 0), (1, 0), (0, 0)]);
    assert_eq!([step(10, 10), step(10, 45), step(45, 45)], [(2, 1), (1, 1), (2, 4)], "the second one's tick stalls");
    assert_eq!([step(45, 45), step(45, 45), step(50, 85)], [(1, 4), (0, 4), (2, 5)], "and the first one's");
    assert_eq!([step(85, 85), step(85, 85), step(85, 85)], [(2, 8), (1, 8), (0, 8)]);
}
