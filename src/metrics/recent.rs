//! The latest ticks of a task, until they are entered into its histograms together.
//!
//! With thousands of tasks nothing of one is in the processor's caches when its next record comes, and its histograms, counts
//! and windows are some two dozen lines of them. A tick in which nothing was missed and nothing failed goes here, which is two.
//! Pure; allocates nothing.

use super::missed::{BEFORE, Quiet};
use crate::channels::{Outcome, TickRecord};
use crate::time::{Instant, Span};

/// Ticks that are kept, at most: as many as two lines have room for.
pub(super) const TICKS: usize = 11;

/// The ticks of one task that have not been entered, and what becomes of them if nothing is missed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Recent {
    worker: usize,
    begun: i64,                 // the first release of those in `due`; all in nanoseconds
    until: i64,                 // when the latest tick had finished
    due: u32,                   // releases of about the last second: what a miss would be set against
    worst: u32,                 // lateness since it was asked for
    below: u32,                 // the lateness of ticks that it takes
    count: u8,                  // of the ticks
    open: bool,                 // `begun`, `until` and `due` are the latest
    ticks: [(u32, u32); TICKS], // lateness and response
}

const _: () = assert!(size_of::<Recent>() == 128, "two lines");

/// Whether a record says only that a tick was run, and when: nothing was missed, nothing failed.
pub(super) fn is_plain(record: &TickRecord) -> bool {
    let out_of_order = record.overrun | record.over_budget | record.over_limit;
    !out_of_order && record.skipped() == 0 && record.outcome == Outcome::Done
}

impl Recent {
    /// Of a task of this worker. Ticks as late as `put_off` stand for more than themselves, and are not taken.
    pub(super) fn new(worker: usize, put_off: Option<Span>) -> Self {
        let below = put_off.map_or(u32::MAX, |late| u32::try_from(late.nanos()).unwrap_or(u32::MAX));
        Self { worker, below, ..Self::default() }
    }

    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Whether it takes plain ticks.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the ticks must be entered before the next one.
    pub(super) fn is_full(&self) -> bool {
        usize::from(self.count) == TICKS
    }

    /// Takes plain ticks from now on.
    pub(super) fn open(&mut self, quiet: Quiet) {
        let nanos = |at: Instant| i64::try_from(at.nanos());
        if let (Ok(begun), Ok(until), Ok(due)) = (nanos(quiet.begun), nanos(quiet.until), u32::try_from(quiet.due)) {
            *self = Self { begun, until, due, open: true, ..*self };
        }
    }

    /// Takes none from now on. What was handed to [`open`](Self::open), with the ticks since; `None`: it was not open.
    pub(super) fn close(&mut self) -> Option<Quiet> {
        let instant = |nanos: i64| Instant::from_nanos(nanos.into());
        std::mem::take(&mut self.open).then(|| Quiet {
            begun: instant(self.begun),
            due: self.due.into(),
            until: instant(self.until),
        })
    }

    /// Takes a plain tick; false: it has to be entered on its own.
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

    /// The lateness and the response of the ticks, in order.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (Span, Span)> {
        let span = |nanos: u32| Span::from_nanos(nanos.into());
        self.ticks[..self.count.into()].iter().map(move |&(lateness, response)| (span(lateness), span(response)))
    }

    /// They have been entered.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// The largest lateness of the ticks since this was asked last.
    pub(super) fn take_worst(&mut self) -> Span {
        Span::from_nanos(std::mem::take(&mut self.worst).into())
    }
}
