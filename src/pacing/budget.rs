//! What spinning may cost: a share of any ten seconds, saved up where it is not used. Time is a value; nothing blocks or allocates.

use super::tail::share;
use crate::time::{Instant, Span};

/// Of the share, this part is paid in, and what is paid in for this time is kept at most: the two together, over ten seconds, leave a
/// hundredth for the tail that overdraws what is left.
const PAID_IN: f64 = 0.94;
const KEPT: Span = Span::from_millis(500);

/// What was paid in for this time is there from the start: then a run of a second keeps to the share as well.
const AT_FIRST: Span = Span::from_millis(60);

/// Savings of processor time.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    most: f64,   // the share
    saved: Span, // below zero: overdrawn
    seen: Option<Instant>,
}

impl Budget {
    /// Next to nothing saved yet.
    pub(super) fn new(most: f64) -> Self {
        Self { most, saved: share(AT_FIRST, most), seen: None }
    }

    /// The share that can be spent for long.
    pub(super) fn share(&self) -> f64 {
        self.most * PAID_IN
    }

    /// Pays in for the time until `now`, if it does not go back. Returns what can be spent.
    pub(super) fn at(&mut self, now: Instant) -> Span {
        let elapsed = now - self.seen.replace(now).unwrap_or(now);
        self.saved = (self.saved + share(elapsed, self.share())).min(share(KEPT, self.most));
        self.saved
    }

    pub(super) fn spend(&mut self, spun: Span) {
        self.saved = self.saved - spun.max(Span::ZERO);
    }

    /// The clock was stepped by `by`: that is no time in which anything could be saved.
    pub(super) fn step(&mut self, by: Span) {
        self.seen = self.seen.map(|seen| seen + by);
    }
}
