//! What a kind makes of a task's section: how to build the task, and how to preview what building would open.
//!
//! Building, previewing and checking a file's state may block; all three run off the hot thread. No clock is read here.

use crate::channels::Shape;
use crate::site::{BuildError, Built, Site};
use crate::task::Column;
use crate::time::Span;
use std::any::Any;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// Builds the task: opens files and allocates buffers.
type Build = Box<dyn FnOnce(&mut Site) -> Result<Built, BuildError> + Send>;

/// Builds the task that replaces the real one on the virtual clock. Opens nothing.
type BuildAtTheDesk = Box<dyn FnOnce() -> Result<Built, BuildError> + Send>;

/// Previews what building would open, and changes nothing.
type Look = Box<dyn FnOnce(&mut Site) -> Result<Preview, BuildError> + Send>;

/// Returns the unit of a value by name, as far as the section specifies it.
type Units = Box<dyn Fn(&str) -> String + Send>;

/// A task that has been parsed and checked but not built: nothing is open yet.
pub struct Blueprint {
    build: Option<Build>,
    look: Option<Look>,
    run: Vec<Span>,
    now_and_then: Option<Exceptional>,
    sleeps: bool,
    computes: bool,
    at_the_desk: Option<BuildAtTheDesk>,
    held: Span,
    first_value: Span,
    unchecked: Option<BuildError>,
    units: Option<Units>,
    reads: Option<(&'static str, PathBuf)>,
    loads: Option<PathBuf>,
}

/// A tick whose run time differs from the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceptional {
    /// Its run time.
    pub run: Span,
    /// Whether it sleeps for all of that time.
    pub sleeps: bool,
}

impl Blueprint {
    /// A blueprint whose task is created by `build`, together with what comes with it. For a task alone, return `Ok(task.into())`.
    pub fn new(build: impl FnOnce(&mut Site) -> Result<Built, BuildError> + Send + 'static) -> Self {
        Self {
            build: Some(Box::new(build)),
            look: None,
            run: Vec::new(),
            now_and_then: None,
            sleeps: false,
            computes: false,
            at_the_desk: None,
            held: Span::ZERO,
            first_value: Span::ZERO,
            unchecked: None,
            units: None,
            reads: None,
            loads: None,
        }
    }

    /// A blueprint of a task that already exists and opens nothing.
    pub fn built(task: impl Into<Built>) -> Self {
        let built = task.into();
        let preview = Preview { columns: Some(built.task.columns()), ..Preview::default() };
        Self::new(move |_| Ok(built)).looking(move |_| Ok(preview))
    }

    /// Sets how `hertzd check` finds out whether the task can be built. `look` must change nothing. It must not write to a device, claim a
    /// device that only one task can hold, or open one where opening alone has an effect.
    #[must_use]
    pub fn looking(self, look: impl FnOnce(&mut Site) -> Result<Preview, BuildError> + Send + 'static) -> Self {
        Self { look: Some(Box::new(look)), ..self }
    }

    /// Sets the known run times of the ticks, used in turn. `simulate` uses them unless the configuration overrides them.
    #[must_use]
    pub(crate) fn taking(self, run: Vec<Span>) -> Self {
        Self { run, ..self }
    }

    /// The known run times of the ticks, used in turn. Empty if unknown.
    pub(crate) fn run(&self) -> &[Span] {
        &self.run
    }

    /// Sets the run time of an occasional tick that differs from [`taking`](Self::taking). `hertzd check` plans with the longest.
    #[must_use]
    pub(crate) fn now_and_then(self, tick: Exceptional) -> Self {
        Self { now_and_then: Some(tick), ..self }
    }

    /// The occasional tick with a different run time.
    pub(crate) fn exceptional(&self) -> Option<Exceptional> {
        self.now_and_then
    }

    /// Marks the ticks as sleeping for their whole run: they occupy their worker but take no processor time from others.
    #[must_use]
    pub(crate) fn sleeping(self) -> Self {
        Self { sleeps: true, ..self }
    }

    /// Whether the ticks sleep for their whole run.
    pub(crate) fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Marks the task as opening nothing and computing from its inputs and ticks alone. `simulate` runs the task itself instead of a
    /// script.
    #[must_use]
    pub fn computing(self) -> Self {
        Self { computes: true, ..self }
    }

    /// Sets what `simulate` runs in place of a task that opens something: a task that computes the same values and opens nothing.
    #[must_use]
    pub fn at_the_desk<T: Into<Built>>(self, build: impl FnOnce() -> T + Send + 'static) -> Self {
        self.at_the_desk_if(move || Ok(build().into()))
    }

    /// Like [`at_the_desk`](Self::at_the_desk), for a replacement that can fail to build.
    #[must_use]
    pub(crate) fn at_the_desk_if(self, build: impl FnOnce() -> Result<Built, BuildError> + Send + 'static) -> Self {
        Self { at_the_desk: Some(Box::new(build)), ..self }
    }

    /// Declares that the task is built from this file, which the section names at `key`. A reload restarts the task if the file has
    /// changed.
    #[must_use]
    pub(crate) fn reading(self, key: &'static str, file: PathBuf) -> Self {
        Self { reads: Some((key, file)), ..self }
    }

    /// Declares that the task is code loaded from this file. No command may overwrite the file.
    #[must_use]
    pub(crate) fn loading(self, file: PathBuf) -> Self {
        Self { loads: Some(file), ..self }
    }

