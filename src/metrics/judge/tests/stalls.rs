//! Tests of delays of the whole process, and of clock steps.

use super::*;
use crate::metrics::machine::{Certainty, Stall};

#[test]
fn a_stall_of_the_process_comes_first() {
    let stall = |least, most| Stall {
        from: [at(-9_000); 3],
        to: [at(31_000); 3],
        least: Span::from_millis(least),
        most: Span::from_millis(most),
        certainty: Certainty::Certain,
    };
    let late = TickRecord { missed: 29, ..after_sleep(1_000, 30_000, tick(0, 30_000, 30_010, 30_100)) };
    let judged = |stall, record| {
        let mut scene = Scene::new();
        scene.0.note_stall(stall);
        scene.judge(&seen(100, 100, 0, record)).before.map(|verdict| verdict.cause)
    };
    assert_eq!(judged(stall(25, 40), late), Some(Cause::Stalled));
    assert_eq!(judged(stall(60, 70), late), Some(Cause::WokenLate), "it was shorter than the stall");
    assert_eq!(judged(stall(0, 40), late), Some(Cause::WokenLate), "it was not woken for a stop");
    let woken = |record| counted(2, 0, 0, 0, seen(100, 100, 0, record));
    let mut scene = Scene::new();
    scene.0.note_stall(stall(0, 40));
    assert_eq!(scene.judge(&woken(late)).before.map(|verdict| verdict.cause), Some(Cause::Stalled));
    let writing = |record| judged(Stall { certainty: Certainty::Writing, ..stall(0, 40) }, record);
    let in_sleep = |record| counted(1, 0, 0, 0, seen(100, 100, 0, record));
    let mut scene = Scene::new();
    scene.0.note_stall(Stall { certainty: Certainty::Writing, ..stall(0, 40) });
    let found = scene.judge(&in_sleep(late)).before.map(|verdict| verdict.cause);
    assert_eq!((found, writing(late)), (Some(Cause::Stalled), Some(Cause::WokenLate)), "woken in its sleep, or not");
    // The metrics thread was late for an unknown reason: perhaps only its own processor stood still.
    let uncertain = |record| judged(Stall { certainty: Certainty::Late, ..stall(25, 40) }, record);
    assert_eq!(uncertain(late), Some(Cause::Stalled), "as late as this worker, which no other thread kept");
    let slept = counted(1, 0, 0, 0, seen(29_000, 100, 0, after_sleep(0, 0, tick(0, 0, 0, 29_000))));
    let cause_in_tick = |certainty| {
        let mut scene = Scene::new();
        scene.0.note_stall(Stall { certainty, ..stall(25, 40) });
        scene.overrun(&slept).0
    };
    assert_eq!(
        [Certainty::Certain, Certainty::Late, Certainty::Writing].map(cause_in_tick),
        [Cause::Stalled, Cause::Waited, Cause::Waited]
    );
    // Stopped within a tick; whatever waited behind that tick was stalled too.
    let mut scene = Scene::new();
    scene.0.note_stall(stall(25, 40));
    scene.judge(&TickRecord { overrun: false, ..after_sleep(0, 0, tick(1, 0, 0, 29_000)) });
    let behind = TickRecord { missed: 28, ..tick(0, 29_000, 29_001, 29_100) };
    assert_eq!(scene.judge(&behind).before.map(|verdict| verdict.cause), Some(Cause::Stalled));
}

#[test]
fn what_a_step_of_the_clock_jumped_over_was_stalled() {
    let mut scene = Scene::new();
    scene.judge(&TickRecord { overrun: false, ..after_sleep(0, 0, tick(0, 0, 0, 900)) });
    let hour = Span::from_seconds(3_600);
    let landed = 3_600_000_000;
    let record = TickRecord {
        missed: 3_599_998,
        stepped: hour,
        jumped: hour,
        ..tick(0, landed, landed + 1_400, landed + 1_700)
    };
    let verdicts = scene.judge(&seen(300, 300, 0, after_sleep(landed, landed + 1_400, record)));
    let causes = verdicts.iter().map(|verdict| (verdict.cause, verdict.count)).collect::<Vec<_>>();
    assert_eq!(causes, [(Cause::Stalled, 3_599_998), (Cause::Stalled, 1)]);
}

#[test]
fn what_a_step_jumped_over_was_stalled_whether_the_worker_slept_before_its_next_tick_or_not() {
    // The step comes half-way to the release at 1 ms. Either the last release that it jumped over is kept and runs at once, or the next
    // tick is the one 500 µs ahead. All earlier releases are given up.
    let stepped = Span::from_seconds(3_600);
    let step = |next, start, missed| {
        let record = tick(0, next, start, start + 300);
        TickRecord { missed, stepped, jumped: stepped - micros(500), overrun: false, ..record }
    };
    let (kept, ahead) = (3_600_000_000, 3_600_001_000);
    let at_once = TickRecord { woke: micros(500), ..step(kept, kept + 510, 3_599_999) };
    let asleep = after_sleep(ahead, ahead + 10, step(ahead, ahead + 10, 3_600_000));
    for record in [at_once, asleep] {
        let mut scene = Scene::new();
        scene.judge(&TickRecord { overrun: false, ..after_sleep(0, 0, tick(0, 0, 0, 900)) });
        let verdicts = scene.judge(&seen(300, 300, 0, record));
        let causes = verdicts.iter().map(|verdict| (verdict.cause, verdict.count)).collect::<Vec<_>>();
        assert_eq!(causes, [(Cause::Stalled, record.missed)]);
    }
}

#[test]
fn a_step_that_was_absorbed_is_blamed_for_nothing() {
    let mut scene = Scene::new();
    scene.judge(&TickRecord { overrun: false, ..after_sleep(0, 0, tick(0, 0, 0, 900)) });
    // The clock went forward by a second while the release was still far away. The wake-up was late for another reason.
    let stepped = Span::from_seconds(1);
    let record = TickRecord { stepped, ..tick(0, 9_000_000, 9_001_400, 9_001_700) };
    assert_ne!(scene.overrun(&seen(300, 300, 0, after_sleep(9_000_000, 9_001_390, record))).0, Cause::Stalled);
}

#[test]
fn a_step_long_ago_hides_nothing_from_a_task_that_notices_it_only_now() {
    let second = Span::from_seconds(1);
    for stepped in [second, Span::ZERO - second] {
        let mut scene = Scene::new();
        let noticed = |tick| TickRecord { stepped, overrun: false, ..tick };
        scene.judge(&noticed(after_sleep(1_000_000, 1_000_000, tick(0, 1_000_000, 1_000_000, 1_000_100))));
        scene.judge(&noticed(tick(1, 1_000_100, 1_000_100, 1_090_000)));
        // A rare task ticks for the first time since the step. What waits behind it waited for the task before it.
        scene.judge(&noticed(tick(2, 1_090_000, 1_090_000, 1_091_000)));
        let late = TickRecord { missed: 90, ..tick(0, 1_091_000, 1_091_000, 1_091_100) };
        let verdict = scene.judge(&seen(100, 100, 0, late)).before.unwrap();
        assert_eq!((verdict.cause, verdict.by), (Cause::Blocked, Some(By::Task(1))), "{stepped}");
    }
}
