//! Limits a task's event rate: at most one event of each kind per second, and less and less often for failures with the same reason.
//!
//! Nothing is lost: an event covers everything of its kind since the previous event, with the sums, and names the worst tick. Time is an
//! argument.

use super::event::{EventKind, LateChain};
use super::missed::Misses;
use crate::channels::{Outcome, TickRecord};
use crate::task::TickError;
use crate::time::{Instant, Span};

const AT_MOST_EVERY: Span = Span::from_seconds(1);

/// The minimum time between reports on failed ticks, while the reason stays the same: after the first report, the second, and every later
/// one.
const FAILED_EVERY: [Span; 3] = [AT_MOST_EVERY, Span::from_seconds(10), Span::from_seconds(60)];

/// An event of one kind that has not been reported yet.
#[derive(Clone, Debug, Default)]
struct Waiting {
    kind: Option<EventKind>,
    reported: Option<Instant>,
}

/// Whether `every` has passed since the last report.
fn is_due(reported: Option<Instant>, now: Instant, every: Span) -> bool {
    reported.is_none_or(|reported| now - reported >= every || now < reported)
}

impl Waiting {
    fn is_due(&self, now: Instant, every: Span) -> bool {
        is_due(self.reported, now, every)
    }

    fn report(&mut self, now: Instant, last: bool, mut report: impl FnMut(EventKind)) {
        if (last || self.is_due(now, AT_MOST_EVERY))
            && let Some(kind) = self.kind.take()
        {
            self.reported = Some(now);
            report(kind);
        }
    }
}

/// Failed ticks that have not been reported yet.
#[derive(Clone, Debug, Default)]
struct Failures {
    waiting: Waiting,
    reason: Option<TickError>, // in the last report
    repeated: usize,           // number of reports in a row with that reason
}

impl Failures {
    fn note(&mut self, n: u64, error: TickError) {
        let count = match self.waiting.kind {
            Some(EventKind::Failed { count, .. }) => count + 1,
            _ => 1,
        };
        self.waiting.kind = Some(EventKind::Failed { count, n, error });
    }

    fn report(&mut self, now: Instant, last: bool, report: impl FnMut(EventKind)) {
        let every = FAILED_EVERY[self.repeated.saturating_sub(1).min(FAILED_EVERY.len() - 1)];
        match self.waiting.kind {
            Some(EventKind::Failed { error, .. }) if self.reason != Some(error) => {
                self.repeated = 0;
                self.reason = self.waiting.is_due(now, AT_MOST_EVERY).then_some(error);
            }
            Some(_) if last || self.waiting.is_due(now, every) => {}
            None if self.waiting.is_due(now, every) => {
                // Nothing has failed for that long, so the next failure is treated as new.
                self.reason = None;
                return;
            }
            _ => return,
        }
        let before = self.waiting.reported;
        self.waiting.report(now, last, report);
        self.repeated += usize::from(self.waiting.reported != before);
    }
}

/// The events of one task.
#[derive(Clone, Debug, Default)]
pub(super) struct Limiter {
    /// What has been missed since the last report.
    pub(super) misses: Misses,
    reported: Option<Instant>,   // when misses were last reported
    others: Option<Box<Others>>, // once there was one: most tasks never have any
}

/// The events of a task other than misses.
#[derive(Clone, Debug, Default)]
struct Others {
    budget: Waiting,
    limit: Waiting,
    late_chains: Waiting,
    failed: Failures,
    ended: Waiting,
}

impl Limiter {
    /// Enters a record, except for its misses.
    pub(super) fn note(&mut self, record: &TickRecord) {
        let quiet = matches!(record.outcome, Outcome::Done | Outcome::Limited(None) | Outcome::Panicked { .. });
        if record.over_budget || record.over_limit || !quiet {
            self.others.get_or_insert_default().note(record);
        }
    }

    /// Enters that tick `n` used data of this `age`, more than `most`, the maximum allowed. The oldest measurement came from task `by`.
    pub(super) fn note_late_chain(&mut self, n: u64, age: Span, most: Span, by: Option<String>) {
        self.others.get_or_insert_default().note_late_chain(LateChain { count: 1, n, age, max_latency: most, by });
    }

