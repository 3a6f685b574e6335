//! What other programs may have done to a recording's file: moved, deleted or replaced it, cut it off, or changed its content.

use super::{CHECK_EVERY, Open, RecordingFile};
use crate::recording::layout::Header;
use crate::recording::ledger::WriteCounts;
use crate::recording::lines;
use std::io;
use std::os::unix::fs::MetadataExt;
use tracing::warn;

impl RecordingFile {
    /// Whether another program has moved, deleted or replaced the file, or unmounted its disk. A deleted file is noticed immediately; the
    /// path is checked once a second.
    pub(in crate::recording) fn is_gone(&mut self) -> bool {
        let (now, deleted) = (self.at.now, self.is_deleted());
        let Some(open) = &mut self.open else { return false };
        if !deleted && self.checked.is_some_and(|checked| now - checked < CHECK_EVERY) {
            return false;
        }
        self.checked = Some(now);
        if !deleted && open.claim.is_there() {
            open.claim.ask_again();
            return false;
        }
        let gone = if deleted { self.ledger.cut(0, |_| 0) } else { WriteCounts::default() };
        if !deleted {
            self.store_before_change();
        }
        let gone = format!("the {gone} written to it are gone");
        let (what, rows) = match (deleted, self.path.exists()) {
            (true, true) => ("replaced", gone.as_str()),
            (true, false) => ("deleted", gone.as_str()),
            (false, _) => ("moved", "what was written so far went with it"),
        };
        self.gone = Some(format!("another program has {what} the recording {}; {rows}", self.path()));
        true
    }

    /// Whether the file has no name left, so that anything written to it is lost.
    pub(in crate::recording) fn is_deleted(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| self.progress.returned(open.claim.file.metadata()).is_ok_and(|own| own.nlink() == 0))
    }

    /// Whether another program has made the file shorter.
    #[cfg(feature = "mcap")]
    pub(in crate::recording) fn is_cut_off(&self) -> bool {
        let Some(Open { claim, length, .. }) = &self.open else { return false };
        claim.file.metadata().is_ok_and(|own| own.is_file() && own.len() < *length)
    }

    /// Counts as lost what was written beyond the current end of the file, after another program cut it off: in units of this many bytes,
    /// or in lines. Returns those counts.
    pub(in crate::recording) fn lose_cut_off(&mut self, unit: Option<u64>) -> WriteCounts {
        let Some(Open { claim, length, .. }) = &self.open else { return WriteCounts::default() };
        if !claim.file.metadata().is_ok_and(|own| own.is_file()) {
            return WriteCounts::default();
        }
        self.ledger.cut(*length, |from| match unit {
            Some(unit) => (*length - from) / unit,
            None => self.progress.returned(lines::count(&claim.file, from, *length)).unwrap_or_default(),
        })
    }

    /// The same for a file whose units cannot be told apart: a write counts as lost if its end is gone.
    #[cfg(feature = "mcap")]
    pub(in crate::recording) fn lose_partial_writes(&mut self) -> WriteCounts {
        let Some(Open { claim, .. }) = &self.open else { return WriteCounts::default() };
        let length = claim.file.metadata().map_or(0, |found| found.len());
        self.ledger.cut(length, |_| 0)
    }

    /// Whether another program has changed the file's content: its length differs, and it lacks this header.
    pub(in crate::recording) fn has_other_content(&self, header: &Header) -> io::Result<bool> {
        let Some(Open { claim, length, .. }) = &self.open else { return Ok(false) };
        let found = self.progress.returned(claim.file.metadata())?.len();
        Ok(found != *length
            && !self.progress.returned(lines::begins_like(&claim.file, found, &header.bytes, &header.sizes()))?)
    }

    /// Adopts the length that another program gave the file, minus a partial header of this length or a partial last `unit` of bytes.
    /// Returns the previous length if it has changed.
    pub(in crate::recording) fn measure(&mut self, header: u64, unit: u64) -> io::Result<Option<u64>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let found = self.progress.returned(open.claim.file.metadata())?.len();
        let whole = found.checked_sub(header).map_or(0, |data| header + data / unit * unit);
        if whole != found {
            open.claim.file.set_len(whole).inspect_err(|_| self.checked = None)?;
        }
        self.storing.shorten(whole);
        let before = std::mem::replace(&mut open.length, whole);
        Ok((before != whole).then_some(before))
    }

    /// Drops the last line of a file with this header if a crash or another program cut it off.
    pub(in crate::recording) fn drop_partial_line(&mut self, header: &[u8]) -> io::Result<()> {
        let whole = self.last_line_end(header)?;
        let Some(open) = &mut self.open else { return Ok(()) };
        let bytes = open.length.saturating_sub(whole);
        if bytes > 0 {
            open.claim.file.set_len(whole)?;
            open.length = whole;
            let text = "the last line of the recording was cut off and is dropped";
            let (task, path) = (self.tasks(), self.path());
            warn!(task, path, bytes, "{task}: {text}: {bytes} bytes of {path}");
        }
        Ok(())
    }
}
