//! Tests of which cause wins if there are several.

use super::*;
use crate::metrics::machine::{Certainty, Stall};

#[test]
fn what_a_stop_in_a_long_tick_skipped_is_not_the_ticks_debt() {
    // Deadline and period are 1 ms. The tick works for 1.5 ms, and is off the processor for 20 ms.
    let shared = Bandwidth::Shared { runtime: micros(2_000), period: micros(25_000) };
    for (bandwidth, cause) in [(Some(shared), Cause::Throttled), (None, Cause::Preempted)] {
        let mut scene = Scene::with(WorkerFacts { bandwidth, ..WorkerFacts::default() });
        scene.judge(&TickRecord { overrun: false, ..after_sleep(-2_000, -2_000, tick(0, -2_000, -2_000, -100)) });
        let long = tick(0, 0, 0, 21_500);
        let record = counted(0, 1, 0, 0, seen(21_500, 1_500, 20_000, after_sleep(0, 0, long)));
        let verdicts = scene.judge(&TickRecord { dropped: 20, ..record });
        let found = verdicts.iter().map(|verdict| (verdict.cause, verdict.count)).collect::<Vec<_>>();
        assert_eq!(found, [(Cause::RanLong, 1), (cause, 20)]);
        // A tick that waits behind it waits for the same reason.
        let next = seen(100, 100, 20_000, tick(0, 20_400, 21_501, 21_601));
        assert_eq!(scene.overrun(&next).0, cause);
    }
}

#[test]
fn a_thread_that_waited_for_a_processor_was_not_stopped_meanwhile() {
    // The metrics thread stood still for as long as the worker. But the worker waited for a processor, so it was throttled or preempted.
    let stall = Stall {
        from: [at(-9_000); 3],
        to: [at(31_000); 3],
        least: Span::from_millis(25),
        most: Span::from_millis(40),
        certainty: Certainty::Certain,
    };
    let judged = |queue, record| {
        let mut scene = Scene::new();
        scene.0.note_stall(stall);
        scene.overrun(&counted(0, 1, 0, 0, seen(29_000, 100, queue, record))).0
    };
    let in_tick = after_sleep(0, 0, tick(0, 0, 0, 29_000));
    assert_eq!((judged(28_900, in_tick), judged(0, in_tick)), (Cause::Preempted, Cause::Stalled));
    let late = TickRecord { overrun: true, ..after_sleep(0, 29_000, tick(0, 0, 29_000, 29_100)) };
    let judged = |queue| {
        let mut scene = Scene::new();
        scene.0.note_stall(stall);
        scene.overrun(&counted(0, 1, 0, 0, seen(100, 100, queue, late))).0
    };
    assert_eq!((judged(28_900), judged(0)), (Cause::Preempted, Cause::Stalled));
}

#[test]
fn who_starves_a_task_is_named_however_many_ticks_that_takes() {
    // Task 1 runs 100,000 ticks of 21 µs; two ticks of task 2, of 1 ms each, come in between.
    let mut scene = Scene::new();
    let mut now = 0;
    for n in 0..100_000 {
        let (task, run) = if n % 50_000 == 7 { (2, 1_000) } else { (1, 21) };
        scene.judge(&TickRecord { overrun: false, ..tick(task, now, now, now + run) });
        now += run;
    }
    for hurried in [false, true] {
        scene.0.hurry(hurried);
        let (count, oldest, at, jumped) = (2_000, micros(now), at(now), Span::ZERO);
        let given_up = GivenUp { task: 0, count, oldest, at, jumped, disabled: false };
        let verdict = scene.0.given_up(0, 0, &given_up);
        assert_eq!((verdict.cause, verdict.by), (Cause::Blocked, Some(By::Task(1))));
        assert_eq!(verdict.time, micros(now), "all of it, also what is kept no longer");
    }
    // A verdict on that many releases is worth a long look back, even while records wait.
    let record = TickRecord { missed: 2_000, ..tick(0, now - 1_000, now, now + 10) };
    scene.0.hurry(true);
    let before = scene.judge(&seen(10, 10, 0, record)).before.map(|verdict| (verdict.cause, verdict.by));
    assert_eq!(before, Some((Cause::Blocked, Some(By::Task(1)))));
}

#[test]
fn what_held_a_task_up_long_ago_is_told_apart_from_other_tasks() {
    // 20,000 wake-ups, one every 1000 µs, each 900 µs late.
    let mut scene = Scene::new();
    for n in 0..20_000 {
        let (asked, woke) = (1_000 * n, 1_000 * n + 900);
        let late = after_sleep(asked, woke, tick(1, woke, woke, woke + 50));
        scene.judge(&seen(50, 50, 0, TickRecord { overrun: false, ..late }));
    }
    let now = 20_000_000;
    let given_up =
        GivenUp { task: 0, count: 20_000, oldest: micros(now), at: at(now), jumped: Span::ZERO, disabled: false };
    let verdict = scene.0.given_up(0, 0, &given_up);
    assert_eq!((verdict.cause, verdict.time), (Cause::WokenLate, micros(900 * 20_000)));
}
