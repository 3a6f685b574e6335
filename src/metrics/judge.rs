//! The verdicts on a record: what held its releases up.
//!
//! Plain arithmetic on instants; nothing blocks or allocates.

use super::{By, Cause, Verdict, Verdicts};
use crate::channels::TickRecord;
use crate::time::{Instant, Span};

/// The verdicts on `record`, whose task's previous tick finished at `previous` (`None`: there was none, or its record was
/// lost), and which followed a tick of `neighbour` on its worker.
pub(super) fn judge(record: &TickRecord, previous: Option<Instant>, neighbour: Option<u32>) -> Verdicts {
    let late = record.lateness.max(Span::ZERO);
    let stalled = record.stepped.clamp(Span::ZERO, late);
    // An instant from before a step of the clock says nothing about one after it.
    let previous = previous.filter(|_| record.stepped == Span::ZERO);
    let own = previous.map_or(Span::ZERO, |finished| finished - record.release).clamp(Span::ZERO, late);
    let woken = record.woke.clamp(Span::ZERO, late);
    // The rest of the lateness is due to other tasks: a tick that another one preceded since the wake-up has a `woke`
    // from before it.
    let blocked = late - own.max(woken).max(stalled);
    let parts = [
        (Cause::RanLong, record.run()),
        (Cause::Stalled, stalled),
        (Cause::OwnDebt, own),
        (Cause::WokenLate, woken),
        (Cause::Blocked, blocked),
    ];
    let verdict = |parts: &[(Cause, Span)], count| {
        let longest = parts.iter().copied().reduce(|longest, part| if part.1 > longest.1 { part } else { longest });
        let (cause, time) = longest.unwrap_or((Cause::Unknown, Span::ZERO));
        let by = if cause == Cause::Blocked { neighbour.map(By::Task) } else { None };
        Verdict { cause, by, time, count }
    };
    let overrun = verdict(&parts, 1);
    let after = match overrun.cause {
        Cause::RanLong => Verdict { cause: Cause::OwnDebt, ..overrun },
        _ => overrun,
    };
    Verdicts {
        before: (record.missed > 0).then(|| match record.stepped > Span::ZERO {
            true => Verdict { cause: Cause::Stalled, by: None, time: record.stepped, count: record.missed },
            false => verdict(&parts[1..], record.missed),
        }),
        overrun: record.overrun.then_some(overrun),
        after: (record.dropped > 0).then_some(Verdict { count: record.dropped, ..after }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RECORD;

    fn cause(woke: i64, lateness: i64, run: i64, previous: i64) -> Option<Cause> {
        let (woke, lateness) = (Span::from_micros(woke), Span::from_micros(lateness));
        let record = TickRecord { woke, lateness, response: lateness + Span::from_micros(run), ..RECORD };
        let verdicts = judge(&record, Some(Instant::ZERO + Span::from_micros(previous)), Some(3));
        verdicts.overrun.map(|verdict| verdict.cause)
    }

    #[test]
    fn the_largest_part_is_to_blame() {
        assert_eq!(cause(-50, 0, 1_200, -900), Some(Cause::RanLong));
        assert_eq!(cause(900, 902, 300, -500), Some(Cause::WokenLate));
        assert_eq!(cause(-50, 800, 300, -500), Some(Cause::Blocked));
        assert_eq!(cause(-1_000, 800, 300, 790), Some(Cause::OwnDebt));
        assert_eq!(cause(100, 2_000, 300, -500), Some(Cause::Blocked));
    }

    #[test]
    fn what_a_step_of_the_clock_jumped_over_was_stalled() {
        let (late, hour) = (Span::from_micros(1_400), Span::from_seconds(3_600));
        let response = late + Span::from_micros(300);
        let record = TickRecord { woke: late, lateness: late, response, missed: 3_599_998, stepped: hour, ..RECORD };
        // On the clock as it was before, the previous tick finished just now.
        let verdicts = judge(&record, Some(Instant::ZERO + Span::from_micros(900)), Some(3));
        let verdict = |time, count| Some(Verdict { cause: Cause::Stalled, by: None, time, count });
        assert_eq!((verdicts.before, verdicts.overrun), (verdict(hour, 3_599_998), verdict(late, 1)));
    }
}