    /// Whether [`report`](Self::report) has to be called: there is something to report or to forget.
    pub(super) fn waits(&self) -> bool {
        self.misses.any() || self.others.as_ref().is_some_and(|others| others.wait())
    }

    pub(super) fn report(&mut self, now: Instant, last: bool, mut report: impl FnMut(EventKind)) {
        if (last || is_due(self.reported, now, AT_MOST_EVERY))
            && let Some(missed) = self.misses.take()
        {
            self.reported = Some(now);
            report(EventKind::Missed(missed));
        }
        if let Some(others) = &mut self.others {
            others.report(now, last, report);
        }
    }
}

impl Others {
    fn note(&mut self, record: &TickRecord) {
        if record.over_budget {
            self.note_over_budget(record);
        }
        if record.over_limit {
            let before = match self.limit.kind {
                Some(EventKind::OverLimit { count, .. }) => count,
                _ => 0,
            };
            let ended = matches!(record.outcome, Outcome::Limited(_));
            self.limit.kind = Some(EventKind::OverLimit { count: before + 1, n: record.n, ended });
        }
        match record.outcome {
            Outcome::Failed(error) | Outcome::Limited(Some(error)) => self.failed.note(record.n, error),
            Outcome::Ended(error) => self.ended.kind = Some(EventKind::Ended { n: record.n, error }),
            // The text of a panic is reported by another path.
            Outcome::Done | Outcome::Limited(None) | Outcome::Panicked { .. } => {}
        }
    }

    fn wait(&self) -> bool {
        let Self { budget, limit, late_chains, failed, ended } = self;
        [budget, limit, late_chains, &failed.waiting, ended].iter().any(|waiting| waiting.kind.is_some())
            || failed.reason.is_some()
    }

    fn note_over_budget(&mut self, record: &TickRecord) {
        let mine = (record.n, record.run());
        let (count, (n, run)) = match self.budget.kind {
            Some(EventKind::OverBudget { count, n, run }) => (count + 1, if run >= mine.1 { (n, run) } else { mine }),
            _ => (1, mine),
        };
        self.budget.kind = Some(EventKind::OverBudget { count, n, run });
    }

    /// Keeps the event with the oldest measurement.
    fn note_late_chain(&mut self, late: LateChain) {
        let late = match self.late_chains.kind.take() {
            Some(EventKind::LateChain(before)) => {
                let count = before.count + 1;
                LateChain { count, ..if late.age > before.age { late } else { before } }
            }
            _ => late,
        };
        self.late_chains.kind = Some(EventKind::LateChain(late));
    }

