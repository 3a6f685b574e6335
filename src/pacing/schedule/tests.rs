//! Tests of the schedule.

use super::super::{Grid, Overrun, Rate};
use super::*;

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
    // Each tick takes two periods, so that all of them are due again after each.
    for now in (0..18).step_by(2) {
        let (task, _) = run(&mut schedule, now);
        schedule.settle(task, at(now), at(now + 2));
        order.push(task);
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    let mut next = Schedule::with_room_for(4);
    (0..3).rev().for_each(|position| next.adopt(&schedule, position, Span::from_millis(1)));
    next.add(account(1_000, Overrun::KeepWorking, Instant::MAX), Span::from_millis(1));
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
    // A stall over the end: every release is given up, none is left to run.
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
    new.add(account(50, Overrun::Drop, Instant::MAX), Span::from_millis(20));
    new.adopt(&old, 1, Span::from_millis(100));
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
