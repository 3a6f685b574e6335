//! The files of a sensor, held open. Each is read once a tick, from its start, into preallocated memory.
//!
//! Opening allocates and may block. Reading does not allocate, but blocks for as long as the file's driver takes.

use super::extractor::{ExtractError, Extractor};
use super::follow::{self, Followed, State};
use super::hwmon;
use super::locator::{FieldSelector, LineSelector, ValueLocator};
use super::number::Number;
use crate::io::Keeper;
use crate::task::TickError;
use crate::time::Span;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tracing::debug;

/// The largest distance of a number from the start of its file, in bytes.
pub(super) const LARGEST: usize = 64 * 1024;

const PAGE: usize = 4_096;

/// All files of a sensor, and the memory into which they are read one after the other.
#[derive(Debug)]
pub(super) struct Files {
    files: Vec<OpenFile>,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    followed: Option<Followed>,
    fault: Option<Fault>,
    columns: Vec<usize>,
    extractor: Extractor,
    first_read: usize, // bytes requested first; the rest only if these do not decide all values
}

/// The file in which the chip reports whether the value of another file can be trusted.
#[derive(Debug)]
struct Fault {
    file: File,
    broken: TickError, // the error if it cannot
}

/// The values wanted from one file.
pub(super) struct WantedFile<'a> {
    pub(super) path: PathBuf,
    pub(super) fault: Option<PathBuf>, // tells whether the values can be trusted, if this file exists
    pub(super) values: Vec<(usize, &'a ValueLocator)>, // per value: the index of its column, and its location
}

/// The reason why a file cannot be used, at `line` or `field` of one of its values, or as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) column: Option<usize>, // index of the column at fault
    pub(super) key: &'static str,     // the key at fault; `path` for the file as a whole
    pub(super) message: String,
}

impl Files {
    /// Opens the files and reads each. With `strict` every number must already be present.
    pub(super) fn open(
        keeper: &Keeper,
        task: &str,
        wanted: &[WantedFile<'_>],
        max_age: Option<Span>,
        strict: bool,
    ) -> Result<Self, Unusable> {
        // Filled with ones, so that every page is touched here.
        let mut open = Self { files: Vec::with_capacity(wanted.len()), buffer: vec![1; LARGEST].into() };
        let mut followers = Vec::new();
        for WantedFile { path, fault, values } in wanted {
            let unusable = |doing, error| Unusable {
                column: values.first().map(|(column, _)| *column),
                key: "path",
                message: io_error(doing, path, &error),
            };
            let file = follow::open(path).map_err(|error| unusable("open", error))?;
            debug!("opened {} ({} values)", path.display(), values.len());
            let (followed, follower) =
                follow::follow(keeper, task, &file, path, max_age).map_err(|error| unusable("open", error))?.unzip();
            followers.extend(follower);
            let fault = fault.as_deref().map_or(Ok(None), Fault::open);
            let fault = fault.map_err(|error| unusable("open the file _fault beside", error))?;
            let extractor = Extractor::new(values.iter().map(|(_, locator)| *locator));
            let columns = values.iter().map(|(column, _)| *column).collect();
            let mut file = OpenFile { file, followed, fault, columns, extractor, first_read: PAGE };
            let (filled, ended) = file.fill(&mut open.buffer).map_err(|error| unusable("read", error))?;
            for ((column, locator), result) in values.iter().zip(file.extractor.results(ended)).filter(|_| strict) {
                if let Err(error) = result {
                    let (key, message) = explained(&error, path, locator, &open.buffer[..filled]);
                    return Err(Unusable { column: Some(*column), key, message });
                }
            }
            open.files.push(file);
        }
        follow::start(keeper, followers).map_err(|error| Unusable {
            column: None,
            key: "path",
            message: format!("cannot start the thread that notices replaced files: {error}"),
        })?;
        Ok(open)
    }

    /// Reads all files, and calls `found` with each number and the index of its column. Tries all files, then returns the first error and
    /// whether only reopening can help.
    pub(super) fn read(&mut self, mut found: impl FnMut(usize, Number)) -> Result<(), (TickError, bool)> {
        let (mut first, mut lost) = (Ok(()), false);
        for file in &mut self.files {
            if let Err((error, is_gone)) = file.read(&mut self.buffer, &mut found) {
                first = first.and(Err(error));
                lost |= is_gone;
            }
        }
        first.map_err(|error| (error, lost))
    }
}

impl OpenFile {
    fn read(&mut self, buffer: &mut [u8], mut found: impl FnMut(usize, Number)) -> Result<(), (TickError, bool)> {
        match self.followed.as_mut().map_or(State::There, |followed| followed.update(&mut self.file)) {
            State::There => {}
            State::Deleted => return Err((DELETED, true)),
            State::TooOld => return Err((TOO_OLD, false)),
        }
        let filled = self.fill(buffer);
        // Checked after the read, so that a sensor that breaks between the two is noticed.
        self.fault.as_ref().map_or(Ok(()), Fault::look)?;
        let (_, ended) =
            filled.map_err(|error| (TickError::from_io("cannot read the file", &error), is_gone(&error)))?;
        let mut first = Ok(());
        for (column, result) in self.columns.iter().zip(self.extractor.results(ended)) {
            match result {
                Ok(number) => found(*column, number),
                Err(error) => first = first.and(Err((brief(&error), false))),
            }
        }
        first
    }

