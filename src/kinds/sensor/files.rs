//! The files of a sensor, held open: each is read once a tick, from its start, into memory that was set aside.
//!
//! Opening allocates and may block. Reading does not allocate; it blocks for as long as the file's driver takes.

use super::locator::{Lack, LineSelector, ValueLocator};
use crate::task::TickError;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How far into a file a number may stand.
pub(super) const LARGEST: usize = 64 * 1024;

/// What to do with a number, and where to put it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// Index of the column.
    pub(super) column: usize,
    pub(super) locator: ValueLocator,
    /// The value is `number * scale + offset`.
    pub(super) scale: f64,
    pub(super) offset: f64,
}

/// One file, and what is read from it.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    path: PathBuf,
    readings: Vec<Reading>,
    buffer: Box<[u8]>,
    filled: usize,
    ended: bool,
    may_be_replaced: bool,
}

/// Why a file cannot be used: at `line` or `field` of one of its readings, or as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    /// Index of the column that is to blame; `None`: all that come from this file.
    pub(super) column: Option<usize>,
    /// The key that is to blame; `path` for the file as a whole.
    pub(super) key: &'static str,
    pub(super) message: String,
}

impl OpenFile {
    /// Opens the file and reads it. With `strict` each number must be there already.
    pub(super) fn open(path: &Path, readings: Vec<Reading>, strict: bool) -> Result<Self, Unusable> {
        let unusable = |message| Unusable { column: None, key: "path", message };
        let shown = path.display();
        // Not to wait for the other end, should the path be a pipe or a device; close-on-exec is the default.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => "; hertzd's user needs to be allowed to read it",
                _ => "",
            };
            unusable(format!("cannot open {shown}: {error}{remedy}"))
        })?;
        let buffer = vec![0; LARGEST].into_boxed_slice();
        let may_be_replaced = may_be_replaced(&file, path);
        let mut open = Self { file, path: path.into(), readings, buffer, filled: 0, ended: false, may_be_replaced };
        open.test(strict)?;
        // Twice what was needed today, in whole pages. Reading into it once more is the test that it will do.
        let room = (2 * open.filled).next_multiple_of(4096).clamp(4096, LARGEST);
        open.buffer = vec![0; room].into_boxed_slice();
        open.test(strict)?;
        Ok(open)
    }

    /// Reads the file and puts its values into their columns. The first error is returned after all has been tried, and
    /// says whether only opening the file anew can help.
    pub(super) fn read(&mut self, values: &mut [f64]) -> Result<(), (TickError, bool)> {
        self.fill().map_err(|error| (TickError::from_io("cannot read the file", &error), is_gone(&error)))?;
        let mut first = Ok(());
        for reading in &self.readings {
            match (reading.locator.number(&self.buffer[..self.filled], self.ended), values.get_mut(reading.column)) {
                (Ok(number), Some(value)) => *value = number * reading.scale + reading.offset,
                (Ok(_), None) => {}
                (Err(lack), _) => first = first.and(Err((brief(lack), false))),
            }
        }
        first
    }

    /// Whether the path has another file by now, or none: this one has been deleted or replaced. One system call for a
    /// file outside of `/proc` and `/sys`, whose reads say so themselves, and none for one of those.
    pub(super) fn is_replaced(&self) -> bool {
        self.may_be_replaced && self.file.metadata().is_ok_and(|now| now.nlink() == 0)
    }

    /// Reads as much as is needed. The kernel may hand out a file in pieces; the piece that decides is the last one
    /// asked for.
    fn fill(&mut self) -> io::Result<()> {
        (self.filled, self.ended) = (0, false);
        while !self.ended && self.filled < self.buffer.len() && !self.is_decided() {
            match self.file.read_at(&mut self.buffer[self.filled..], self.filled as u64) {
                Ok(0) => self.ended = true,
                Ok(got) => self.filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_decided(&self) -> bool {
        self.readings.iter().all(|reading| reading.locator.is_decided(&self.buffer[..self.filled], self.ended))
    }

    fn test(&mut self, strict: bool) -> Result<(), Unusable> {
        self.fill().map_err(|error| Unusable {
            column: None,
            key: "path",
            message: format!("cannot read {}: {error}", self.path.display()),
        })?;
        for reading in self.readings.iter().filter(|_| strict) {
            if let Err(lack) = reading.locator.number(&self.buffer[..self.filled], self.ended) {
                let (key, message) = explained(lack, &self.path, &reading.locator);
                return Err(Unusable { column: Some(reading.column), key, message });
            }
        }
        Ok(())
    }
}

/// Whether a read's error says that this file will not come back: its device or process has gone.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH | libc::ESTALE | libc::EBADF))
}

/// Whether somebody may put another file in its locator without a read of this one failing.
fn may_be_replaced(file: &File, path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_default();
    let of_the_kernel = ["/proc", "/sys"].iter().any(|root| real.starts_with(root));
    // Some file systems count no links.
    !of_the_kernel && file.metadata().is_ok_and(|data| data.is_file() && data.nlink() > 0)
}

fn brief(lack: Lack<'_>) -> TickError {
    TickError::new(match lack {
        Lack::NoLine(_) => "the file no longer has the line",
        Lack::NoField(_) => "the line no longer has the field",
        Lack::NotANumber(_) => "what stands in the field is not a number",
        Lack::TooFar => "the file has grown: the field is no longer where it can be read",
    })
}

/// The key to blame, and why.
fn explained(lack: Lack<'_>, path: &Path, locator: &ValueLocator) -> (&'static str, String) {
    let (path, field) = (path.display(), locator.field);
    let line = match &locator.line {
        LineSelector::Number(number) => format!("line {number}"),
        LineSelector::Text(text) => format!("the line that starts with {text:?}"),
    };
    match lack {
        Lack::NoLine(count) => ("line", format!("{path} does not have {line}; it has {count} lines")),
        Lack::NoField(found) => ("field", format!("{line} of {path} has no field {field}: {}", quoted(found))),
        Lack::NotANumber(found) => {
            ("field", format!("field {field} in {line} of {path} is not a number: {}", quoted(found)))
        }
        Lack::TooFar => ("line", format!("{line} of {path} is not in the first {LARGEST} bytes")),
    }
}

/// What was found, short enough for one line of a log.
fn quoted(found: &[u8]) -> String {
    let text = String::from_utf8_lossy(found);
    let text = text.trim();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
