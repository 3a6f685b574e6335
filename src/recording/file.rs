//! The file that a recording is written to: grown by whole pieces, finished and renamed, opened again when another program
//! has moved or deleted it; and what was written to it and lost. May block; the time is [`RecordingFile::at`].

mod others;
mod store;

use super::claim::{Claim, FileId};
use super::content::Content;
use super::ledger::{Ledger, WriteCounts};
use super::progress::Progress;
use super::storing::Storing;
use super::{lines, rotation};
use crate::config::RecordConfig;
use crate::sys::entry::Entry;
use crate::time::{Instant, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;
use tracing::{debug, info, warn};

/// How often the path is checked, and how often something that failed is tried again.
const CHECK_EVERY: Span = Span::from_seconds(1);

/// Bytes that are written at a time, so that a slow disk shows its progress.
const PIECE: usize = 64 << 10;

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub now: Instant, // on the monotonic clock
    pub to_utc: i128, // what to add to that for nanoseconds since 1970
}

impl Moment {
    pub(super) fn utc(self) -> i128 {
        self.now.nanos() + self.to_utc
    }
}

/// The file that a recording has open now, for those who must not wait for its writer.
pub(super) type Current = Arc<Mutex<Option<FileId>>>;

/// The file of a recording, with its limits.
#[derive(Debug)]
pub(super) struct RecordingFile {
    pub(super) ledger: Ledger,
    path: PathBuf, // where the path of the configuration leads
    limits: RecordConfig,
    tasks: BTreeMap<u32, String>, // names
    continued: bool,              // lines: what exists is continued instead of put aside
    claim: Option<Claim>,         // locked and not yet open
    open: Option<Open>,
    pub(super) current: Current,
    storing: Storing,
    pub(super) at: Moment, // of the latest drain
    checked: Option<Instant>,
    asked: Option<Instant>,            // what the disk has stored
    pub(super) hurries: bool,          // when it is finished, other recordings continue
    pub(super) tried: Option<Instant>, // to open or to rename, in vain
    named: i128,                       // the latest time, in UTC, that a finished file was named after
    finished: Vec<OsString>,           // of those to keep, the ones that were finished here, the oldest first
    others: usize,                     // found beside it with the name of a finished one that it does not delete
    files: u64,
    failure: Option<io::Error>, // the first one since the last flush
    gone: Option<String>,       // what another program did to the file before, until the next one begins
    pub(super) progress: Arc<Progress>,
}

#[derive(Debug)]
struct Open {
    claim: Claim,
    length: u64,
    began: Instant,      // on the monotonic clock
    opened: i128,        // in UTC, as is the next
    first: Option<i128>, // message
}

impl RecordingFile {
    /// The file at `path`, which `claim` has locked. Nothing in it changes before [`open`](Self::open).
    pub(super) fn new(path: PathBuf, claim: Claim, limits: RecordConfig, continued: bool) -> Self {
        let current = Arc::new(Mutex::new(claim.file.metadata().ok().map(|own| FileId::of(&own))));
        Self {
            ledger: Ledger::default(),
            path,
            limits,
            tasks: BTreeMap::new(),
            continued,
            claim: Some(claim),
            open: None,
            current,
            storing: Storing::default(),
            at: Moment::default(),
            checked: None,
            asked: None,
            hurries: false,
            tried: None,
            named: i128::MIN,
            finished: Vec::new(),
            others: 0,
            files: 0,
            failure: None,
            gone: None,
            progress: Arc::default(),
        }
    }

