//! A target that another thread than its task holds at its safe value: setters and queries of that hold. No clock is read.

use super::Guard;
use super::holding::{HeldFor, Terms};
use crate::time::{Instant, Span};

impl Guard {
    /// The output will be made safe, for this reason.
    pub(crate) fn is_to_be_held(&self, why: HeldFor) {
        self.holding.is_for(why);
    }

    /// The safe value is written; the hold starts now, unless it already has.
    pub(crate) fn is_held_now(&self, now: Instant) {
        self.holding.begins(now);
    }

    /// Ends the hold, if the task has recovered.
    pub(crate) fn end_hold(&self) {
        if self.tripped().is_none() {
            self.holding.ends();
        }
    }

    /// How long the target has been held by another thread than its task, and why; `None`: it is not held.
    pub(crate) fn held(&self, now: Instant) -> Option<(Span, HeldFor)> {
        let (since, why) = self.holding.get()?;
        self.tripped().map(|_| ((now - since).max(Span::ZERO), why))
    }

    /// Sets what ends such a hold, and the value in force until then.
    pub(crate) fn recovers(&self, terms: Terms) {
        _ = self.terms.set(terms);
    }

    /// What ends the hold, as a clause.
    pub(crate) fn ends(&self) -> &str {
        match self.terms.get() {
            _ if self.is_sealed() => "hertzd ends",
            None => "its task ticks again and has recovered",
            Some(terms) => &terms.ends,
        }
    }

    /// The value in force until then, in the unit of the input; `None`: unknown, or the target might not hold it.
    pub(crate) fn safe_value(&self) -> Option<f64> {
        self.terms.get().map(|terms| terms.applied).filter(|applied| applied.is_finite())
    }

    /// Whether the last safe write succeeded, and the target is there and not known to be changed.
    pub(crate) fn holds_safe_value(&self) -> bool {
        let is_there = !self.keeps_what_it_has() && !self.is_lost() && self.written().is_in_force();
        is_there && !self.watched.is_hanging() && self.watched.errno() == 0
    }
}
