//! What tasks are recorded to: CSV, WAV or MCAP files, which grow, are finished and followed by the next, and are valid at
//! every moment.
//!
//! ```text
//! Recorder ──▶ Recording ──▶ Csv, Wav ──▶ Plain ──▶ Disk ──▶ rotation
//!              (shared)      Mcap ─────────────────▶ Disk
//! ```
//!
//! Used by the recorder's thread; opened by the main thread. Both may block. Time is an argument.

mod append;

mod csv;

mod file;

mod ledger;

#[cfg(feature = "mcap")]
mod mcap;

mod recorder;

mod rotation;

mod samples;

mod wav;

#[cfg(test)]
mod tests;

pub(crate) use file::Moment;
pub(crate) use ledger::Tally;
pub(crate) use recorder::{OutputState, Recorder, TaskOutput};

use crate::channels::{Block, Format, Row};
use crate::config::{RecordConfig, RecordFormat};
use crate::metrics::Cause;
use crate::task::Column;
use crate::time::{Instant, Span};
use ledger::{Gaps, Ledger};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What there is of a task to record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// Its name.
    pub task: String,
    /// Its values.
    pub columns: Vec<Column>,
    /// What its blocks hold, if it has any.
    pub format: Option<Format>,
}

impl Content {
    /// Whether a recording of this form wants the blocks.
    pub(crate) fn has_blocks_for(&self, form: RecordFormat) -> bool {
        match (form, &self.format) {
            (_, None) => false,
            (RecordFormat::Csv, Some(format)) => matches!(format, Format::Samples(_)),
            (RecordFormat::Wav | RecordFormat::Mcap, Some(_)) => true,
        }
    }

    /// Whether a recording of this form wants the values of each tick.
    pub(crate) fn has_rows_for(&self, form: RecordFormat) -> bool {
        match form {
            RecordFormat::Csv => !matches!(self.format, Some(Format::Samples(_))),
            RecordFormat::Wav => false,
            RecordFormat::Mcap => !self.columns.is_empty(),
        }
    }
}

/// One tick, as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedTick {
    /// Number of the task.
    pub task: u32,
    /// Index of the tick.
    pub n: u64,
    /// When it was meant to start, on the worker's clock.
    pub release: Instant,
    /// Started − release.
    pub lateness: Span,
    /// Finished − release.
    pub response: Span,
    /// Releases given up before it and when it had finished.
    pub skipped: u64,
    /// Why it ended after its deadline; `None`: it did not.
    pub cause: Option<Cause>,
}

/// A form of recording. Tasks are known by their numbers.
pub(super) trait Form: Debug + Send {
    /// Hears of a task before anything of it. These limits hold from now on.
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig);

    /// Nothing of the task comes any more.
    fn leave(&mut self, id: u32) {
        let _ = id;
    }

    /// To be called before anything is put in.
    fn begin(&mut self, at: Moment);

    /// Puts in the values of a tick, released at `utc`.
    fn row(&mut self, id: u32, row: &Row<'_>, utc: i128);

    /// Puts in a block.
    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128);

    /// Puts in a tick, released at `utc`.
    fn tick(&mut self, tick: &RecordedTick, utc: i128) {
        let _ = (tick, utc);
    }

    /// Writes what was put in; true: there was something. What has failed since the last time is the error.
    fn flush(&mut self) -> io::Result<bool>;

    /// Writes what belongs at the end, and closes the file; it is opened again by `begin`.
    fn finish(&mut self) -> io::Result<()>;

    /// What has become of a task's data.
    fn tally(&self, id: u32) -> Tally;
}

/// A recording that several tasks may share.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    limits: RecordConfig,
    inner: Arc<Mutex<dyn Form>>,
}

impl PartialEq for Recording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Recording {
    /// The file that is written.
    pub(crate) fn path(&self) -> &Path {
        &self.limits.path
    }

    pub(super) const fn form(&self) -> RecordFormat {
        self.limits.format
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, dyn Form + 'static> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn leave(&self, id: u32) {
        self.lock().leave(id);
    }

    pub(super) fn join(&self, id: u32, content: &Content) {
        self.lock().join(id, content, &self.limits);
    }

    pub(super) fn begin(&self, at: Moment) {
        self.lock().begin(at);
    }

    pub(super) fn flush(&self) -> io::Result<bool> {
        self.lock().flush()
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        self.lock().finish()
    }

    pub(super) fn tally(&self, id: u32) -> Tally {
        self.lock().tally(id)
    }
}

/// The same for every way to write a path, once its folder exists.
pub(crate) fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.join(path.file_name().unwrap_or_default())
}

/// Which tasks a recording that is open takes as well. It is known beside the recording, whose lock the recorder holds
/// while it writes: a slow disk must not hold up a reload.
#[derive(Debug)]
enum Admits {
    Any,
    Sound,
    Header(String), // of a CSV
}

impl Admits {
    fn of(form: RecordFormat, content: &Content) -> Self {
        match form {
            RecordFormat::Csv => Self::Header(csv::header(content)),
            RecordFormat::Wav => Self::Sound,
            RecordFormat::Mcap => Self::Any,
        }
    }

    fn check(&self, content: &Content) -> io::Result<()> {
        match self {
            Self::Any => Ok(()),
            Self::Sound => wav::audio(content).map(drop),
            Self::Header(header) if *header == csv::header(content) => Ok(()),
            Self::Header(_) => Err(append::something_else()),
        }
    }
}

/// The recordings that are open, so that tasks which name the same file get the same one.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    open: BTreeMap<PathBuf, (Weak<Mutex<dyn Form>>, Admits)>,
}

impl Recordings {
    /// The recording that a task asks for. Nothing that is there already is changed yet.
    ///
    /// # Errors
    /// The system's reason, or what does not fit together.
    pub(crate) fn open(&mut self, limits: &RecordConfig, content: &Content) -> io::Result<Recording> {
        let place = place(&limits.path);
        let open = self.open.get(&place).and_then(|(form, admits)| Some((form.upgrade()?, admits)));
        if let Some((inner, admits)) = open {
            admits.check(content)?;
            return Ok(Recording { limits: limits.clone(), inner });
        }
        let inner: Arc<Mutex<dyn Form>> = match limits.format {
            RecordFormat::Csv => Arc::new(Mutex::new(csv::Csv::open(limits, content)?)),
            RecordFormat::Wav => Arc::new(Mutex::new(wav::Wav::open(limits, content)?)),
            #[cfg(feature = "mcap")]
            RecordFormat::Mcap => Arc::new(Mutex::new(mcap::Mcap::open(limits)?)),
            #[cfg(not(feature = "mcap"))]
            RecordFormat::Mcap => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "this hertzd was built without MCAP"));
            }
        };
        self.open.retain(|_, (form, _)| form.strong_count() > 0);
        self.open.insert(place, (Arc::downgrade(&inner), Admits::of(limits.format, content)));
        Ok(Recording { limits: limits.clone(), inner })
    }
}
