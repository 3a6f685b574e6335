//! Metrics as a whole: what was missed adds up, also where no record reports it.

use super::*;
use crate::channels::{Outcome, Sent, TickError};
use crate::pacing::Rate;
use crate::time::Span;

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
    // Two more records did not come in: an overrun each, with three skipped releases in all.
    metrics.take_counts(0, &Counts { ran: 3, skipped: 9, overruns: 3, ..Counts::default() });
    let mut told = Vec::new();
    metrics.tell(Instant::ZERO, true, |event| told.push(event.kind.clone()));
    let [EventKind::Missed(missed)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((missed.overruns, missed.skipped), (3, 9));
    assert_eq!(missed.within, Span::ZERO, "the last record says nothing of when these came up");
    let causes: BTreeMap<_, _> = missed.causes().map(|(cause, count)| (cause.word(), count)).collect();
    // The record that came in had no evidence.
    assert_eq!((causes["disabled"], causes["unknown"]), (4, 3 + 5));
    assert_eq!(causes.values().sum::<u64>(), missed.count());
    let totals = metrics.totals();
    assert_eq!((metrics.snapshot(0).causes, totals.skipped, totals.overruns), (causes, 9, 3));
}

#[test]
fn what_a_step_of_the_clock_took_past_the_end_was_stalled() {
    let mut metrics = Metrics::default();
    metrics.add_task(0, TaskFacts::at(Rate::new(1_000, 1).unwrap()));
    let (oldest, jumped) = (Span::from_seconds(3_600), Span::from_seconds(3_600));
    metrics.take_given_up(0, GivenUp { task: 0, count: 700, oldest, at: Instant::ZERO, jumped, disabled: false });
    assert_eq!(metrics.snapshot(0).causes, BTreeMap::from([("stalled", 700)]));
}

fn at(millis: i64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// What is reported at this moment.
fn reported(metrics: &mut Metrics, now: Instant, last: bool) -> Vec<Missed> {
    let mut reported = Vec::new();
    metrics.tell(now, last, |event| match &event.kind {
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
        // Tick 0 ends the task; the record comes in, the release after it is the first that is missed.
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
            let due = metrics.health(0, now).progress;
            let behind = due.missed - sum;
            // The last seconds are still to come.
            assert!(behind <= rate.num() * 5 && (half_seconds < 10 || sum > 0), "{sum} of {due:?}");
            assert_eq!(
                metrics.snapshot(0).causes.get("disabled").copied().unwrap_or(0),
                sum.max(metrics.totals().skipped)
            );
        }
        // The worker ends: what it has given up in all, of which most is known.
        let (end, period) = (at(20_000), rate.period());
        let count = ((end - next).nanos() / period.nanos()).unsigned_abs();
        let oldest = end - next;
        metrics.take_given_up(0, GivenUp { task: 0, count, oldest, at: end, jumped: Span::ZERO, disabled: true });
        metrics.take_counts(0, &Counts { skipped: count, ..counts });
        assert_eq!(add(reported(&mut metrics, end, true)), count);
        assert_eq!(metrics.snapshot(0).causes, BTreeMap::from([("disabled", count)]));
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
    // What an earlier entry reported does not count again.
    assert_eq!(reported(&mut metrics, at(700), true), []);
}
