//! The file that a recording is written to: opened, grown by whole pieces, finished and renamed, opened again when it has
//! vanished. May block; time is an argument.

use super::rotation;
use crate::config::RecordConfig;
use crate::time::{Instant, Span};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;
use tracing::{info, warn};

/// How often it is looked whether the file is still where it was, and how often something is tried again.
const LOOK_EVERY: Span = Span::from_seconds(1);

/// One moment on two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// On the monotonic clock.
    pub now: Instant,
    /// What to add to that for nanoseconds since 1970.
    pub to_utc: i128,
}

impl Moment {
    fn utc(self) -> i128 {
        self.now.nanos() + self.to_utc
    }
}

/// A recording's place on the disk.
#[derive(Debug)]
pub(super) struct Disk {
    limits: RecordConfig,
    continues: bool, // what is there, lines, is continued instead of put aside
    open: Option<Open>,
    looked: Option<Instant>,
    tried: Option<Instant>, // to open or to rename, in vain
    files: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    length: u64,
    began: Instant, // on the monotonic clock
    stamp: Stamp,
}

/// When the file began, in UTC.
#[derive(Clone, Copy, Debug)]
enum Stamp {
    /// Nothing is in it yet.
    Opened(i128),
    /// The first message's.
    Message(i128),
}

impl Disk {
    pub(super) fn new(limits: RecordConfig, continues: bool) -> Self {
        Self { limits, continues, open: None, looked: None, tried: None, files: 0 }
    }

    /// Files begun.
    pub(super) const fn files(&self) -> u64 {
        self.files
    }

    /// Goes by these limits from now on.
    pub(super) fn limit(&mut self, limits: RecordConfig) {
        self.limits = limits;
    }

    /// Whether the path can be written, and what stands there; the file is made if there is none.
    pub(super) fn probe(path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    /// Whether there is a file to write to.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Bytes in the file.
    pub(super) fn length(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.length)
    }

