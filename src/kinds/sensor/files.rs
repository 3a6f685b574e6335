//! The files of a sensor, held open. Each is read once a tick, from its start, into preallocated memory.
//!
//! Opening allocates and may block. Reading does not allocate, but blocks for as long as the file's driver takes.

use super::extractor::{self, ExtractError, Extractor};
use super::follow::{self, Followed, State};
use super::hwmon;
use super::locator::{FieldSelector, LineSelector, ValueLocator};
use super::number::Number;
use super::own_file;
use crate::channels::NONE;
use crate::io::Keeper;
use crate::kinds::device::Reconnecting;
use crate::site::{OpenDevice, Refusal};
use crate::task::{Reason, TickError};
use crate::time::Span;
use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tracing::{debug, warn};

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
    held: Held,
    columns: Vec<usize>,
    never_read: bool, // it could not be read at the start, nor since
    is_gone: bool,    // the last read said so
    reader: Reader,
    texts: FileTexts,
}

/// The texts of a file's errors, with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileTexts {
    pub(super) unread: &'static str,
    pub(super) absent: &'static str,
    pub(super) garbled: [&'static str; extractor::FAULTS.len()],
}

#[derive(Debug)]
enum Held {
    Followed(Handle, Followed),
    /// Of the kernel, beside other files. Another thread opens it again.
    Own(Reconnecting<Handle>),
    /// Of the kernel. It is opened again with its task.
    Only(Handle),
}

/// An open file.
#[derive(Debug)]
struct Handle {
    file: File,
    fault: Option<Fault>,
}

impl OpenDevice for Handle {}

/// How to read a file.
#[derive(Debug)]
struct Reader {
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
    pub(super) texts: FileTexts,
    pub(super) of_a_device: bool, // it is in the folder of a device that was found by name
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

/// When files are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// At the start: every number must be there, but for what may be read a moment later.
    Strict,
    /// At the start, if the task may wait.
    First,
    /// After a loss.
    Again,
}

