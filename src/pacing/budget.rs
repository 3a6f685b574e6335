//! The spin budget: a share of any ten seconds of processor time. Unused time is saved up. Time is an argument; nothing blocks or
//! allocates.

use super::tail::share;
use crate::time::{Instant, Span};

/// `PAID_IN` is the fraction of the share that is credited. Savings are capped at what the share is worth over `KEPT`. Over ten seconds,
/// both together use 99 % of the share and leave 1 % for a tail that overdraws the savings.
const PAID_IN: f64 = 0.94;
const KEPT: Span = Span::from_millis(500);

/// The initial savings are worth the share over this time, so that a run of one second also stays within the share.
const AT_FIRST: Span = Span::from_millis(60);

/// Saved processor time.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    most: f64,   // the share of processor time, from the configuration
    saved: Span, // below zero: overdrawn
    seen: Option<Instant>,
}

impl Budget {
    /// Starts with almost nothing saved.
    pub(super) fn new(most: f64) -> Self {
        Self { most, saved: share(AT_FIRST, most), seen: None }
    }

    /// The share that can be spent in the long run.
    pub(super) fn share(&self) -> f64 {
        self.most * PAID_IN
    }

    /// Credits the time up to `now`, unless the clock went back. Returns what can be spent.
    pub(super) fn at(&mut self, now: Instant) -> Span {
        let elapsed = now - self.seen.replace(now).unwrap_or(now);
        self.saved = (self.saved + share(elapsed, self.share())).min(share(KEPT, self.most));
        self.saved
    }

    pub(super) fn spend(&mut self, spun: Span) {
        self.saved = self.saved - spun.max(Span::ZERO);
    }

    /// The clock was stepped by `by`. The step does not count as time in which budget is saved.
    pub(super) fn step(&mut self, by: Span) {
        self.seen = self.seen.map(|seen| seen + by);
    }
}
