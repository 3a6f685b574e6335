//! The file that a recording is written to. It grows by whole pieces, is finished and renamed, and is reopened after another program has
//! moved or deleted it. Also counts what was written and lost. May block; the time is [`RecordingFile::at`].

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

/// How often the path is checked, and how often a failed operation is retried.
const CHECK_EVERY: Span = Span::from_seconds(1);

/// Bytes written at a time, so that even a slow disk shows progress.
const PIECE: usize = 64 << 10;

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub now: Instant, // on the monotonic clock
    pub to_utc: i128, // add this to `now` to get nanoseconds since 1970
}

impl Moment {
    pub(super) fn utc(self) -> i128 {
        self.now.nanos() + self.to_utc
    }
}

/// The file that a recording currently has open, for readers that must not wait for its writer.
pub(super) type Current = Arc<Mutex<Option<FileId>>>;

/// A recording's file, with its limits.
#[derive(Debug)]
pub(super) struct RecordingFile {
    pub(super) ledger: Ledger,
    path: PathBuf, // where the configured path leads
    limits: RecordConfig,
    tasks: BTreeMap<u32, String>, // names
    continued: bool,              // a file of lines: an existing file is continued instead of put aside
    claim: Option<Claim>,         // locked but not opened yet
    open: Option<Open>,
    pub(super) current: Current,
    storing: Storing,
    pub(super) at: Moment, // of the most recent drain
    checked: Option<Instant>,
    asked: Option<Instant>,            // when the disk was last asked what it has stored
    pub(super) hurries: bool,          // other recordings continue when this one is finished
    pub(super) tried: Option<Instant>, // when opening, renaming or writing last failed
    named: i128,                       // the newest time, in UTC, used in a finished file's name
    finished: Vec<OsString>,           // files finished here that are to be kept, oldest first
    others: usize,                     // files named like finished ones that this recording does not delete
    files: u64,
    failure: Option<io::Error>, // the first failure since the last flush
    gone: Option<String>,       // what another program did to the previous file, until the next one begins
    pub(super) progress: Arc<Progress>,
}

#[derive(Debug)]
struct Open {
    claim: Claim,
    length: u64,
    began: Instant,      // on the monotonic clock
    opened: i128,        // in UTC, as `first`
    first: Option<i128>, // time of the first message
}

impl RecordingFile {
    /// The file at `path`, which `claim` has locked. It is not changed before [`open`](Self::open).
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

    /// Adds a task that is recorded here. These limits apply from now on.
    pub(super) fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.limits = limits.clone();
        self.tasks.insert(id, content.task.clone());
    }

    pub(super) fn leave(&mut self, id: u32) {
        self.tasks.remove(&id);
        self.ledger.forget(id);
    }

    /// What was written of a task, and what was lost.
    pub(super) fn counts(&self, id: u32) -> WriteCounts {
        WriteCounts { files: self.files, ..self.ledger.of(id) }
    }

    /// Keeps the error for the next [`flush`](Self::flush), unless one is kept already.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failure.get_or_insert(error);
    }

    /// Whether something was written (`wrote`), to a disk that is not known to fail to store data.
    ///
    /// # Errors
    /// The first failure since the last call.
    pub(super) fn flush(&mut self, wrote: bool) -> io::Result<bool> {
        self.failure.take().map_or(Ok(wrote && !self.storing.refuses()), Err)
    }

    /// Whether there is a file to write to.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The size of the file: bytes found there at first, and bytes written.
    pub(super) fn length(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.length)
    }

    /// Opens the file. An existing file is continued or put aside.
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

    /// Completes the start of a file, after the file has everything that belongs at its beginning.
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

    /// Whether the file is too old, so the next one must begin.
    pub(super) fn is_old(&self) -> bool {
        let began = self.open.as_ref().map(|open| open.began);
        began.zip(self.limits.max_time).is_some_and(|(began, time)| self.at.now - began >= time) && self.may_try()
    }

    /// Whether a file of `bytes` would be too large, and another one can begin.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        self.limits.max_size.is_some_and(|size| bytes > size) && self.may_try()
    }

    /// Whether it is time to retry after a failure.
    pub(super) fn may_try(&self) -> bool {
        self.tried.is_none_or(|tried| self.at.now - tried >= CHECK_EVERY)
    }

    /// Sets the time of the first message in the file, unless it is set.
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
                // If the disk refuses even to truncate the file, nothing helps. A file that is gone is noticed immediately.
                let _ = file.set_len(open.length);
                self.checked = None;
            },
        )?;
        open.length += bytes.len() as u64;
        Ok(())
    }

    /// Overwrites existing bytes.
    pub(super) fn patch(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.open.as_ref().map_or(Ok(()), |open| self.progress.returned(open.claim.file.write_all_at(bytes, offset)))
    }

    /// Renames the file to the name of a finished one, deletes the oldest finished files if there are too many, and closes the file. The
    /// next file is locked before anyone else can take the path.
    ///
    /// # Errors
    /// The system's reason if the file could not be renamed; it then stays open and writable. Or the reason why the next file cannot be
    /// created.
    pub(super) fn retire(&mut self) -> io::Result<()> {
        self.store_before_change();
        let Some(open) = &self.open else { return Ok(()) };
        // A tick may come later than what was recorded after it. The names still follow the order of the files, unless UTC was set back
        // meanwhile.
        let follows = Some(self.named).filter(|named| *named <= open.opened);
        let utc = open.first.unwrap_or(open.opened).max(follows.unwrap_or(i128::MIN));
        if utc < self.named {
            self.warn_of_clock(Span::from_wide(self.named - utc));
        }
        self.named = utc;
        self.tried = Some(self.at.now);
        self.claim = match open.claim.file.metadata()?.len() {
            0 => self.open.take().map(|open| open.claim), // emptied by another program: reuse it as the next file
            _ => Some(self.put_aside(&open.claim.entry.clone(), utc)?),
        };
        (self.open, self.tried) = (None, None);
        Ok(())
    }

    /// Closes the file, for this reason.
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

    /// Gives the file at `entry` the name of a finished one, and claims the next file.
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

    /// Warns once about files that are named like finished ones but are not deleted here.
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

    /// The names of its tasks. During a reload, the old and the new task may have the same name.
    fn tasks(&self) -> String {
        let names: BTreeSet<_> = self.tasks.values().map(String::as_str).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The path as written in the task's section.
    pub(super) fn path(&self) -> String {
        self.limits.path.display().to_string()
    }

    /// Makes the disk full from now on.
    #[cfg(test)]
    pub(super) fn fill_up(&mut self) {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full");
        self.open.as_mut().unwrap().claim.file = full.unwrap();
    }

    /// Ends the effect of `fill_up`.
    #[cfg(all(test, feature = "mcap"))]
    pub(super) fn make_room(&mut self) {
        let mut claim = Claim::take(&self.path).unwrap();
        claim.keep();
        self.open.as_mut().unwrap().claim = claim;
    }
}

/// When the file was created, or last modified if that is unknown; in nanoseconds since 1970.
fn born(file: &Metadata) -> Option<i128> {
    let time = file.created().or_else(|_| file.modified()).ok()?;
    i128::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}
