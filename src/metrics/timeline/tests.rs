//! Checks that what the timeline remembers of a wake-up matches a walk back tick by tick.

use super::*;
use crate::channels::Evidence;
use crate::metrics::RECORD;
use proptest::prelude::*;

fn at(micros: i64) -> Instant {
    Instant::ZERO + Span::from_micros(micros)
}

/// One tick: the sleep before it and how late that ended, its run, how much of the run was off the processor (if it has evidence), and
/// whether the cause of the late wake-up has been found. In microseconds.
type Step = (Option<(i64, i64)>, i64, Option<i64>, bool);

fn step(sleeps: u32) -> impl Strategy<Value = Step> {
    let sleep = prop_oneof![
        sleeps => (0..300_i64, -3..50_i64).prop_map(Some),
        10 => Just(None),
    ];
    let off = prop_oneof![9 => (0..9_i64).prop_map(Some), 1 => Just(None)];
    (sleep, 0..200_i64, off, prop::bool::weighted(0.2))
}

fn records(steps: &[Step]) -> Vec<TickRecord> {
    let mut now = 0;
    let record = |&(sleep, run, off, _): &Step| {
        let woke = sleep.map(|(length, late)| now + length + late.max(-length));
        let started = woke.unwrap_or(now) + 1;
        now = started + run;
        let awake = Span::from_micros(run);
        let evidence =
            off.map(|off| Evidence { awake, cpu: awake - Span::from_micros(off.min(run)), ..Evidence::default() });
        TickRecord {
            release: at(started),
            woke: at(woke.unwrap_or(0)) - at(started),
            oversleep: sleep.map(|(length, late)| Span::from_micros(late.max(-length))),
            lateness: Span::ZERO,
            response: awake,
            evidence,
            ..RECORD
        }
    };
    steps.iter().map(record).collect()
}

fn off(record: &TickRecord) -> Option<Span> {
    record.evidence.map(|evidence| evidence.awake - evidence.cpu)
}

/// Like [`Timeline::wake_up_of`], but tick by tick.
fn wake_up_of(
    timeline: &Timeline,
    records: &[TickRecord],
    first: usize,
    since: Instant,
    look_back: usize,
) -> (usize, Span) {
    let mut sum = Span::ZERO;
    if timeline.piece(first).sleep.is_some_and(|(_, woke)| woke >= since) {
        return (first, sum);
    }
    for position in (0..first).rev().take(look_back) {
        let Some(this) = off(&records[position]) else { break };
        sum += this;
        match (timeline.piece(position).sleep, timeline.piece(position).late) {
            (Some(_), Cause::Unknown) => return (position, sum),
            (Some(_), _) => break,
            (None, _) => {}
        }
    }
    (first, Span::ZERO)
}

/// Like [`Timeline::waited_before`], but tick by tick.
fn waited_before(timeline: &Timeline, position: usize, at: Instant) -> Span {
    let latest = timeline.queue.iter().rev().find(|(known, _)| *known <= at).or(timeline.queue.front());
    let Some(&(known, waited)) = latest else { return Span::ZERO };
    let since = (0..position).rev().map(|before| timeline.piece(before)).take_while(|piece| piece.finished > known);
    let late = |piece: Piece| piece.sleep.map_or(Span::ZERO, |(asked, woke)| woke - asked.max(known));
    since.fold(waited, |sum, piece| sum + late(piece).max(Span::ZERO))
}

/// Compares both at some positions. Returns how often the wake-up lay before the tick in question.
fn compare(steps: &[Step], look_backs: &[usize]) -> usize {
    let records = records(steps);
    let mut timeline = Timeline::default();
    for (n, (record, (.., found))) in records.iter().zip(steps).enumerate() {
        timeline.add(record);
        if *found && record.oversleep.is_some() {
            let last = timeline.len() - 1;
            timeline.change(last, |piece| piece.late = Cause::WokenLate);
        }
        if n % 50 == 0 {
            timeline.has_waited(record.started(), Span::from_micros(n as i64 + 1));
        }
    }
    let kept = &records[records.len() - timeline.len()..];
    let mut earlier = 0;
    for position in (0..kept.len()).step_by(kept.len().div_ceil(100)) {
        let started = kept[position].started();
        for since in [started, started - Span::from_micros(50), at(0)] {
            for &look_back in look_backs {
                let quick = timeline.wake_up_of(position, since, look_back);
                assert_eq!(quick, wake_up_of(&timeline, kept, position, since, look_back), "{position} {look_back}");
                earlier += usize::from(quick.0 < position);
            }
            let quick = timeline.waited_before(position, since);
            assert_eq!(quick, waited_before(&timeline, position, since), "{position}");
        }
    }
    earlier
}

proptest! {
    #[test]
    fn a_wake_up_is_found_without_walking_back(steps in prop::collection::vec(step(3), 1..300)) {
        compare(&steps, &[0, 1, 2, 5, 4_096]);
    }
}

#[test]
fn a_wake_up_is_found_in_long_chains_and_forgotten_with_its_tick() {
    // A sleep every 3,000 ticks, all of them with evidence: more ticks than are kept.
    let steps: Vec<Step> = (0..20_000).map(|n| ((n % 3_000 == 7).then_some((5, 1)), 3, Some(n % 2), false)).collect();
    assert!(compare(&steps, &[16, 2_500, 4_096]) > 0);
    // No sleep other than the first, which is forgotten.
    let steps: Vec<Step> = (0..9_000).map(|n| ((n == 0).then_some((5, 1)), 3, Some(1), false)).collect();
    assert_eq!(compare(&steps, &[usize::MAX]), 0);
}

#[test]
fn readings_of_the_run_queue_come_in_any_order_and_are_kept_in_that_of_their_instants() {
    let mut timeline = Timeline::default();
    let mut read = |instant: i64, waited: i64| {
        timeline.has_waited(at(instant), Span::from_micros(waited));
        timeline.queue.iter().map(|(_, waited)| waited.nanos() / 1_000).collect::<Vec<_>>()
    };
    assert_eq!(read(100, 10), [10]);
    assert_eq!(read(300, 30), [10, 30]);
    assert_eq!(read(200, 20), [10, 20, 30]);
    assert_eq!(read(250, 20), [10, 20, 30], "nothing new");
    assert_eq!(read(150, 25), [10, 20, 30], "more than was known later: read in between");
    assert_eq!(read(50, 5), [5, 10, 20, 30]);
    assert_eq!(read(120, 40), [40], "the clock was stepped back");
    for n in 1..2 * READINGS as i64 {
        read(120 + 2 * n, 40 + 2 * n);
    }
    let last = 38 + 4 * READINGS as i64;
    let kept: Vec<_> = (0..READINGS as i64).rev().map(|n| last - 2 * n).collect();
    assert_eq!(read(130, 50), kept, "older than all that are kept");
    let between = read(last + 80 - 1, last - 1);
    assert_eq!((between.len(), &between[..2]), (READINGS, &kept[1..3]));
    assert_eq!(between[READINGS - 3..], [last - 2, last - 1, last]);
}
