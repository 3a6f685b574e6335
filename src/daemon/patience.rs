//! How long main waits for another thread at the end.

use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};

/// The most that counts between two checks. Checks are normally at most 100 ms apart.
const MOST: Span = Span::from_millis(250);

/// A limit on a wait. If this process was stopped or starved of CPU time, so was the thread it waits for. Only [`MOST`] of such a gap
/// counts.
#[derive(Debug)]
pub(super) struct Patience {
    left: Span,
    looked: Instant,
}

impl Patience {
    pub(super) fn new(limit: Span) -> Self {
        Self::since(KernelClock::monotonic().now(), limit)
    }

    pub(super) const fn since(now: Instant, limit: Span) -> Self {
        Self { left: limit, looked: now }
    }

    /// Whether the limit is used up. Call this at least ten times a second.
    pub(super) fn is_over(&mut self) -> bool {
        self.look(KernelClock::monotonic().now())
    }

    pub(super) fn look(&mut self, now: Instant) -> bool {
        self.left = self.left - (now - self.looked).min(MOST);
        self.looked = now;
        self.left <= Span::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_of_the_process_itself_does_not_count() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let mut patience = Patience { left: Span::from_millis(500), looked: at(0) };
        assert!(!patience.look(at(20)));
        assert!(!patience.look(at(60_000)), "it was stopped for a minute");
        let over = (60_000..).step_by(20).find(|millis| patience.look(at(*millis)));
        assert_eq!(over, Some(60_240), "20 and 250 ms had counted");
    }
}
