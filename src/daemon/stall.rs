//! Whether a worker advances, and which task is to blame if not.
//!
//! Pure: what the worker shows comes in as values, with the time. A worker that rests until its next release advances; one
//! that has been in the same tick for too long does not, nor one that has slept past its release for too long.

use crate::time::{Instant, Span};
use crate::worker::{Activity, Doing};

/// A worker that does not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// The number of the task that does not return, and its tick; `None`: the worker does not wake up.
    pub(super) tick: Option<(u32, u64)>,
    /// For how long.
    pub(super) lasting: Span,
}

/// Watches one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    ticks: Option<u64>,
    reported: Option<Activity>,
}

/// The result of a look at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It advances.
    Advances,
    /// It does not, and that is new.
    Stalls(Stall),
    /// It still does not.
    StallsStill,
}

impl Watch {
    /// Looks at what a worker does at `now`, by its own clock; a tick, or a delay of one, longer than `patience` is a
    /// stall, which is reported once.
    pub(super) fn look(&mut self, now: Instant, doing: Doing, patience: Span) -> Finding {
        // A worker that is always behind never rests, and what it shows between two ticks is a rest of long ago.
        if self.ticks.replace(doing.ticks) != Some(doing.ticks) {
            self.reported = None;
            return Finding::Advances;
        }
        let (lasting, tick) = match doing.now {
            Activity::Runs { task, n, since } => (now - since, Some((task, n))),
            Activity::Rests { until } => (now - until, None),
        };
        if lasting <= patience {
            self.reported = None;
            return Finding::Advances;
        }
        if self.reported.replace(doing.now) == Some(doing.now) {
            return Finding::StallsStill;
        }
        Finding::Stalls(Stall { tick, lasting })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_reported_once_and_a_rest_is_none() {
        let second = |seconds| Instant::ZERO + Span::from_seconds(seconds);
        let patience = Span::from_seconds(2);
        let mut watch = Watch::default();
        let mut look = |now, what| watch.look(second(now), Doing { ticks: 0, now: what }, patience);
        assert_eq!(look(0, Activity::Rests { until: second(-50) }), Finding::Advances, "nothing to compare with");
        assert_eq!(look(0, Activity::Rests { until: second(10) }), Finding::Advances);
        assert_eq!(look(12, Activity::Rests { until: second(10) }), Finding::Advances);
        let asleep = Stall { tick: None, lasting: Span::from_seconds(3) };
        assert_eq!(look(13, Activity::Rests { until: second(10) }), Finding::Stalls(asleep));
        assert_eq!(look(14, Activity::Rests { until: second(10) }), Finding::StallsStill);
        let runs = Activity::Runs { task: 3, n: 70, since: second(14) };
        assert_eq!(look(16, runs), Finding::Advances);
        let hangs = Stall { tick: Some((3, 70)), lasting: Span::from_seconds(3) };
        assert_eq!(look(17, runs), Finding::Stalls(hangs));
        assert_eq!(look(18, runs), Finding::StallsStill);
        assert_eq!(look(19, Activity::Rests { until: second(20) }), Finding::Advances);
        let ticked = Doing { ticks: 1, now: Activity::Rests { until: second(1) } };
        assert_eq!(watch.look(second(90), ticked, patience), Finding::Advances, "it has ticked since");
    }
}