    /// The files that the task is built from.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        self.reads.iter().map(|(_, file)| file).chain(&self.loads).map(PathBuf::as_path)
    }

    /// The key that names the file the task is built from, and a text that identifies its content: path, device, inode, length and
    /// modification time.
    pub(super) fn read_state(&self) -> Option<(&'static str, String)> {
        let (key, path) = self.reads.as_ref()?;
        let shown = path.display();
        let state = match fs::metadata(path) {
            Ok(found) => {
                let (device, inode, length) = (found.dev(), found.ino(), found.len());
                format!("{shown} {device} {inode} {length} {}.{:09}", found.mtime(), found.mtime_nsec())
            }
            Err(error) => format!("{shown} {error}"),
        };
        Some((*key, state))
    }

    /// Records which part of the section could not be checked, and why. A preview or a start rejects the task.
    #[must_use]
    pub(crate) fn unchecked(self, what: BuildError) -> Self {
        Self { unchecked: Some(what), ..self }
    }

    /// The part of the section that could not be checked. `None`: everything was checked.
    pub(crate) fn left_unchecked(&self) -> Option<&BuildError> {
        self.unchecked.as_ref()
    }

    /// Sets how to look up a value's unit by name without opening anything. The stand-in under `simulate` uses the same units.
    #[must_use]
    pub(crate) fn with_units(self, unit: impl Fn(&str) -> String + Send + 'static) -> Self {
        Self { units: Some(Box::new(unit)), ..self }
    }

    /// Like [`with_units`](Self::with_units), from the values that the section describes.
    #[must_use]
    pub(crate) fn with_columns(self, columns: Vec<Column>) -> Self {
        self.with_units(move |value| {
            let column = columns.iter().find(|column| column.name == value);
            column.map_or_else(String::new, |column| column.unit.clone())
        })
    }

    /// The unit of a value, as far as the section specifies it; otherwise empty.
    pub(crate) fn unit(&self, value: &str) -> String {
        self.units.as_ref().map_or_else(String::new, |unit| unit(value))
    }

    /// Builds what runs on the virtual clock and opens nothing: the [replacement](Self::at_the_desk) if there is one, otherwise the task
    /// itself if it only [computes](Self::computing). `None`: the kind has neither, or it was built before.
    ///
    /// # Errors
    /// Why the task could not be built.
    pub(crate) fn build_at_the_desk(&mut self, site: &mut Site) -> Option<Result<Built, BuildError>> {
        match self.at_the_desk.take() {
            Some(build) => Some(build()),
            None => self.computes.then(|| self.build(site)),
        }
    }

    /// Declares that a value may have been measured up to `held` before the release of its tick ([`Task::age`]).
    #[must_use]
    pub(crate) fn holding(self, held: Span) -> Self {
        Self { held, ..self }
    }

    /// Declares that the first value of the task may take this long.
    #[must_use]
    pub(crate) fn first_value_within(self, first_value: Span) -> Self {
        Self { first_value, ..self }
    }

    /// How long its first value may take.
    pub(crate) fn first_value(&self) -> Span {
        self.first_value
    }

    /// How long before the release of its tick a value may have been measured, at most.
    pub(crate) fn held(&self) -> Span {
        self.held
    }

    /// Previews what the task would open, and changes nothing. `None`: the kind has no preview, or this was called before.
    ///
    /// # Errors
    /// What could not be opened now, and why.
    #[doc(hidden)]
    pub fn look(&mut self, site: &mut Site) -> Option<Result<Preview, BuildError>> {
        self.look.take().map(|look| look(site))
    }

    /// Builds the task. Works only once.
    ///
    /// # Errors
    /// What could not be opened, and why; or that the task has already been built.
    #[doc(hidden)]
    pub fn build(&mut self, site: &mut Site) -> Result<Built, BuildError> {
        self.look = None; // what the preview would have opened is open now
        match self.build.take() {
            Some(build) => {
                site.take_stream();
                let built = build(site)?;
                Ok(Built { stream: site.take_stream().or(built.stream), ..built })
            }
            None => Err(BuildError { key: "kind", message: "this task has been built already".into() }),
        }
    }
}

impl fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blueprint").field("run", &self.run).finish_non_exhaustive()
    }
}

/// What a task will be, as far as a preview can tell.
#[derive(Debug, Default)]
pub struct Preview {
    /// The task's values; `None` if only a start can find them out.
    pub columns: Option<Vec<Column>>,
    /// The blocks that it produces, if any.
    pub stream: Option<Shape>,
    /// What may prevent a start, but need not: a device that only the service may open, or one that is not there yet.
    pub warnings: Vec<String>,
    /// How the task leaves its device in a safe state; each item is a sentence without its full stop.
    pub safe: Vec<String>,
    /// Files that have to be written again and again, without a key that says so; each item is a sentence without its full stop.
    pub fresh: Vec<String>,
    /// Whether its values are readings of a device that may give the same one for ever when it has frozen.
    pub may_freeze: bool,
    /// What a start would need but another running hertzd holds.
    pub taken: Vec<String>,
    /// What only a start can find out, as clauses that begin with "whether".
    pub unknown: Vec<String>,
    /// Kept until the whole configuration has been previewed, so that two tasks cannot both find the same device free.
    pub held: Option<Box<dyn Any + Send>>,
}