    /// Reads as much as is needed. Returns the number of bytes, and whether that is the whole file. The kernel may return a file in pieces.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        let (mut filled, mut ended, mut end) = (0, false, self.first_read);
        self.extractor.begin();
        while !ended && filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..end], filled as u64) {
                Ok(got) => (filled, ended) = (filled + got, got == 0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.extractor.scan(&buffer[..filled], ended) {
                break;
            }
            end = buffer.len();
        }
        // Room for twice what was needed, so that one read is enough next time.
        self.first_read = self.first_read.max((2 * filled).next_multiple_of(PAGE)).min(buffer.len());
        Ok((filled, ended))
    }
}

impl Fault {
    /// `None`: the file does not exist.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        match follow::open(path) {
            Ok(file) => Ok(Some(Self { file, broken: hwmon::broken(path) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks the file. An error comes with a flag that says whether only reopening can help.
    fn look(&self) -> Result<(), (TickError, bool)> {
        let mut text = [0; 16];
        loop {
            return match self.file.read_at(&mut text, 0) {
                Ok(length) if text[..length].trim_ascii() == b"0" => Ok(()),
                Ok(_) => Err((self.broken, false)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err((TickError::from_io(UNKNOWN, &error), is_gone(&error))),
            };
        }
    }
}

const UNKNOWN: &str = "cannot read the file _fault beside the value's";

const DELETED: TickError = TickError::new("the file was deleted");

const TOO_OLD: TickError = TickError::new(
    "the file was not written for longer than max-file-age, so its value is not used: see whether the program that writes it still does; \
     for a file that a person edits write max-file-age = \"off\"",
);

/// Whether a read error means that this file will not come back, because its device or process is gone.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH | libc::ESTALE | libc::EBADF))
}

fn io_error(doing: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; hertzd's user needs permission to read it",
        _ => "",
    };
    format!("cannot {doing} {}: {error}{remedy}", path.display())
}

fn brief(error: &ExtractError) -> TickError {
    TickError::new(match error {
        ExtractError::NoLine(_) => "the file no longer has the line",
        ExtractError::NoField(_) => "the line no longer has the field",
        ExtractError::NotANumber(_) => "the field is not a number",
        ExtractError::TooFar => "the line is no longer in the first 64 KiB of the file",
    })
}

/// The key at fault, and the reason.
fn explained(error: &ExtractError, path: &Path, locator: &ValueLocator, data: &[u8]) -> (&'static str, String) {
    let path = path.display();
    let field = match &locator.field {
        FieldSelector::Number(number) => format!("field {number}"),
        FieldSelector::Name(name) => format!("field \"{name}=\""),
    };
    let line = match &locator.line {
        LineSelector::Number(number) => format!("line {number}"),
        LineSelector::Prefix(text) => format!("the line that starts with {text:?}"),
    };
    let quoted = |range: &std::ops::Range<usize>| quoted(data.get(range.clone()).unwrap_or_default());
    match error {
        ExtractError::NoLine(count) => ("line", format!("{path} does not have {line}; it has {count} lines")),
        ExtractError::NoField(found) => ("field", format!("{line} of {path} has no {field}: {}", quoted(found))),
        ExtractError::NotANumber(found) => {
            ("field", format!("{field} in {line} of {path} is not a number: {}", quoted(found)))
        }
        ExtractError::TooFar => ("line", format!("{line} of {path} is not in the first {LARGEST} bytes")),
    }
}

/// A quote of the text found, short enough for one line of a log.
fn quoted(found: &[u8]) -> String {
    let text = String::from_utf8_lossy(found);
    let text = text.trim();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