    fn report(&mut self, now: Instant, last: bool, mut report: impl FnMut(EventKind)) {
        for waiting in [&mut self.budget, &mut self.limit, &mut self.late_chains] {
            waiting.report(now, last, &mut report);
        }
        self.failed.report(now, last, &mut report);
        self.ended.report(now, last, &mut report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Cause, Missed, RECORD};

    #[test]
    fn failures_for_one_reason_are_reported_less_and_less_often_and_none_is_lost() {
        let [gone, broken] = [TickError::new("gone"), TickError::new("broken")];
        let mut limiter = Limiter::default();
        let mut told = Vec::new();
        // Ten ticks a second: gone for 100 s, another error for 1.5 s, quiet for 100 s, then gone again.
        for n in 0..2_050_u64 {
            let outcome = match n {
                0..1_000 | 2_015.. => Outcome::Failed(gone),
                1_000..1_015 => Outcome::Failed(broken),
                _ => Outcome::Done,
            };
            limiter.note(&TickRecord { outcome, ..RECORD });
            let now = Instant::from_nanos(i128::from(n) * 100_000_000);
            limiter.report(now, false, |kind| told.push((n, kind)));
        }
        limiter.report(Instant::ZERO, true, |kind| told.push((2_050, kind)));
        let counts: Vec<_> = told
            .iter()
            .map(|(at, kind)| match kind {
                EventKind::Failed { count, error, .. } => (*at, *count, *error),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            counts,
            [
                (0, 1, gone),
                (10, 10, gone),
                (110, 100, gone),
                (710, 600, gone),
                (1_000, 290, broken),
                (1_010, 10, broken),
                (1_110, 4, broken),
                (2_015, 1, gone),
                (2_025, 10, gone),
                (2_050, 24, gone)
            ]
        );
        assert_eq!(counts.iter().map(|(_, count, _)| count).sum::<u64>(), 1_000 + 15 + 35);
    }

    #[test]
    fn late_chains_are_reported_with_the_oldest_of_them() {
        let (mut limiter, mut told) = (Limiter::default(), Vec::new());
        let most = Span::from_millis(20);
        for (millis, age, by) in [(0, 30, "a"), (500, 21, "b"), (900, 50, "c"), (1_000, 40, "a")] {
            limiter.note_late_chain(millis, Span::from_millis(age), most, Some(by.into()));
            assert!(limiter.waits());
            limiter.report(Instant::from_nanos(i128::from(millis) * 1_000_000), false, |kind| told.push(kind));
        }
        let late = |count, n, age, by: &str| {
            EventKind::LateChain(LateChain {
                count,
                n,
                age: Span::from_millis(age),
                max_latency: most,
                by: Some(by.into()),
            })
        };
        assert_eq!(told, [late(1, 0, 30, "a"), late(3, 900, 50, "c")]);
        assert!(!limiter.waits());
    }

    #[test]
    fn misses_are_reported_once_a_second_and_none_is_lost() {
        let mut limiter = Limiter::default();
        let mut told = Vec::new();
        for millis in 0..3_500_u64 {
            let release = Instant::from_nanos(i128::from(millis) * 1_000_000);
            // Ticks 0 to 3 are met; each later one is an overrun that gives up two releases.
            let overrun = millis > 3;
            let response = Span::from_millis(if millis == 1_700 { 90 } else { 3 });
            let dropped = if overrun { 2 } else { 0 };
            let record = TickRecord { release, n: millis, response, dropped, overrun, ..RECORD };
            limiter.misses.note(&record, release, Span::from_millis(2));
            limiter.misses.blame(Cause::Blocked, Some("report"), dropped);
            limiter.misses.blame(Cause::RanLong, None, overrun.into());
            limiter.report(release, false, |kind| told.push((millis, kind)));
        }
        limiter.report(Instant::ZERO, true, |kind| told.push((3_500, kind)));
        let numbers: Vec<_> = told
            .iter()
            .map(|(at, kind)| match kind {
                EventKind::Missed(missed) => {
                    let Missed { overruns, skipped, due, within, tick, shares, .. } = missed;
                    assert_eq!(shares.iter().map(|share| share.count).sum::<u64>(), missed.count());
                    assert_eq!((shares[0].by.as_deref(), shares[0].count), (Some("report"), *skipped));
                    (*at, *overruns, *skipped, *due, within.nanos() / 1_000_000, tick.map(|tick| tick.n))
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            numbers,
            [
                (4, 1, 2, 7, 7, Some(4)),
                (1_004, 1_000, 2_000, 3_000, 1_002, Some(5)),
                (2_004, 1_000, 2_000, 3_000, 1_002, Some(1_700)),
                (3_004, 1_000, 2_000, 3_000, 1_002, Some(2_005)),
                (3_500, 495, 990, 1_485, 497, Some(3_005))
            ]
        );
    }

    #[test]
    fn after_a_quiet_time_the_first_miss_is_set_against_a_second_at_most() {
        let mut limiter = Limiter::default();
        for millis in 0..3_300_u64 {
            let release = Instant::from_nanos(i128::from(millis) * 1_000_000);
            let record = TickRecord { release, n: millis, overrun: millis == 3_299, ..RECORD };
            limiter.misses.note(&record, release, Span::ZERO);
            limiter.report(release, false, |kind| match kind {
                EventKind::Missed(missed) => {
                    assert_eq!((missed.count(), missed.due, missed.within), (1, 300, Span::from_millis(299)));
                }
                other => panic!("{other:?}"),
            });
        }
    }
}
