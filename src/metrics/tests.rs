//! Metrics as a whole: what was missed adds up, also where no record reports it.

use super::*;
use crate::pacing::Rate;

#[test]
fn what_dropped_records_missed_is_reported_with_an_unknown_cause() {
    let mut metrics = Metrics::default();
    metrics.add_worker(0, "main".into(), WorkerFacts::default());
    metrics.add_task(0, TaskFacts::at(Rate::new(1_000, 1).unwrap()));
    let response = Span::from_millis(3);
    let record = TickRecord { dropped: 2, response, ..RECORD };
    metrics.observe(&record);
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
