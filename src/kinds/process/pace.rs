//! When the relay looks: shortly after each release of its task. It learns the grid from the ticks that arrive. Arithmetic only.

use crate::time::{Instant, Span};

/// A poll comes a sixteenth of a period after a release, within these limits.
const LEAST_OFFSET: Span = Span::from_micros(50);
const MOST_OFFSET: Span = Span::from_micros(500);

/// The longest time between two polls while no ticks arrive.
pub(super) const LONGEST: Span = Span::from_millis(20);

/// The pace of one relay.
#[derive(Debug)]
pub(super) struct Pace {
    period: Span,
    offset: Span,
    latest: Option<Instant>, // release of the last tick that arrived, on the monotonic clock
}

impl Pace {
    pub(super) fn new(period: Span) -> Self {
        let offset = Span::from_nanos(period.nanos() / 16).clamp(LEAST_OFFSET, MOST_OFFSET);
        Self { period, offset, latest: None }
    }

    /// Records that a tick arrived.
    pub(super) fn came(&mut self, release: Instant) {
        self.latest = Some(release);
    }

    /// When to look next: after `now`, by at most [`LONGEST`].
    pub(super) fn next(&self, now: Instant) -> Instant {
        let longest = now + LONGEST;
        let Some(latest) = self.latest else { return now + self.period.clamp(self.offset, LONGEST) };
        let due = latest + self.period + self.offset;
        match due {
            due if now < due => due,
            // The tick has not arrived yet.
            due if now < due + self.period => now + self.offset,
            _ => now + self.period.clamp(self.offset, LONGEST),
        }
        .min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    /// ```text
    /// releases   0         5 ms              10 ms            15 ms
    /// looks      |.|       |. .  .  .        |
    ///              come    late, so again    not any more: every period
    /// ```
    #[test]
    fn looks_follow_the_ticks() {
        let mut pace = Pace::new(Span::from_millis(5));
        assert_eq!(pace.next(at(0)), at(5_000), "no tick yet");
        pace.came(at(0));
        assert_eq!(pace.next(at(400)), at(5_312) + Span::from_nanos(500));
        assert_eq!(pace.next(at(6_000)), at(6_312) + Span::from_nanos(500), "it is late");
        assert_eq!(pace.next(at(11_000)), at(16_000), "there is none");
        let mut slow = Pace::new(Span::from_seconds(60));
        slow.came(at(0));
        assert_eq!(slow.next(at(1_000)), at(21_000));
        let mut fast = Pace::new(Span::from_micros(1));
        fast.came(at(0));
        assert_eq!(fast.next(at(10)), at(51));
    }
}