    /// Opens the file. What is there already is put aside or continued.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn open(&mut self, at: Moment) -> io::Result<()> {
        self.tried = Some(at.now);
        let mut file = Self::probe(&self.limits.path)?;
        let mut there = file.metadata()?;
        if there.len() > 0 && !self.continues {
            self.put_aside(born(&there).unwrap_or_else(|| at.utc()))?;
            file = Self::probe(&self.limits.path)?;
            there = file.metadata()?;
        }
        let (stamp, age) = match born(&there).filter(|_| there.len() > 0) {
            Some(born) => (Stamp::Message(born), Span::from_wide((at.utc() - born).max(0))),
            None => (Stamp::Opened(at.utc()), Span::ZERO),
        };
        self.open = Some(Open { file, length: there.len(), began: at.now - age, stamp });
        self.looked = Some(at.now);
        Ok(())
    }

    /// The file has all that belongs at its beginning.
    pub(super) fn begun(&mut self) {
        self.files += 1;
        self.tried = None;
    }

    /// Lets go of the file where it is no longer at its path: renamed, deleted, or its disk is no longer mounted. True: it
    /// did.
    pub(super) fn lost(&mut self, now: Instant) -> bool {
        let Some(open) = &self.open else { return false };
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return false;
        }
        self.looked = Some(now);
        let same = |a: &Metadata, b: &Metadata| a.dev() == b.dev() && a.ino() == b.ino();
        let there = open.file.metadata().and_then(|own| Ok(same(&own, &fs::metadata(&self.limits.path)?)));
        if there.unwrap_or(false) {
            return false;
        }
        warn!(path = self.shown(), "the recording is no longer where it was, and is begun anew");
        self.open = None;
        true
    }

    /// Whether the file begins with these bytes.
    pub(super) fn begins_with(&self, bytes: &[u8]) -> io::Result<bool> {
        let Some(open) = &self.open else { return Ok(false) };
        let mut found = vec![0; bytes.len()];
        match open.file.read_exact_at(&mut found, 0) {
            Ok(()) => Ok(found == bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the file has grown so old that the next one is to begin.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        let began = self.open.as_ref().map(|open| open.began);
        began.zip(self.limits.max_time).is_some_and(|(began, time)| now - began >= time) && self.may_try(now)
    }

    /// Whether a file of `bytes` would be too large.
    pub(super) fn is_full(&self, bytes: u64, now: Instant) -> bool {
        self.limits.max_size.is_some_and(|size| bytes > size) && self.may_try(now)
    }

    /// Whether it is time to try again what has failed.
    pub(super) fn may_try(&self, now: Instant) -> bool {
        self.tried.is_none_or(|tried| now - tried >= LOOK_EVERY)
    }

    /// Something has failed, and is to be tried again after a while.
    #[cfg(feature = "mcap")]
    pub(super) fn tried(&mut self, now: Instant) {
        self.tried = Some(now);
    }

    /// The first message in the file is of this time.
    pub(super) fn stamp(&mut self, utc: i128) {
        if let Some(Open { stamp: stamp @ Stamp::Opened(_), .. }) = &mut self.open {
            *stamp = Stamp::Message(utc);
        }
    }

    /// Writes behind what is there: all of `bytes`, or nothing.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Err(io::Error::other("it is not open")) };
        open.file.write_all_at(bytes, open.length).inspect_err(|_| {
            // A disk that does not even take bytes back is beyond help here. What is gone is looked for at once.
            let _ = open.file.set_len(open.length);
            self.looked = None;
        })?;
        open.length += bytes.len() as u64;
        Ok(())
    }

    /// Writes over what is there.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn patch(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.open.as_ref().map_or(Ok(()), |open| open.file.write_all_at(bytes, offset))
    }

    /// Goes by what others have done to the file: it was cut off. What is then left of a header of this length is cut off
    /// as well. True: something had changed.
    pub(super) fn measure(&mut self, header: u64) -> io::Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let before = std::mem::replace(&mut open.length, open.file.metadata()?.len());
        if open.length < header {
            open.file.set_len(0).inspect_err(|_| self.looked = None)?;
            open.length = 0;
        }
        Ok(open.length != before)
    }

    /// Ends the last line of a file that is continued, if it was cut off within one: nothing is to be glued to that.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        let Some(open) = self.open.as_ref().filter(|open| self.continues && open.length > 0) else { return Ok(()) };
        let mut last = [0];
        open.file.read_exact_at(&mut last, open.length - 1)?;
        if last == *b"\n" { Ok(()) } else { self.append(b"\n") }
    }

    /// Gives the file the name of a finished one, deletes those that are too many, and closes it.
    ///
    /// # Errors
    /// The system's reason, when it could not be renamed; then it stays open and is written on.
    pub(super) fn retire(&mut self, now: Instant) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let (Stamp::Opened(utc) | Stamp::Message(utc)) = open.stamp;
        self.tried = Some(now);
        self.put_aside(utc)?;
        (self.open, self.tried) = (None, None);
        Ok(())
    }

    /// Closes it.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// From now on its disk is full; false: there is no such disk here.
    #[cfg(test)]
    pub(super) fn fill_up(&mut self) -> bool {
        let full = OpenOptions::new().read(true).write(true).open("/dev/full");
        full.map(|full| self.open.as_mut().map(|open| open.file = full)).is_ok()
    }

    /// It no longer is.
    #[cfg(test)]
    pub(super) fn make_room(&mut self) {
        let file = Self::probe(&self.limits.path).unwrap();
        self.open.as_mut().unwrap().file = file;
    }

    fn put_aside(&self, utc: i128) -> io::Result<()> {
        let name = rotation::put_aside(&self.limits.path, utc)?;
        info!(path = self.shown(), finished = name.display().to_string(), "a file of the recording is finished");
        if let Some(keep) = self.limits.keep
            && let Err(error) = rotation::prune(&self.limits.path, keep, &name)
        {
            warn!(path = self.shown(), "old files of the recording cannot be deleted: {error}");
        }
        Ok(())
    }

    fn shown(&self) -> String {
        self.limits.path.display().to_string()
    }
}

/// When the file was made, or last changed where that is not known; in nanoseconds since 1970.
fn born(file: &Metadata) -> Option<i128> {
    let time = file.created().or_else(|_| file.modified()).ok()?;
    i128::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}