impl Files {
    /// Opens the files and reads each.
    pub(super) fn open(
        keeper: &Keeper,
        task: &str,
        wanted: &[WantedFile<'_>],
        max_age: Option<Span>,
        opening: Opening,
    ) -> Result<Self, Unusable> {
        // Filled with ones, so that every page is touched here.
        let mut open = Self { files: Vec::with_capacity(wanted.len()), buffer: vec![1; LARGEST].into() };
        let (mut followers, mut unread, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        let strict = opening == Opening::Strict;
        let may_be_absent = |error: &io::Error| !strict && (error.kind() == io::ErrorKind::NotFound || is_gone(error));
        for WantedFile { path, texts, of_a_device, fault, values } in wanted {
            let unusable = |doing, error| Unusable {
                column: values.first().map(|(column, _)| *column),
                key: "path",
                message: io_error(doing, path, &error),
            };
            let mut away = None;
            let (found, ends) = match follow::open(path) {
                Err(error) if may_be_absent(&error) => {
                    let ends = follow::can_be_replaced(path).then(|| follow::absent(keeper, task, path, max_age));
                    let ends = ends.transpose().map_err(|error| unusable("open", error))?;
                    away = Some(unusable("open", error));
                    ends.unzip()
                }
                opened => {
                    let file = opened.map_err(|error| unusable("open", error))?;
                    debug!("opened {} ({} values)", path.display(), values.len());
                    let ends = follow::follow(keeper, task, &file, path, max_age);
                    (Some(file), ends.map_err(|error| unusable("open", error))?)
                }
            };
            let (followed, follower) = ends.unzip();
            followers.extend(follower);
            let fault_file = fault.as_deref().filter(|_| away.is_none()).map_or(Ok(None), Fault::open);
            let fault_file = fault_file.map_err(|error| unusable("open the file _fault beside", error))?;
            let may_be_empty = followed.is_some() && path.is_file();
            let is_own = followed.is_none() && wanted.len() > 1;
            let mut reader =
                Reader { extractor: Extractor::new(values.iter().map(|(_, locator)| *locator)), first_read: PAGE };
            let mut handle = found.map(|file| Handle { file, fault: fault_file });
            let mut never_read = false;
            let there = handle.as_ref().filter(|_| away.is_none());
            let read = there.map(|handle| reader.fill(&handle.file, &mut open.buffer));
            match read {
                None => {}
                Some(Err(error)) if is_own && may_be_absent(&error) => {
                    away = Some(unusable("read", error));
                    handle = None;
                }
                Some(Err(error)) if may_pass(&error) => {
                    unread.push(unusable("read", error));
                    never_read = opening != Opening::Again;
                }
                // Its writer empties it before it writes.
                Some(Ok((0, _))) if may_be_empty => {}
                Some(filled) => {
                    let (filled, ended) = filled.map_err(|error| unusable("read", error))?;
                    let results = values.iter().zip(reader.extractor.results(ended));
                    for ((column, locator), result) in results.filter(|_| strict) {
                        if let Err(error) = result {
                            let (key, message) = explained(&error, path, locator, &open.buffer[..filled]);
                            return Err(Unusable { column: Some(*column), key, message });
                        }
                    }
                }
            }
            absent.extend(away);
            let held = match (handle, followed) {
                (Some(handle), Some(followed)) => Held::Followed(handle, followed),
                (handle, _) if is_own => {
                    let fault = fault.clone();
                    let again = move |path: &Path| Handle::again(path, fault.as_deref());
                    let held = own_file::reopened(keeper, task, path, *of_a_device, handle, again);
                    Held::Own(held.map_err(|Refusal { key, message, .. }| Unusable { column: None, key, message })?)
                }
                (Some(handle), None) => Held::Only(handle),
                (None, _) => continue, // it is the only one, so this is refused below
            };
            open.files.push(OpenFile {
                held,
                columns: values.iter().map(|(column, _)| *column).collect(),
                never_read,
                is_gone: false,
                reader,
                texts: *texts,
            });
        }
        if absent.len() == wanted.len()
            && let Some(first) = absent.into_iter().next()
        {
            return Err(first);
        }
        for Unusable { message, .. } in unread {
            warn!(task, "{task}: {message}; its value is empty until it can be read");
        }
        follow::start(keeper, followers).map_err(|error| Unusable {
            column: None,
            key: "path",
            message: format!("cannot start the thread that notices replaced files: {error}"),
        })?;
        Ok(open)
    }

    /// Reads all files, and calls `found` with the index of each column and its number, or with what to write in the place of a number that
    /// cannot be read.
    pub(super) fn read(&mut self, mut found: impl FnMut(usize, Result<Number, NoNumber>)) -> ReadResult {
        let mut result = ReadResult::default();
        for file in &mut self.files {
            file.read(&mut self.buffer, &mut found, &mut result);
        }
        result.lost |= result.absent == self.files.len();
        if !result.lost && result.absent > 0 {
            self.files.iter_mut().for_each(OpenFile::hand_over);
        }
        result
    }
}

/// What became of the values of one tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadResult {
    any: bool,                         // a value was read, or had nothing new
    pub(super) lost: bool,             // only reopening can help
    absent: usize,                     // files
    first: Option<(usize, TickError)>, // of the values that could not be read
}

impl ReadResult {
    /// The value in this column could not be read.
    pub(super) fn fails(&mut self, column: usize, error: TickError) {
        self.first = self.first.or(Some((column, error)));
    }

    /// The error of the tick: of the first value that could not be read, or of all if none could.
    pub(super) fn error(&self) -> Result<(), TickError> {
        self.first.map_or(Ok(()), |(column, error)| Err(if self.any { error.of_value(column) } else { error }))
    }
}

/// What there is in the place of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoNumber {
    pub(super) mark: f64,     // is written in its place
    pub(super) is_gone: bool, // the file is, so a counter may start over
}

/// Why the values of a file are not there.
struct Absence {
    mark: f64,                // is written in their place
    error: Option<TickError>, // `None`: it is no error
    is_gone: bool,            // a read says so
    is_absent: bool,
}

impl Absence {
    fn new(reason: Reason, error: TickError) -> Self {
        Self { mark: reason.value(), error: Some(error), is_gone: false, is_absent: false }
    }

    /// The system's reason. `never_read`: there has been no value yet.
    fn of(what: &'static str, error: &io::Error, never_read: bool) -> Self {
        let reason = match error {
            _ if never_read || is_gone(error) => Reason::Unavailable,
            _ if is_no_data(error) => Reason::NotAvailable,
            _ => Reason::Failed,
        };
        let (mark, is_gone) = (reason.value_of(error), is_gone(error));
        Self { mark, error: Some(TickError::from_io(what, error)), is_gone, is_absent: false }
    }
}

