//! The most recent ticks of a task, kept until they are entered into its histograms together.
//!
//! With thousands of tasks, a task's data has left the processor's caches when its next record comes. Its histograms, counts and windows
//! span some two dozen cache lines. A tick in which nothing was missed and nothing failed is kept here instead, in two lines.
//! Pure; allocates nothing.

use super::missed::{BEFORE, Quiet};
use crate::channels::{Outcome, TickRecord};
use crate::time::{Instant, Span};

/// The maximum number of ticks kept: as many as fit into two cache lines.
pub(super) const TICKS: usize = 11;

/// One task's ticks that have not been entered yet, and the state that they update if nothing is missed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Recent {
    worker: usize,
    begun: i64,                 // the first release counted in `due`; in nanoseconds, as all times here
    until: i64,                 // when the most recent tick had finished
    due: u32,                   // releases of about the last second, which the next report counts as due
    worst: u32,                 // largest lateness since it was last taken
    below: u32,                 // only ticks less late than this are accepted
    count: u8,                  // number of ticks
    open: bool,                 // `begun`, `until` and `due` are current
    ticks: [(u32, u32); TICKS], // lateness and response
}

const _: () = assert!(size_of::<Recent>() == 128, "two lines");

/// Whether a record shows nothing but a tick and its times: nothing was missed and nothing failed.
pub(super) fn is_plain(record: &TickRecord) -> bool {
    let out_of_order = record.overrun | record.over_budget | record.over_limit;
    !out_of_order && record.skipped() == 0 && record.outcome == Outcome::Done
}

impl Recent {
    /// For a task of this worker. Ticks at least `put_off` late also stand for releases that were put off, and are not accepted.
    pub(super) fn new(worker: usize, put_off: Option<Span>) -> Self {
        let below = put_off.map_or(u32::MAX, |late| u32::try_from(late.nanos()).unwrap_or(u32::MAX));
        Self { worker, below, ..Self::default() }
    }

    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Whether plain ticks are accepted.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the ticks must be entered before the next one.
    pub(super) fn is_full(&self) -> bool {
        usize::from(self.count) == TICKS
    }

    /// Accepts plain ticks from now on.
    pub(super) fn open(&mut self, quiet: Quiet) {
        let nanos = |at: Instant| i64::try_from(at.nanos());
        if let (Ok(begun), Ok(until), Ok(due)) = (nanos(quiet.begun), nanos(quiet.until), u32::try_from(quiet.due)) {
            *self = Self { begun, until, due, open: true, ..*self };
        }
    }

    /// Accepts no more ticks. Returns what was passed to [`open`](Self::open), updated by the ticks since; `None` if it was not open.
    pub(super) fn close(&mut self) -> Option<Quiet> {
        let instant = |nanos: i64| Instant::from_nanos(nanos.into());
        std::mem::take(&mut self.open).then(|| Quiet {
            begun: instant(self.begun),
            due: self.due.into(),
            until: instant(self.until),
        })
    }

    /// Adds a plain tick. Returns false if the tick has to be entered on its own.
    pub(super) fn add(&mut self, record: &TickRecord) -> bool {
        let (lateness, response) = (record.lateness.nanos(), record.response.nanos());
        let (Ok(lateness), Ok(response)) = (u32::try_from(lateness), u32::try_from(response)) else { return false };
        let Ok(release) = i64::try_from(record.release.nanos()) else { return false };
        if !self.open || self.is_full() || lateness >= self.below || response < lateness {
            return false;
        }
        if release.saturating_sub(self.begun) >= BEFORE.nanos() {
            (self.begun, self.due) = (release, 0);
        }
        self.due = self.due.saturating_add(1);
        self.until = release.saturating_add(response.into());
        self.worst = self.worst.max(lateness);
        self.ticks[usize::from(self.count)] = (lateness, response);
        self.count += 1;
        true
    }

    /// The lateness and response of the ticks, in order.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (Span, Span)> {
        let span = |nanos: u32| Span::from_nanos(nanos.into());
        self.ticks[..self.count.into()].iter().map(move |&(lateness, response)| (span(lateness), span(response)))
    }

    /// Removes the ticks, after they have been entered.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// The largest lateness of the ticks since the last call.
    pub(super) fn take_worst(&mut self) -> Span {
        Span::from_nanos(std::mem::take(&mut self.worst).into())
    }
}
