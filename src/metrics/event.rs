//! The events of a running task, limited in rate: of each kind at most one per task and second.
//!
//! Nothing is lost: an event stands for all of its kind since the one before, and carries their sums. It names the worst
//! tick of them. Time is an argument.

use super::Cause;
use crate::channels::{Outcome, TickRecord};
use crate::task::TickError;
use crate::time::{Instant, Span};

/// An event of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// Name of its worker.
    pub worker: &'a str,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Ticks finished after their deadline.
    Overrun {
        /// How many ticks this stands for.
        count: u64,
        /// Releases they gave up.
        skipped: u64,
        /// Index of the one with the longest response.
        n: u64,
        /// Its lateness.
        lateness: Span,
        /// Its run.
        run: Span,
        /// Its cause.
        cause: Cause,
    },
    /// Releases were given up that no overrun accounts for: the worker was held up, or the task is disabled.
    Skipped {
        /// How many releases this stands for.
        skipped: u64,
        /// How late the oldest of them was; `None`: the task is disabled.
        oldest: Option<Span>,
    },
    /// Ticks ran longer than the budget.
    OverBudget {
        /// How many ticks this stands for.
        count: u64,
        /// Index of the one that ran longest.
        n: u64,
        /// Its run.
        run: Span,
    },
    /// Overruns were repeated until the limit was reached.
    OverLimit {
        /// How often it was reached.
        count: u64,
        /// Index of the tick that reached it.
        n: u64,
        /// The task was ended by it.
        ended: bool,
    },
    /// Ticks returned an error.
    Failed {
        /// How many ticks this stands for.
        count: u64,
        /// Index of the latest.
        n: u64,
        /// Its error.
        error: TickError,
    },
    /// A tick returned an error, and `on-error` ended the task.
    Ended {
        /// Index of the tick.
        n: u64,
        /// Its error.
        error: TickError,
    },
}

const AT_MOST_EVERY: Span = Span::from_seconds(1);

/// What has not been reported yet of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    kind: Option<EventKind>,
    reported: Option<Instant>,
}

impl Waiting {
    fn tell(&mut self, now: Instant, last: bool, mut tell: impl FnMut(EventKind)) {
        let due = last || self.reported.is_none_or(|reported| now - reported >= AT_MOST_EVERY || now < reported);
        if due && let Some(kind) = self.kind.take() {
            self.reported = Some(now);
            tell(kind);
        }
    }
}

/// The events of one task.
#[derive(Clone, Debug, Default)]
pub(super) struct Limiter {
    overrun: Waiting,
    response: Span, // of the tick that `overrun` names
    skipped: Waiting,
    budget: Waiting,
    limit: Waiting,
    failed: Waiting,
    ended: Waiting,
}

impl Limiter {
    /// `oldest` is how late the oldest release in the record was.
    pub(super) fn note(&mut self, record: &TickRecord, cause: Cause, oldest: Span) {
        if record.overrun {
            self.note_overrun(record, cause);
        } else if record.skipped() > 0 {
            self.note_given_up(record.skipped(), Some(oldest));
        }
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
            Outcome::Failed(error) | Outcome::Limited(Some(error)) => {
                let count = match self.failed.kind {
                    Some(EventKind::Failed { count, .. }) => count + 1,
                    _ => 1,
                };
                self.failed.kind = Some(EventKind::Failed { count, n: record.n, error });
            }
            Outcome::Ended(error) => self.ended.kind = Some(EventKind::Ended { n: record.n, error }),
            // The text of a panic takes another way.
            Outcome::Done | Outcome::Limited(None) | Outcome::Panicked { .. } => {}
        }
    }

    fn note_overrun(&mut self, record: &TickRecord, cause: Cause) {
        let (mut count, mut skipped) = (1, record.skipped());
        let mut worst = (record.n, record.lateness, record.run(), cause);
        match self.overrun.kind {
            Some(EventKind::Overrun { count: before, skipped: earlier, n, lateness, run, cause }) => {
                (count, skipped) = (count + before, skipped + earlier);
                if record.response <= self.response {
                    worst = (n, lateness, run, cause);
                }
                self.response = self.response.max(record.response);
            }
            _ => self.response = record.response,
        }
        let (n, lateness, run, cause) = worst;
        self.overrun.kind = Some(EventKind::Overrun { count, skipped, n, lateness, run, cause });
    }

    fn note_over_budget(&mut self, record: &TickRecord) {
        let mine = (record.n, record.run());
        let (count, (n, run)) = match self.budget.kind {
            Some(EventKind::OverBudget { count, n, run }) => (count + 1, if run >= mine.1 { (n, run) } else { mine }),
            _ => (1, mine),
        };
        self.budget.kind = Some(EventKind::OverBudget { count, n, run });
    }

    pub(super) fn note_given_up(&mut self, count: u64, late: Option<Span>) {
        let kind = match self.skipped.kind {
            Some(EventKind::Skipped { skipped, oldest }) => {
                EventKind::Skipped { skipped: skipped + count, oldest: oldest.max(late) }
            }
            _ => EventKind::Skipped { skipped: count, oldest: late },
        };
        self.skipped.kind = Some(kind);
    }

    pub(super) fn tell(&mut self, now: Instant, last: bool, mut tell: impl FnMut(EventKind)) {
        for waiting in
            [&mut self.overrun, &mut self.skipped, &mut self.budget, &mut self.limit, &mut self.failed, &mut self.ended]
        {
            waiting.tell(now, last, &mut tell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RECORD;

    fn overrun(n: u64, response: i64, dropped: u64) -> TickRecord {
        let response = Span::from_millis(response);
        TickRecord { n, response, dropped, overrun: true, ..RECORD }
    }

    #[test]
    fn at_most_one_a_second_and_none_is_lost() {
        let mut limiter = Limiter::default();
        let mut told = Vec::new();
        for millis in 0..3_500_u64 {
            let response = if millis == 1_700 { 90 } else { 3 };
            limiter.note(&overrun(millis, response, 2), Cause::RanLong, Span::ZERO);
            let now = Instant::from_nanos(i128::from(millis) * 1_000_000);
            limiter.tell(now, false, |kind| told.push((millis, kind)));
        }
        limiter.tell(Instant::ZERO, true, |kind| told.push((3_500, kind)));
        let numbers: Vec<_> = told
            .iter()
            .map(|(at, kind)| match kind {
                EventKind::Overrun { count, skipped, n, .. } => (*at, *count, *skipped, *n),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            numbers,
            [
                (0, 1, 2, 0),
                (1_000, 1_000, 2_000, 1),
                (2_000, 1_000, 2_000, 1_700),
                (3_000, 1_000, 2_000, 2_001),
                (3_500, 499, 998, 3_001)
            ]
        );
    }
}
