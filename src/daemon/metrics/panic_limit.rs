//! Limits how often panics of a task that continues are reported. Time is an argument; nothing blocks.

use crate::time::{Instant, Span};

/// Panics of a task that continues are reported at most this often.
const REPORT_EVERY: Span = Span::from_seconds(1);

/// Limits the reports on a task that panics and continues.
#[derive(Debug, Default)]
pub(crate) struct PanicLimit {
    reported: Option<Instant>,
    unreported: u64,
}

impl PanicLimit {
    /// How many panics a report at `now` stands for; `None`: it is too early to report.
    pub(crate) fn count(&mut self, now: Instant, ended: bool) -> Option<u64> {
        self.unreported += 1;
        if !ended && self.reported.is_some_and(|reported| now - reported < REPORT_EVERY) {
            return None;
        }
        self.reported = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}
