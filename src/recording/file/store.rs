//! Checks whether the disk stores what it has accepted of a recording's file: once a second, and once more when the file ends. May block.

use super::{CHECK_EVERY, Open, RecordingFile};
use crate::recording::ledger::WriteCounts;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::writeback;
use crate::time::{Clock, Span};
use std::io;

/// The interval between checks whether an ending file is stored. All file changes in one drain together wait for `LOOKS_AT_CHANGE` checks.
/// The end of a recording at the end of a run waits for `LOOKS_AT_END` checks without progress: less time than a stop allows for a disk.
const STORED_EVERY: Span = Span::from_millis(10);
const PAGE_KB: u64 = 4; // on most kernels
const LOOKS_AT_CHANGE: u32 = 20;
const LOOKS_AT_END: u32 = 200;

impl RecordingFile {
    /// Once a second, makes the disk begin to store what it has accepted, and counts as lost what it failed to store. Returns true if the
    /// next file must begin.
    pub(in crate::recording) fn has_holes(&mut self) -> bool {
        let Some(Open { claim, length, .. }) = &self.open else { return false };
        if self.asked.is_some_and(|asked| self.at.now - asked < CHECK_EVERY) {
            return false;
        }
        self.asked = Some(self.at.now);
        match self.progress.returned(writeback::begin_and_ask(&claim.file, *length)) {
            Ok(()) => {
                let is_stored = |end| writeback::unstored_pages(&claim.file, Some(end)).is_none_or(|pages| pages == 0);
                self.storing.good(*length, is_stored)
            }
            Err(error) => self.refused(&error),
        }
    }

    /// The disk failed to store something it had accepted: everything not known to be stored is lost.
    fn refused(&mut self, error: &io::Error) -> bool {
        let must_begin = self.storing.refused();
        let gone = self.lose_behind_holes();
        let text = format!("the disk has not stored what it had taken, and {gone} count as lost: {error}");
        self.fail(io::Error::new(error.kind(), text));
        must_begin
    }

    fn lose_behind_holes(&mut self) -> WriteCounts {
        self.storing.lost_from().map(|offset| self.ledger.cut(offset, |_| 0)).unwrap_or_default()
    }

    /// Waits until the disk has stored the file, for this many checks (or, with `since_progress`, this many without progress). Counts as
    /// lost what was not stored.
    fn store(&mut self, looks: u32, since_progress: bool) {
        let Some(Open { claim, length, .. }) = &self.open else { return };
        let mut asked = self.progress.returned(writeback::begin_and_ask(&claim.file, *length));
        let (mut left, mut before) = (looks, None);
        // All recordings that change their files in one drain share this deadline.
        let until = self.at.now + Span::from_nanos(STORED_EVERY.nanos() * i64::from(LOOKS_AT_CHANGE));
        while asked.is_ok() && left > 0 && (since_progress || KernelClock::monotonic().now() < until) {
            let unstored = writeback::unstored_pages(&claim.file, None);
            if unstored == Some(0) {
                before = None;
                asked = writeback::ask(&claim.file, *length);
                break;
            }
            // A kernel that does not report its progress gets a tenth of the time.
            left = left.saturating_sub(if unstored.is_some() { 1 } else { 10 });
            if since_progress && before.zip(unstored).is_some_and(|(before, now)| now < before) {
                left = self.progress.returned(looks);
            }
            before = unstored;
            pause(STORED_EVERY);
            asked = writeback::begin_and_ask(&claim.file, *length);
        }
        if let Err(error) = asked {
            self.refused(&error);
            return;
        }
        self.lose_behind_holes();
        if let Some(pages) = before.filter(|pages| *pages > 0) {
            self.warn(&format!(
                "the disk takes long to store what it has taken of {}: about {} kB are left; what it cannot store of them will not be counted",
                self.path(),
                pages.saturating_mul(PAGE_KB)
            ));
        }
    }

    /// Closes the file for good, once it is stored as far as that can be known.
    pub(in crate::recording) fn finish(&mut self) {
        match std::mem::take(&mut self.hurries) {
            true => self.store(LOOKS_AT_CHANGE, false),
            false => self.store(LOOKS_AT_END, true),
        }
        self.close();
    }

    /// Waits for a file that ends while the next one begins soon.
    pub(super) fn store_before_change(&mut self) {
        self.store(LOOKS_AT_CHANGE, false);
    }
}
