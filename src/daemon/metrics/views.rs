//! Main's side of the metrics: the pending request, and the last view that arrived.
//!
//! Time is an argument; nothing waits.

use super::metrics_thread::{Depth, MetricsThread, View};
use crate::time::{Instant, Span};
use crossbeam_channel::{Receiver, RecvError, never};

/// How long a status answer waits for the metrics thread.
pub(crate) const PATIENCE: Span = Span::from_millis(500);

/// With up to this many tasks, every view includes the distributions.
const FEW_TASKS: usize = 64;

/// The pending request, and the last view.
#[derive(Default)]
pub(crate) struct Views {
    pending: Option<(Receiver<View>, Depth, Instant)>,
    latest: Option<(View, Instant)>,
    full: Option<Instant>, // when the last view with distributions was requested
}

impl Views {
    /// Asks for a view of this many tasks, unless a request is pending.
    pub(crate) fn ask(&mut self, metrics: &MetricsThread, depth: Depth, tasks: usize, now: Instant) {
        let depth = if tasks <= FEW_TASKS { Depth::Full } else { depth };
        self.pending.get_or_insert_with(|| (metrics.look(depth), depth, now));
    }

    /// Where the pending view will arrive.
    pub(crate) fn arrival(&self) -> Receiver<View> {
        self.pending.as_ref().map_or_else(never, |(view, ..)| view.clone())
    }

    /// Takes a view that arrived; an error means that it never will.
    pub(crate) fn take(&mut self, view: Result<View, RecvError>) {
        let (Some((_, depth, asked)), Ok(mut view)) = (self.pending.take(), view) else { return };
        match (depth, self.latest.take()) {
            (Depth::Full | Depth::Last, _) => self.full = Some(asked),
            (Depth::Brief, None) => {}
            (Depth::Brief, Some((before, _))) => view.inherit_spans(before),
        }
        self.latest = Some((view, asked));
    }

    /// Whether the metrics thread has owed an answer for longer than main waits for one.
    pub(crate) fn are_late(&self, now: Instant) -> bool {
        self.pending.as_ref().is_some_and(|(.., asked)| now - *asked > PATIENCE)
    }

    /// Whether the last full view is as recent as `asked`.
    pub(crate) fn are_full_since(&self, asked: Instant) -> bool {
        self.full.is_some_and(|full| full >= asked)
    }

    /// The last view, and when it was requested.
    pub(crate) fn latest(&self) -> Option<(&View, Instant)> {
        self.latest.as_ref().map(|(view, asked)| (view, *asked))
    }
}
