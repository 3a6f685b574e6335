//! How a schedule goes on, to be compared at two instants. Arithmetic on values; allocates.

use super::{Entry, Schedule};
use crate::time::{Instant, Span};

/// All that decides how a task goes on, but for its grid; see [`Schedule::ahead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    next: Option<Span>, // to the next release
    credit: Span,
    skipped: u64,
    missed: u64,
    stepped: Span,
    jumped: Span,
    disabled: bool,
}

impl Schedule {
    /// How each task goes on from `at`, and whether [`gave_up`](Self::gave_up) would say so. Where this is the same at two
    /// instants, and the grids lie the same, so is all that follows.
    pub(crate) fn ahead(&self, at: Instant) -> (bool, Vec<Ahead>) {
        let ahead = |entry: &Entry| {
            let Entry { credit, skipped, missed, stepped, jumped, disabled, .. } = *entry;
            let next = entry.account.next().map(|(_, release)| release - at);
            Ahead { next, credit, skipped, missed, stepped, jumped, disabled }
        };
        (self.gave_up, self.entries.iter().map(ahead).collect())
    }
}
