//! Whether the disk stores what it has taken of a recording's file: asked once a second, and once more when the file ends. May block.

use super::{CHECK_EVERY, Open, RecordingFile};
use crate::recording::ledger::WriteCounts;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::writeback;
use crate::time::{Clock, Span};
use std::io;

/// How often it is looked whether a file that ends is stored. All changes of file of a drain together wait for this many looks; and for this many without any
/// progress the end of a recording at the end of a run: less than a stop waits for a disk.
const STORED_EVERY: Span = Span::from_millis(10);
const PAGE_KB: u64 = 4; // of most kernels
const LOOKS_AT_CHANGE: u32 = 20;
const LOOKS_AT_END: u32 = 200;

impl RecordingFile {
    /// Once a second: lets the disk begin to store what it has taken, and counts as lost what it has not stored. True: the next file
    /// must begin.
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

    /// The disk has not stored something that it had taken: what is not known to be stored is lost.
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

    /// Waits for the disk to have stored the file, for that many looks, or that many without progress, and counts as lost what it has not stored.
    fn store(&mut self, looks: u32, since_progress: bool) {
        let Some(Open { claim, length, .. }) = &self.open else { return };
        let mut asked = self.progress.returned(writeback::begin_and_ask(&claim.file, *length));
        let (mut left, mut before) = (looks, None);
        // All recordings that change their files in one drain wait this long together.
        let until = self.at.now + Span::from_nanos(STORED_EVERY.nanos() * i64::from(LOOKS_AT_CHANGE));
        while asked.is_ok() && left > 0 && (since_progress || KernelClock::monotonic().now() < until) {
            let unstored = writeback::unstored_pages(&claim.file, None);
            if unstored == Some(0) {
                before = None;
                asked = writeback::ask(&claim.file, *length);
                break;
            }
            // A kernel that does not say how far it is gets a tenth of the time.
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

    /// Closes it for good, once it is stored as far as can be known.
    pub(in crate::recording) fn finish(&mut self) {
        match std::mem::take(&mut self.hurries) {
            true => self.store(LOOKS_AT_CHANGE, false),
            false => self.store(LOOKS_AT_END, true),
        }
        self.close();
    }

    /// The file ends, and the next one begins soon.
    pub(super) fn store_before_change(&mut self) {
        self.store(LOOKS_AT_CHANGE, false);
    }
}
