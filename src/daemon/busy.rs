//! What the builder is doing, and the warnings while it takes long. A file system or device that hangs delays only a start or a reload.
//!
//! Pure: the time is an argument. Main checks; the builder is not involved.

use crate::time::{Instant, Span};
use tracing::{info, warn};

/// Delay before the first warning. Each further warning comes after twice the previous delay.
const LONG: Span = Span::from_seconds(5);

/// What the builder is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Busy {
    /// Phrased to follow "is": "reading the configuration".
    pub(super) activity: String,
    /// When it began, on the monotonic clock.
    pub(super) since: Instant,
}

/// Warns about activities that take long.
#[derive(Debug, Default)]
pub(super) struct LongWait {
    reported: Option<(Busy, Span)>, // and the total duration at which the next warning is due
}

/// What a check of the builder found.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// The activity has taken this long and is not finished.
    Lasts(String, Span),
    /// The long activity is over, after this time.
    Over(String, Span),
}

impl LongWait {
    /// Logs an activity that takes long at `now`, and its end.
    pub(super) fn report(&mut self, now: Instant, busy: Option<Busy>) {
        match self.look(now, busy) {
            Some(Finding::Lasts(activity, lasting)) => {
                let busy_ns = lasting.nanos();
                let others = "running tasks, status and stop do not wait for it";
                warn!(activity, busy_ns, "still {activity} after {lasting}; {others}");
            }
            Some(Finding::Over(activity, lasting)) => {
                info!(activity, busy_ns = lasting.nanos(), "no longer {activity}: it took {lasting}");
            }
            None => {}
        }
    }

    fn look(&mut self, now: Instant, busy: Option<Busy>) -> Option<Finding> {
        if let Some((Busy { activity, since }, _)) = self.reported.take_if(|(of, _)| busy.as_ref() != Some(of)) {
            return Some(Finding::Over(activity, now - since));
        }
        let busy = busy?;
        let (lasting, due) = (now - busy.since, self.reported.as_ref().map_or(LONG, |(_, due)| *due));
        (lasting >= due).then(|| {
            let activity = busy.activity.clone();
            self.reported = Some((busy, due + due));
            Finding::Lasts(activity, lasting)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_reported_less_and_less_often_and_when_it_is_over() {
        let second = |seconds| Instant::ZERO + Span::from_seconds(seconds);
        let doing = |activity: &str, since| Some(Busy { activity: activity.into(), since: second(since) });
        let mut wait = LongWait::default();
        let mut found = Vec::new();
        for now in 0..100 {
            let busy = match now {
                0..4 => doing("quick", 0),
                4..60 => doing("slow", 4),
                60..63 => None,
                _ => doing("slow", 63),
            };
            found.extend(wait.look(second(now), busy).map(|finding| (now, finding)));
        }
        let slow = |now, since| (now, Finding::Lasts("slow".into(), Span::from_seconds(now - since)));
        let over = (60, Finding::Over("slow".into(), Span::from_seconds(56)));
        let expected =
            [slow(9, 4), slow(14, 4), slow(24, 4), slow(44, 4), over, slow(68, 63), slow(73, 63), slow(83, 63)];
        assert_eq!(found, expected);
    }
}