    /// A task is recorded here. These limits hold from now on.
    pub(super) fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.limits = limits.clone();
        self.tasks.insert(id, content.task.clone());
    }

    pub(super) fn leave(&mut self, id: u32) {
        self.tasks.remove(&id);
        self.ledger.forget(id);
    }

    /// What was written of a task and what was lost.
    pub(super) fn counts(&self, id: u32) -> WriteCounts {
        WriteCounts { files: self.files, ..self.ledger.of(id) }
    }

    /// Keeps the error for the next [`flush`](Self::flush), unless one is kept already.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failure.get_or_insert(error);
    }

    /// Whether what it was given is known to be in good hands: `wrote` says that something was written.
    ///
    /// # Errors
    /// What has failed since the last call.
    pub(super) fn flush(&mut self, wrote: bool) -> io::Result<bool> {
        self.failure.take().map_or(Ok(wrote && !self.storing.refuses()), Err)
    }

    /// Whether there is a file to write to.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Bytes written to the file, and found there at first.
    pub(super) fn length(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.length)
    }

    /// Opens the file. One that exists is put aside or continued.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let at = self.at;
        self.tried = Some(at.now);
        let mut claim = match self.claim.take().filter(Claim::is_there) {
            Some(claim) => claim,
            None => Claim::take(&self.path)?,
        };
        let mut found = claim.file.metadata()?;
        let is_zeros = self.continued && self.progress.returned(lines::is_zeros(&claim.file))?;
        if is_zeros {
            self.warn(&format!(
                "the recording {} holds {} zeros and nothing else, as a power cut can leave it; it is put aside as it is, and a new file begins",
                self.path(),
                found.len()
            ));
        }
        if is_zeros || found.len() > 0 && !self.continued {
            claim = self.put_aside(&claim.entry, born(&found).unwrap_or_else(|| at.utc()))?;
            found = claim.file.metadata()?;
        }
        let first = born(&found).filter(|_| found.len() > 0);
        let (length, began) = (found.len(), at.now - Span::from_wide((at.utc() - first.unwrap_or(at.utc())).max(0)));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(FileId::of(&found));
        self.open = Some(Open { claim, length, began, opened: at.utc(), first });
        self.checked = Some(at.now);
        match length {
            0 => debug!("{}: the recording begins", self.path()),
            _ => debug!("{}: the recording continues at byte {length}", self.path()),
        }
        Ok(())
    }

    /// The file has all that belongs at its beginning.
    pub(super) fn begun(&mut self) {
        self.files += 1;
        self.tried = None;
        self.ledger.begin(self.length());
        self.storing.begin(self.length());
        self.open.iter_mut().for_each(|open| open.claim.keep());
        if let Some(gone) = self.gone.take() {
            self.warn(&format!("{gone}; a new file begins there"));
        }
    }

    fn claim(&self) -> Option<&Claim> {
        self.open.as_ref().map(|open| &open.claim).or(self.claim.as_ref())
    }

    /// Where the last whole line of a file with this header ends.
    ///
    /// # Errors
    /// The file holds something else; or the system's reason.
    pub(super) fn last_line_end(&self, header: &[u8]) -> io::Result<u64> {
        self.claim().map_or(Ok(0), |claim| lines::last_line_end(&claim.file, header))
    }

    /// Whether the file is so old that the next one must begin.
    pub(super) fn is_old(&self) -> bool {
        let began = self.open.as_ref().map(|open| open.began);
        began.zip(self.limits.max_time).is_some_and(|(began, time)| self.at.now - began >= time) && self.may_try()
    }

    /// Whether a file of `bytes` would be too large, and another one can begin.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        self.limits.max_size.is_some_and(|size| bytes > size) && self.may_try()
    }

    /// Whether it is time to try again what has failed.
    pub(super) fn may_try(&self) -> bool {
        self.tried.is_none_or(|tried| self.at.now - tried >= CHECK_EVERY)
    }

    /// The first message in the file is of this time.
    pub(super) fn stamp(&mut self, utc: i128) {
        if let Some(open) = &mut self.open {
            open.first.get_or_insert(utc);
        }
    }

    /// Appends all of `bytes`, or nothing.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Err(io::Error::other("it is not open")) };
        let file = &open.claim.file;
        let mut pieces = (open.length..).step_by(PIECE).zip(bytes.chunks(PIECE));
        pieces.try_for_each(|(offset, piece)| self.progress.returned(file.write_all_at(piece, offset))).inspect_err(
            |_| {
                // Nothing helps where a disk does not even take bytes back. A file that is gone is noticed at once.
                let _ = file.set_len(open.length);
                self.checked = None;
            },
        )?;
        open.length += bytes.len() as u64;
        Ok(())
    }

    /// Writes over what is there.
    pub(super) fn patch(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.open.as_ref().map_or(Ok(()), |open| self.progress.returned(open.claim.file.write_all_at(bytes, offset)))
    }

    /// Gives the file the name of a finished one, deletes the oldest if there are too many, and closes it. The next one is
    /// locked before anyone else can have it.
    ///
    /// # Errors
    /// The system's reason, when it could not be renamed; then it stays open and can be written on. Or the reason why the
    /// next one cannot be made.
    pub(super) fn retire(&mut self) -> io::Result<()> {
        self.store_before_change();
        let Some(open) = &self.open else { return Ok(()) };
        // A tick may come later than what was recorded after it: the names are in the order of the files all the same, unless UTC
        // was set back meanwhile.
        let follows = Some(self.named).filter(|named| *named <= open.opened);
        let utc = open.first.unwrap_or(open.opened).max(follows.unwrap_or(i128::MIN));
        if utc < self.named {
            self.warn_of_clock(Span::from_wide(self.named - utc));
        }
        self.named = utc;
        self.tried = Some(self.at.now);
        self.claim = match open.claim.file.metadata()?.len() {
            0 => self.open.take().map(|open| open.claim), // emptied by another program: the next one is this one
            _ => Some(self.put_aside(&open.claim.entry.clone(), utc)?),
        };
        (self.open, self.tried) = (None, None);
        Ok(())
    }

    /// Closes it, for this reason.
    pub(super) fn give_up(&mut self, error: io::Error) {
        self.close();
        if let Some(gone) = self.gone.take() {
            self.warn(&format!("{gone}; no new file can begin there yet: {error}"));
        }
        self.fail(error);
    }

    pub(super) fn close(&mut self) {
        (self.open, self.claim) = (None, None);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Gives the file at `entry` the name of a finished one, and claims the next.
    fn put_aside(&mut self, entry: &Entry, utc: i128) -> io::Result<Claim> {
        let (name, next) = self.progress.returned(rotation::put_aside(entry, utc))?;
        let finished = entry.beside(&name).path().display().to_string();
        info!(path = self.path(), finished, "a file of the recording is finished");
        if let Some(keep) = self.limits.keep {
            self.finished.push(name);
            self.finished.drain(..self.finished.len().saturating_sub(keep));
            match rotation::prune(entry, self.limits.format, keep, &self.finished) {
                Err(error) => {
                    self.warn(&format!("old files of the recording {} cannot be deleted: {error}", self.path()));
                }
                Ok(others) if others > self.others => self.warn_of_others(others),
                Ok(others) => self.others = others,
            }
        }
        Ok(next)
    }

    /// Says once of files that have the name of a finished one, and are not to be deleted here.
    fn warn_of_others(&mut self, others: usize) {
        self.others = others;
        self.warn(&format!(
            "record-keep leaves {others} files beside {} alone that are named as finished ones: they belong to another user, have a second \
             name, or hold something else; delete them yourself if they are not needed",
            self.path()
        ));
    }

    fn warn_of_clock(&self, back: Span) {
        let order = match self.limits.keep {
            Some(_) => "; record-keep uses the order in which they were finished",
            None => "",
        };
        let text = format!(
            "the system clock was set back: the name of the file of {} that is finished now is {back} before the last one's{order}",
            self.path()
        );
        self.warn(&text);
    }

    pub(super) fn warn(&self, text: &str) {
        let (task, path) = (self.tasks(), self.path());
        warn!(task, path, "{task}: {text}");
    }

    /// The names of its tasks. During a reload the old one and the new one may have the same.
    fn tasks(&self) -> String {
        let names: BTreeSet<_> = self.tasks.values().map(String::as_str).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// As the task's section has it.
    pub(super) fn path(&self) -> String {
        self.limits.path.display().to_string()
    }

    /// From now on its disk is full.
    #[cfg(test)]
    pub(super) fn fill_up(&mut self) {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full");
        self.open.as_mut().unwrap().claim.file = full.unwrap();
    }

    /// It no longer is.
    #[cfg(all(test, feature = "mcap"))]
    pub(super) fn make_room(&mut self) {
        let mut claim = Claim::take(&self.path).unwrap();
        claim.keep();
        self.open.as_mut().unwrap().claim = claim;
    }
}

/// When the file was made, or last changed where that is not known; in nanoseconds since 1970.
fn born(file: &Metadata) -> Option<i128> {
    let time = file.created().or_else(|_| file.modified()).ok()?;
    i128::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}
