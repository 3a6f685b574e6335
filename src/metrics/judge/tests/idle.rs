//! Tests of releases that were given up without a tick, and of gaps in the records.

use super::*;
use crate::channels::IdleWake;

/// A wake-up that came too late for any tick. The thread had waited for `queue` in total.
fn woke_idle(scene: &mut Scene, asked: i64, woke: i64, queue: Option<i64>) {
    let awake = micros(2);
    let evidence =
        queue.map(|queue| Evidence { awake, cpu: awake, run_queue: Some(micros(queue)), ..Evidence::default() });
    let wake = IdleWake { sleep: Some((at(asked), at(woke))), ended: at(woke + 2), after_loss: false, evidence };
    scene.0.observe_idle(0, &wake);
    scene.0.judge_idle(0, &wake);
}

#[test]
fn releases_that_each_wake_up_came_too_late_for_have_the_cause_of_that() {
    // Five releases, a millisecond apart. For each, the wake-up is 300 µs late and the release is given up. The sixth is in time.
    let judged = |queue: fn(i64) -> Option<i64>| {
        let mut scene = Scene::new();
        scene.0.has_waited(0, at(-5), Span::ZERO);
        for n in 0..5 {
            woke_idle(&mut scene, n * 1_000, n * 1_000 + 300, queue(n + 1));
        }
        let record = TickRecord { missed: 5, ..after_sleep(5_000, 5_002, tick(0, 5_000, 5_003, 5_100)) };
        let last = match queue(5) {
            Some(queue) => seen(98, 98, queue, record),
            None => record,
        };
        scene.judge(&last).before.map(|verdict| (verdict.cause, verdict.time, verdict.count))
    };
    let late = micros(5 * 300 + 2);
    assert_eq!(judged(|_| Some(0)), Some((Cause::WokenLate, late, 5)));
    assert_eq!(judged(|n| Some(300 * n)).map(|found| found.0), Some(Cause::Preempted));
    assert_eq!(judged(|_| None).map(|found| found.0), Some(Cause::Unknown), "without evidence");
}

#[test]
fn what_a_late_wake_up_at_the_end_gives_up_has_its_cause() {
    for (queue, cause) in [(0, Cause::WokenLate), (2_500, Cause::Preempted)] {
        let mut scene = Scene::new();
        scene.0.has_waited(0, at(500), Span::ZERO);
        scene.judge(&after_sleep(0, 5, tick(0, 0, 5, 100)));
        woke_idle(&mut scene, 1_000, 3_500, Some(queue));
        let (count, oldest, at, jumped) = (2, micros(2_510), at(3_510), Span::ZERO);
        let given_up = GivenUp { task: 0, count, oldest, at, jumped, disabled: false };
        assert_eq!(scene.0.given_up(0, 0, &given_up), Verdict { time: micros(2_500), ..Verdict::plain(cause, count) });
    }
}

#[test]
fn a_rest_after_releases_were_given_up_is_no_reason_for_it() {
    // Task 1 runs until 4000. Task 0 gives up its release at 1000, and rests until the next one.
    let mut scene = Scene::new();
    scene.judge(&TickRecord { overrun: false, ..after_sleep(0, 0, tick(1, 0, 0, 4_000)) });
    let record = seen(100, 100, 0, after_sleep(11_000, 11_002, tick(0, 11_000, 11_003, 11_100)));
    scene.0.observe(0, &TickRecord { missed: 1, ..record });
    let terms = Terms { deadline: micros(10_000), period: micros(10_000), usual: Span::ZERO };
    let verdicts = scene.0.judge(0, &TickRecord { missed: 1, ..record }, terms, &mut NoAccuser);
    let blocked = Verdict { cause: Cause::Blocked, by: Some(By::Task(1)), time: micros(3_000), count: 1 };
    assert_eq!(verdicts.before, Some(blocked));
}

#[test]
fn where_a_record_is_missing_nothing_is_known() {
    for sleep in [true, false] {
        let mut scene = Scene::new();
        scene.judge(&after_sleep(0, 0, tick(1, 0, 0, 100)));
        // Ticks from 100 to 2900 are unknown.
        let record = seen(100, 100, 0, tick(0, 1_000, 2_920, 3_010));
        let record = if sleep { after_sleep(2_900, 2_910, record) } else { record };
        assert_eq!(scene.overrun(&TickRecord { after_loss: true, ..record }).0, Cause::Unknown, "{sleep}");
    }
}

#[test]
fn a_late_wake_up_that_another_task_survived_is_judged_by_the_evidence_of_that_task_or_of_none() {
    for (queue, cause) in [(0, Cause::WokenLate), (300, Cause::Preempted)] {
        for own in [true, false] {
            let mut scene = Scene::new();
            scene.0.has_waited(0, at(-5), Span::ZERO);
            // The wake-up for task 1 is 300 µs late, but task 1 meets its deadline; a release of task 0 is given up.
            let met = after_sleep(0, 300, tick(1, 0, 301, 400));
            let met = if own { seen(100, 100, queue, met) } else { met };
            assert_eq!(scene.judge(&met), Verdicts::default());
            if !own {
                let awake = micros(102);
                let run_queue = Some(micros(queue));
                let evidence = Some(Evidence { awake, cpu: awake, run_queue, ..Evidence::default() });
                let wake = IdleWake { sleep: None, ended: at(402), after_loss: false, evidence };
                scene.0.observe_idle(0, &wake);
                scene.0.judge_idle(0, &wake);
            }
            let next = TickRecord { missed: 1, ..after_sleep(1_000, 1_000, tick(0, 1_000, 1_001, 1_100)) };
            let before = scene.judge(&seen(99, 99, queue, next)).before;
            assert_eq!(before.map(|verdict| (verdict.cause, verdict.time)), Some((cause, micros(300))), "{own}");
        }
    }
}