impl OpenFile {
    fn read(
        &mut self,
        buffer: &mut [u8],
        mut found: impl FnMut(usize, Result<Number, NoNumber>),
        result: &mut ReadResult,
    ) {
        let ended = match self.refill(buffer) {
            Ok(ended) => ended,
            Err(Absence { mark, error, is_gone, is_absent }) => {
                self.columns.iter().for_each(|column| found(*column, Err(NoNumber { mark, is_gone })));
                match error.filter(|_| !self.never_read || is_gone || is_absent) {
                    Some(error) => self.columns.first().into_iter().for_each(|column| result.fails(*column, error)),
                    None => result.any = true,
                }
                self.is_gone = is_gone;
                result.lost |= is_gone && !matches!(self.held, Held::Own(_));
                result.absent += usize::from(is_absent || is_gone);
                return;
            }
        };
        self.never_read = false;
        for (column, number) in self.columns.iter().zip(self.reader.extractor.results(ended)) {
            match number {
                Ok(number) => {
                    result.any = true;
                    found(*column, Ok(number));
                }
                Err(error) => {
                    result.fails(*column, TickError::new(self.texts.garbled[error.fault()]));
                    found(*column, Err(NoNumber { mark: Reason::Failed.value(), is_gone: false }));
                }
            }
        }
    }

    /// Reads the file, if its values can be trusted. Returns whether that is the whole file.
    fn refill(&mut self, buffer: &mut [u8]) -> Result<bool, Absence> {
        let absent =
            || Absence { is_absent: true, ..Absence::new(Reason::Unavailable, TickError::new(self.texts.absent)) };
        let (handle, state) = match &mut self.held {
            Held::Followed(handle, followed) => {
                let state = followed.update(&mut handle.file);
                (handle, state)
            }
            Held::Own(device) => match device.device() {
                Ok(handle) => (handle, State::There),
                Err(_) => return Err(absent()),
            },
            Held::Only(handle) => (handle, State::There),
        };
        match state {
            State::There => {}
            // Another thread puts a new file in its place, if there are others to read meanwhile.
            State::Deleted => return Err(absent()),
            State::TooOld => return Err(Absence::new(Reason::Stale, TOO_OLD)),
        }
        let filled = self.reader.fill(&handle.file, buffer);
        // Checked after the read, so that a sensor that breaks between the two is noticed.
        handle.fault.as_ref().map_or(Ok(()), Fault::look)?;
        let (filled, ended) = filled.map_err(|error| Absence::of(self.texts.unread, &error, self.never_read))?;
        if filled == 0 && matches!(self.held, Held::Followed(..)) {
            // Its writer empties it before it writes.
            return Err(Absence { mark: NONE, error: None, is_gone: false, is_absent: false });
        }
        Ok(ended)
    }

    /// Gives a file that is gone to the thread that opens it again.
    fn hand_over(&mut self) {
        if mem::take(&mut self.is_gone)
            && let Held::Own(device) = &mut self.held
        {
            device.lose();
        }
    }
}

impl Reader {
    /// Reads as much as is needed. Returns the number of bytes, and whether that is the whole file. The kernel may return a file in pieces.
    fn fill(&mut self, file: &File, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        let (mut filled, mut ended, mut end) = (0, false, self.first_read);
        self.extractor.begin();
        while !ended && filled < buffer.len() {
            match file.read_at(&mut buffer[filled..end], filled as u64) {
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

impl Handle {
    /// Opens a file that was gone, if it is there again.
    fn again(path: &Path, fault: Option<&Path>) -> io::Result<Self> {
        let (file, fault) = (follow::open(path)?, fault.map_or(Ok(None), Fault::open)?);
        match file.read_at(&mut [0], 0) {
            Err(error) if is_gone(&error) => Err(error),
            _ => Ok(Self { file, fault }),
        }
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

    /// Checks the file.
    fn look(&self) -> Result<(), Absence> {
        let mut text = [0; 16];
        loop {
            return match self.file.read_at(&mut text, 0) {
                Ok(length) if text[..length].trim_ascii() == b"0" => Ok(()),
                Ok(_) => Err(Absence::new(Reason::NotAvailable, self.broken)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(Absence::of(UNKNOWN, &error, false)),
            };
        }
    }
}

const UNKNOWN: &str = "cannot read the file _fault beside the value's";

const TOO_OLD: TickError = TickError::new(
    "the file was not written for longer than max-file-age, so its value is not used: see whether the program that writes it still does; \
     for a file that a person edits write max-file-age = \"off\"",
);

/// Whether a read error means that this file will not come back, because its device or process is gone.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ESRCH | libc::ESTALE | libc::EBADF))
}

/// Whether the device says that it has no value now.
fn is_no_data(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EAGAIN))
}

/// Whether a read error may be over at the next attempt.
pub(super) fn may_pass(error: &io::Error) -> bool {
    const PASSING: [i32; 5] = [libc::EIO, libc::ENXIO, libc::EREMOTEIO, libc::ETIMEDOUT, libc::EBUSY];
    is_no_data(error) || error.raw_os_error().is_some_and(|errno| PASSING.contains(&errno))
}

fn io_error(doing: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; hertzd's user needs permission to read it",
        _ => "",
    };
    format!("cannot {doing} {}: {error}{remedy}", path.display())
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
