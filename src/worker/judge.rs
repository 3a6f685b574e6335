//! The verdict on a finished tick: arithmetic on its times and result. Reads no clock, allocates nothing.

use super::slot::Slot;
use crate::channels::Outcome;
use crate::config::{LimitAction, OnError};
use crate::task::TickError;
use crate::time::{Instant, Span};

/// How a tick returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    Well,
    Failed(TickError),
    Panicked,
}

/// The consequences of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    /// It finished after its deadline.
    pub(super) overrun: bool,
    /// It ran longer than its budget.
    pub(super) over_budget: bool,
    /// With this overrun, the task exceeded its limit of repeated overruns.
    pub(super) over_limit: bool,
    /// The whole run ends.
    pub(super) exits: bool,
}

/// Judges a tick of the task in `slot`. The tick returned `returned` at `finished`, `run` after its start and `response` after its release.
/// An overrun adds to the task's overrun bucket.
pub(super) fn judge(slot: &mut Slot, returned: Returned, run: Span, response: Span, finished: Instant) -> Verdict {
    let overrun = response > slot.deadline;
    let over_budget = slot.budget.is_some_and(|budget| run > budget);
    // Without an overrun the limit is not read: it is seldom in the processor's caches.
    let limit = if overrun { slot.limit.as_mut() } else { None };
    let at_limit = limit.and_then(|(bucket, action)| bucket.overrun(finished).then_some(*action));
    let limited = at_limit.is_some_and(|action| action != LimitAction::Warn);
    let (outcome, follows) = match returned {
        Returned::Well if limited => (Outcome::Limited(None), OnError::Disable),
        Returned::Well => (Outcome::Done, OnError::Continue),
        Returned::Failed(error) if limited => (Outcome::Limited(Some(error)), slot.on_error),
        Returned::Failed(error) if slot.on_error == OnError::Continue => (Outcome::Failed(error), OnError::Continue),
        Returned::Failed(error) => (Outcome::Ended(error), slot.on_error),
        Returned::Panicked => {
            (Outcome::Panicked { ended: limited || slot.on_panic != OnError::Continue }, slot.on_panic)
        }
    };
    let exits = follows == OnError::Exit || at_limit == Some(LimitAction::Exit);
    Verdict { outcome, overrun, over_budget, over_limit: at_limit.is_some(), exits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::LeakyBucket;
    use crate::sim::{Scripted, SimClock};

    /// The verdict on a tick of 2 ms, for a task with these settings.
    fn verdict(returned: Returned, on_error: OnError, on_panic: OnError, limit: Option<LimitAction>) -> Verdict {
        let task = Box::new(Scripted::new(SimClock::new(Instant::ZERO, Vec::new()), Vec::new()));
        let deadline = Span::from_millis(if limit.is_some() { 1 } else { 9 });
        let limit = limit.map(|action| (LeakyBucket::new(1, Span::from_seconds(9)), action));
        let budget = Some(Span::from_millis(1));
        let period = Span::from_millis(9);
        let mut slot = Slot { budget, on_error, on_panic, limit, ..Slot::of(0, task, deadline, period) };
        let run = Span::from_millis(2);
        let mut judged = || judge(&mut slot, returned, run, run, Instant::ZERO);
        judged(); // the one overrun that the limit tolerates
        judged()
    }

    #[test]
    fn what_follows_a_tick_is_what_its_section_asks_for() {
        use OnError::{Continue, Disable, Exit};
        let error = TickError::new("x");
        let failed = Returned::Failed(error);
        let panicked = |ended| Outcome::Panicked { ended };
        for (returned, on_error, on_panic, limit, outcome, exits) in [
            (Returned::Well, Exit, Exit, None, Outcome::Done, false),
            (Returned::Well, Continue, Disable, Some(LimitAction::Warn), Outcome::Done, false),
            (Returned::Well, Continue, Disable, Some(LimitAction::Disable), Outcome::Limited(None), false),
            (Returned::Well, Continue, Disable, Some(LimitAction::Exit), Outcome::Limited(None), true),
            (failed, Continue, Disable, None, Outcome::Failed(error), false),
            (failed, Disable, Disable, None, Outcome::Ended(error), false),
            (failed, Exit, Exit, None, Outcome::Ended(error), true),
            (failed, Exit, Exit, Some(LimitAction::Disable), Outcome::Limited(Some(error)), true),
            (Returned::Panicked, Continue, Disable, None, panicked(true), false),
            (Returned::Panicked, Continue, Continue, None, panicked(false), false),
            (Returned::Panicked, Continue, Continue, Some(LimitAction::Disable), panicked(true), false),
            (Returned::Panicked, Exit, Exit, None, panicked(true), true),
        ] {
            let got = verdict(returned, on_error, on_panic, limit);
            let wanted =
                Verdict { outcome, overrun: limit.is_some(), over_budget: true, over_limit: limit.is_some(), exits };
            assert_eq!(got, wanted, "{returned:?} {on_error:?} {on_panic:?} {limit:?}");
        }
    }
}
