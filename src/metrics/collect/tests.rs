//! Tests of the metrics as a whole: misses add up, even if no record reports them.

use super::*;
use crate::channels::{Outcome, TickError};
use crate::metrics::*;
use crate::pacing::Rate;
use crate::snapshot::Causes;
use proptest::prelude::*;

#[test]
fn what_dropped_records_missed_is_reported_with_an_unknown_cause() {
    let mut metrics = Metrics::default();
    metrics.add_worker(0, "main".into(), WorkerFacts::default());
    metrics.add_task(0, TaskFacts::at(Rate::new(1_000, 1).unwrap()));
    let response = Span::from_millis(3);
    let record = TickRecord { dropped: 2, response, ..RECORD };
    metrics.observe(0, &Sent::Tick(record));
    metrics.take(&record, &mut NoAccuser);
    metrics.take_given_up(
        0,
        GivenUp { task: 0, count: 4, oldest: response, at: Instant::ZERO, jumped: Span::ZERO, disabled: true },
    );
    // Two more records were lost: one overrun each, with three skipped releases in total.
    metrics.take_counts(0, &Counts { ran: 3, skipped: 9, overruns: 3, ..Counts::default() });
    let mut told = Vec::new();
    metrics.report(Instant::ZERO, true, |event| told.push(event.kind.clone()));
    let [EventKind::Missed(missed)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((missed.overruns, missed.skipped), (3, 9));
    assert_eq!(missed.within, Span::ZERO, "the last record says nothing of when these came up");
    let causes: Causes = missed.causes().map(|(cause, count)| (cause.word().into(), count)).collect();
    // The record that arrived had no evidence.
    assert_eq!((causes["disabled"], causes["unknown"]), (4, 3 + 5));
    assert_eq!(causes.values().sum::<u64>(), missed.count());
    let totals = metrics.totals();
    assert_eq!((metrics.snapshot(0).causes, totals.counts.skipped, totals.counts.overruns), (causes, 9, 3));
}

#[test]
fn what_a_step_of_the_clock_took_past_the_end_was_stalled() {
    let mut metrics = Metrics::default();
    metrics.add_task(0, TaskFacts::at(Rate::new(1_000, 1).unwrap()));
    let (oldest, jumped) = (Span::from_seconds(3_600), Span::from_seconds(3_600));
    metrics.take_given_up(0, GivenUp { task: 0, count: 700, oldest, at: Instant::ZERO, jumped, disabled: false });
    assert_eq!(metrics.snapshot(0).causes, Causes::from([("stalled".into(), 700)]));
}

/// Like a reload that renames a task, again and again.
#[test]
fn tasks_that_are_renamed_for_ever_take_no_more_memory() {
    let mut metrics = Metrics::default();
    for id in 0..3_000 {
        metrics
            .add_task(id, TaskFacts { name: format!("t{id}").into(), ..TaskFacts::at(Rate::new(1_000, 1).unwrap()) });
        metrics.take_counts(id, &Counts { ran: 2, ..Counts::default() });
        metrics.remove_task(id);
    }
    let dropped = metrics.before_reload_dropped().unwrap();
    assert!(dropped.names >= 3_000 - 2_048 && dropped.due == 2 * dropped.names, "{dropped:?}");
    metrics.add_task(3_000, TaskFacts { name: "t2999".into(), ..TaskFacts::at(Rate::new(1_000, 1).unwrap()) });
    assert_eq!(metrics.snapshot(3_000).before.unwrap().counts.due, 2, "the latest is kept");
}

fn at(millis: i64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// The misses that are reported at this moment.
fn reported(metrics: &mut Metrics, now: Instant, last: bool) -> Vec<Missed> {
    let mut reported = Vec::new();
    metrics.report(now, last, |event| match &event.kind {
        EventKind::Missed(missed) => reported.push(missed.clone()),
        EventKind::Ended { .. } => {}
        other => panic!("{other:?}"),
    });
    reported
}

#[test]
fn what_a_disabled_task_misses_is_reported_as_it_comes_and_no_release_twice() {
    for (rate, deadline) in [(100, Span::from_millis(10)), (100, Span::from_millis(1)), (3, Span::from_seconds(2))] {
        let mut metrics = Metrics::default();
        let rate = Rate::new(rate, 1).unwrap();
        let facts = TaskFacts { deadline, ..TaskFacts::at(rate) };
        let live = facts.live.clone();
        metrics.add_task(0, facts);
        // Tick 0 ends the task and its record arrives. The next release is the first that is missed.
        let outcome = Outcome::Ended(TickError::new("gone"));
        let response = Span::from_millis(1);
        let record = TickRecord { outcome, response, overrun: false, ..RECORD };
        let next = Instant::ZERO + rate.period();
        let counts = Counts { ran: 1, errors: 1, disabled: true, ..Counts::default() };
        live.store(&counts, Some(next));
        metrics.observe(0, &Sent::Tick(record));
        metrics.take(&record, &mut NoAccuser);
        let (mut sum, mut reports, mut time) = (0, 0, Span::ZERO);
        let mut add = |missed: Vec<Missed>| {
            for missed in missed {
                assert_eq!(missed.causes().collect::<Vec<_>>(), [(Cause::Disabled, missed.skipped)]);
                (sum, reports) = (sum + missed.skipped, reports + 1);
                time += missed.within;
            }
            sum
        };
        for half_seconds in 0..40 {
            let now = at(half_seconds * 500 + 7);
            metrics.drains_at(now);
            metrics.sample(0, now);
            let sum = add(reported(&mut metrics, now, false));
            let due = metrics.health(0, now).progress.counts;
            let behind = due.missed - sum;
            // The most recent seconds have not been entered yet.
            assert!(behind <= rate.num() * 5 && (half_seconds < 10 || sum > 0), "{sum} of {due:?}");
            assert_eq!(
                metrics.snapshot(0).causes.get("disabled").copied().unwrap_or(0),
                sum.max(metrics.totals().counts.skipped)
            );
        }
        // The worker ends and reports all releases it gave up, most of which are known already.
        let (end, period) = (at(20_000), rate.period());
        let count = ((end - next).nanos() / period.nanos()).unsigned_abs();
        let oldest = end - next;
        metrics.take_given_up(0, GivenUp { task: 0, count, oldest, at: end, jumped: Span::ZERO, disabled: true });
        metrics.take_counts(0, &Counts { skipped: count, ..counts });
        assert_eq!(add(reported(&mut metrics, end, true)), count);
        assert_eq!(metrics.snapshot(0).causes, Causes::from([("disabled".into(), count)]));
        assert!((10..=22).contains(&reports), "{reports}");
        assert!(time <= oldest + Span::from_seconds(1), "the reports cover {time}");
    }
}

#[test]
fn a_report_on_a_task_that_is_given_up_covers_the_time_in_which_its_releases_came_up() {
    let mut metrics = Metrics::default();
    let facts = TaskFacts::at(Rate::new(1_000, 1).unwrap());
    let live = facts.live.clone();
    metrics.add_worker(0, "main".into(), WorkerFacts::default());
    metrics.add_task(0, facts);
    // One overrun of 90 ms, then a tick that does not return for half a second.
    let (response, dropped) = (Span::from_millis(90), 88);
    let record = TickRecord { response, dropped, ..RECORD };
    metrics.observe(0, &Sent::Tick(record));
    metrics.take(&record, &mut NoAccuser);
    live.store(&Counts { ran: 1, overruns: 1, skipped: dropped, ..Counts::default() }, Some(at(89)));
    metrics.give_up(0, at(590), Some(0));
    let missed = reported(&mut metrics, at(600), true);
    let [missed] = &missed[..] else { panic!("{missed:?}") };
    assert_eq!((missed.overruns, missed.skipped), (1, 88 + 500));
    assert_eq!((missed.due, missed.within), (589, Span::from_millis(590)));
    // Misses from an earlier report do not count again.
    assert_eq!(reported(&mut metrics, at(700), true), []);
}

/// What happens to a task of 100 Hz: a record (after this many periods, with this lateness, run and kind), or another event by its kind.
type Happening = (i64, i64, i64, u8);

fn happening() -> impl Strategy<Value = Happening> {
    let late = prop_oneof![20 => 0..12_000_000_i64, 1 => -9..0_i64, 1 => 4_294_967_290..4_294_967_300_i64];
    let periods = prop_oneof![40 => Just(1_i64), 1 => 90..120_i64, 1 => Just(-3_i64)];
    (periods, late, 0..9_000_000_i64, prop_oneof![30 => Just(0_u8), 10 => 1..13_u8])
}

/// Everything visible of a task after these events; with `singly`, no ticks are entered together.
fn shown(happenings: &[Happening], grid_moves: bool, singly: bool) -> Vec<String> {
    let mut metrics = Metrics::default();
    metrics.add_worker(0, "main".into(), WorkerFacts::default());
    let facts = TaskFacts { grid_moves, ..TaskFacts::at(Rate::new(100, 1).unwrap()) };
    let (live, mut counts) = (facts.live.clone(), Counts::default());
    metrics.add_task(0, facts);
    let (mut release, mut shown) = (Instant::ZERO, Vec::new());
    for (n, &(periods, lateness, run, kind)) in (0..).zip(happenings) {
        release = release.plus_nanos(i128::from(periods) * 10_000_000);
        metrics.drains_at(release);
        let (lateness, response) = (Span::from_nanos(lateness), Span::from_nanos(lateness + run));
        let mut record = TickRecord { n, release, lateness, response, overrun: false, ..RECORD };
        match kind {
            1 => (record.overrun, record.dropped) = (true, 2),
            2 => record.missed = 3,
            3 => record.outcome = Outcome::Failed(TickError::new("gone")),
            4 => record.over_budget = true,
            5 => record.oversleep = Some(Span::from_nanos(7)),
            6 => metrics.report(release, false, |event| shown.push(format!("{event:?}"))),
            7 => metrics.sample(0, release),
            8 => shown.push(format!("{:?}", metrics.snapshot(0))),
            9 => shown.push(format!("{:?}", metrics.health(0, release))),
            10 => {
                let (oldest, jumped) = (Span::from_millis(30), Span::ZERO);
                let given_up = GivenUp { task: 0, count: 3, oldest, at: release, jumped, disabled: false };
                metrics.take_given_up(0, given_up);
            }
            11 if n % 8 == 0 => metrics.give_up(0, release, None),
            _ => {}
        }
        counts.ran += 1;
        live.store(&counts, Some(release));
        metrics.observe(0, &Sent::Tick(record));
        shown.push(format!("{:?}", metrics.take(&record, &mut NoAccuser)));
        if singly {
            metrics.tasks.entered(0);
        }
    }
    metrics.report(release, true, |event| shown.push(format!("{event:?}")));
    let (health, snapshot) = (metrics.health(0, release), metrics.snapshot(0));
    shown.push(format!("{health:?} {snapshot:?} {:?} {:?}", metrics.totals(), metrics.oversleep(0)));
    shown
}

proptest! {
    #[test]
    fn ticks_that_are_entered_together_show_as_if_each_had_been_entered_on_its_own(
        happenings in prop::collection::vec(happening(), 1..200),
        grid_moves: bool,
    ) {
        prop_assert_eq!(shown(&happenings, grid_moves, false), shown(&happenings, grid_moves, true));
    }
}

#[test]
fn the_number_of_a_task_that_has_ended_is_known_no_more_and_its_place_is_empty() {
    let mut metrics = Metrics::default();
    metrics.add_worker(0, "main".into(), WorkerFacts::default());
    let plain = |task| TickRecord { task, overrun: false, ..RECORD };
    for (ended, next) in (0..).zip(1..30_u32) {
        metrics.add_task(next, TaskFacts::at(Rate::new(100, 1).unwrap()));
        for task in [next; 9] {
            metrics.take(&plain(task), &mut NoAccuser);
        }
        metrics.remove_task(ended);
        assert_eq!((metrics.knows(ended), metrics.knows(next)), (false, true));
        metrics.take(&plain(ended), &mut NoAccuser);
        assert_eq!(metrics.snapshot(next).spans().run.count, 9);
        assert_eq!(metrics.totals().counts.ran, 9 * u64::from(next));
    }
}

/// Task 1, at 20 Hz, never runs, because task 0 occupies the worker for 60 ms each time.
#[test]
fn what_a_task_misses_that_never_runs_is_reported_while_it_waits_and_once() {
    for ends in 0..3 {
        let mut metrics = Metrics::default();
        metrics.add_worker(0, "main".into(), WorkerFacts::default());
        let rate = Rate::new(20, 1).unwrap();
        metrics.add_task(0, TaskFacts::at(rate));
        let facts = TaskFacts { name: "b".into(), ..TaskFacts::at(rate) };
        let live = facts.live.clone();
        metrics.add_task(1, facts);
        live.begins(Some(at(0)), Instant::MAX);
        let ticks_of_others = |metrics: &mut Metrics, from: i64, to: i64| {
            let mut told = 0;
            for started in (from..to).step_by(60) {
                let (release, response) = (at(started), Span::from_millis(60));
                let record = TickRecord { release, lateness: Span::ZERO, response, ..RECORD };
                metrics.observe(0, &Sent::Tick(record));
                metrics.take(&record, &mut NoAccuser);
                metrics.drains_at(record.finished());
                metrics.waits(1);
                let (missed, causes) =
                    (metrics.health(1, record.finished()).progress.counts.missed, metrics.snapshot(1).causes);
                let known: u64 = causes.values().sum();
                assert_eq!(causes.get("blocked").copied().unwrap_or(0), known, "{causes:?}");
                assert!(
                    known <= missed && (started < from + 300 || known + 3 >= missed),
                    "{known} of {missed} at {started}"
                );
                metrics.report(record.finished(), false, |event| {
                    if let ("b", EventKind::Missed(missed)) = (event.task, &event.kind) {
                        told += missed.count();
                    }
                });
            }
            told
        };
        let mut told = ticks_of_others(&mut metrics, 0, 3_000);
        assert!(told > 30, "{told} of 60");
        // Everything is reported exactly once, whether the task finally runs, the worker ends or the worker is given up.
        let counts = Counts { skipped: 59, ..Counts::default() };
        match ends {
            0 => {
                let lateness = Span::from_millis(50);
                let record = TickRecord {
                    task: 1,
                    release: at(2_950),
                    lateness,
                    response: lateness,
                    missed: 59,
                    overrun: false,
                    ..RECORD
                };
                live.store(&Counts { ran: 1, ..counts }, Some(at(3_000)));
                metrics.observe(0, &Sent::Tick(record));
                let verdicts = metrics.take(&record, &mut NoAccuser);
                assert_eq!(verdicts.before.map(|before| before.count), Some(59));
                assert_eq!(verdicts.unknown().before.map_or(0, |before| before.count) + verdicts.known, 59);
                told += ticks_of_others(&mut metrics, 3_000, 4_200);
                assert_eq!(metrics.tasks.get(1).unwrap().lateness.count(), 1 + metrics.tasks.get(1).unwrap().skipped);
            }
            1 => {
                let oldest = Span::from_millis(3_000);
                metrics.take_given_up(
                    1,
                    GivenUp { task: 1, count: 59, oldest, at: at(3_000), jumped: Span::ZERO, disabled: false },
                );
                metrics.take_counts(1, &counts);
                assert_eq!(metrics.tasks.get(1).unwrap().lateness.count(), 59);
            }
            _ => metrics.give_up(1, at(3_000), Some(0)),
        }
        told += reported_of(&mut metrics, "b");
        let (skipped, causes) = (metrics.tasks.get(1).unwrap().skipped, metrics.snapshot(1).causes);
        assert_eq!((told, causes), (skipped, Causes::from([("blocked".into(), skipped)])), "{ends}");
        assert!(if ends == 0 { skipped > 75 } else { skipped == 59 }, "{skipped}");
    }
}

/// How many of the task's misses are still to be reported.
fn reported_of(metrics: &mut Metrics, task: &str) -> u64 {
    let mut told = 0;
    metrics.report(at(100_000), true, |event| {
        if let (true, EventKind::Missed(missed)) = (event.task == task, &event.kind) {
            told += missed.count();
        }
    });
    told
}
