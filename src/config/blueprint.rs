//! What a kind makes of a task's section: how to build the task, and how to look beforehand at what that would open.
//!
//! Building and looking may block, and so may the look at a file's state; all are called off the hot thread. No clock is read here.

use crate::channels::Shape;
use crate::site::{BuildError, Built, Site};
use crate::task::Column;
use crate::time::Span;
use std::any::Any;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// What makes a task: files are opened and buffers allocated here.
type Build = Box<dyn FnOnce(&mut Site) -> Result<Built, BuildError> + Send>;

/// What makes the task that runs in its place on the virtual clock; nothing is opened.
type BuildAtTheDesk = Box<dyn FnOnce() -> Result<Built, BuildError> + Send>;

/// What looks at what that would open, and changes nothing.
type Look = Box<dyn FnOnce(&mut Site) -> Result<Preview, BuildError> + Send>;

/// What gives the unit of a value by its name, as far as the section says it.
type Units = Box<dyn Fn(&str) -> String + Send>;

/// A task that has been parsed and checked, but not built: nothing is open yet.
pub struct Blueprint {
    build: Option<Build>,
    look: Option<Look>,
    run: Vec<Span>,
    now_and_then: Option<Exceptional>,
    sleeps: bool,
    computes: bool,
    at_the_desk: Option<BuildAtTheDesk>,
    held: Span,
    unchecked: Option<BuildError>,
    units: Option<Units>,
    reads: Option<(&'static str, PathBuf)>,
    loads: Option<PathBuf>,
}

/// A tick that takes another time than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceptional {
    /// How long it takes.
    pub run: Span,
    /// It sleeps for all of it.
    pub sleeps: bool,
}

impl Blueprint {
    /// A blueprint that `build` turns into a task, and what that brings. A task that brings nothing is returned by `Ok(task.into())`.
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
            unchecked: None,
            units: None,
            reads: None,
            loads: None,
        }
    }

    /// A blueprint of a task that exists already and opens nothing.
    pub fn built(task: impl Into<Built>) -> Self {
        let built = task.into();
        let preview = Preview { columns: Some(built.task.columns()), ..Preview::default() };
        Self::new(move |_| Ok(built)).looking(move |_| Ok(preview))
    }

    /// Says how `hertzd check` finds out whether the task can be built. `look` must change nothing: it writes to no device,
    /// takes none that only one task can have, and opens none where that alone has an effect.
    #[must_use]
    pub fn looking(self, look: impl FnOnce(&mut Site) -> Result<Preview, BuildError> + Send + 'static) -> Self {
        Self { look: Some(Box::new(look)), ..self }
    }

    /// Says how long the ticks are known to take, cycled; `simulate` uses it unless the configuration says more.
    #[must_use]
    pub(crate) fn taking(self, run: Vec<Span>) -> Self {
        Self { run, ..self }
    }

    /// How long the ticks are known to take, cycled; empty when that is not known.
    pub(crate) fn run(&self) -> &[Span] {
        &self.run
    }

    /// Says how long a tick takes now and then in place of [`taking`](Self::taking); `hertzd check` reckons with the longest.
    #[must_use]
    pub(crate) fn now_and_then(self, tick: Exceptional) -> Self {
        Self { now_and_then: Some(tick), ..self }
    }

    /// How long a tick takes now and then.
    pub(crate) fn exceptional(&self) -> Option<Exceptional> {
        self.now_and_then
    }

    /// Says that its ticks sleep for as long as they take: they hold up their worker, and take no processor time from others.
    #[must_use]
    pub(crate) fn sleeping(self) -> Self {
        Self { sleeps: true, ..self }
    }

    /// Whether its ticks sleep for as long as they take.
    pub(crate) fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Says that the task opens nothing, and computes from its inputs and its ticks alone: `simulate` runs it in place of a script.
    #[must_use]
    pub fn computing(self) -> Self {
        Self { computes: true, ..self }
    }

    /// Says what `simulate` runs in place of a task that opens something: one that computes the same values and opens nothing.
    #[must_use]
    pub fn at_the_desk<T: Into<Built>>(self, build: impl FnOnce() -> T + Send + 'static) -> Self {
        self.at_the_desk_if(move || Ok(build().into()))
    }

    /// The same where building that can fail.
    #[must_use]
    pub(crate) fn at_the_desk_if(self, build: impl FnOnce() -> Result<Built, BuildError> + Send + 'static) -> Self {
        Self { at_the_desk: Some(Box::new(build)), ..self }
    }

    /// Says that the task is built from what this file says, which the section names at `key`: a reload that finds the file changed restarts it.
    #[must_use]
    pub(crate) fn reading(self, key: &'static str, file: PathBuf) -> Self {
        Self { reads: Some((key, file)), ..self }
    }

    /// Says that the task is code from this file, which no command may write over.
    #[must_use]
    pub(crate) fn loading(self, file: PathBuf) -> Self {
        Self { loads: Some(file), ..self }
    }

    /// The files that the task is built from.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        self.reads.iter().map(|(_, file)| file).chain(&self.loads).map(PathBuf::as_path)
    }

    /// The key that names the file it is built from, and what tells another content of that: the path, the file, its length and time.
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

    /// Says what of the section could not be checked, and why. A look or a start refuses the task.
    #[must_use]
    pub(crate) fn unchecked(self, what: BuildError) -> Self {
        Self { unchecked: Some(what), ..self }
    }

    /// What of the section could not be checked; `None`: nothing.
    pub(crate) fn left_unchecked(&self) -> Option<&BuildError> {
        self.unchecked.as_ref()
    }

    /// Says how the unit of a value is found by its name without opening anything: what stands in for the task under `simulate` has the same.
    #[must_use]
    pub(crate) fn with_units(self, unit: impl Fn(&str) -> String + Send + 'static) -> Self {
        Self { units: Some(Box::new(unit)), ..self }
    }

    /// The same by the values that the section describes.
    #[must_use]
    pub(crate) fn with_columns(self, columns: Vec<Column>) -> Self {
        self.with_units(move |value| {
            let column = columns.iter().find(|column| column.name == value);
            column.map_or_else(String::new, |column| column.unit.clone())
        })
    }

    /// The unit of a value, as far as the section says it; else empty.
    pub(crate) fn unit(&self, value: &str) -> String {
        self.units.as_ref().map_or_else(String::new, |unit| unit(value))
    }

    /// Builds what runs on the virtual clock, which opens nothing: the task itself if it only [computes](Self::computing), else what stands
    /// in for it [at the desk](Self::at_the_desk). `None`: its kind has neither, or it was built before.
    ///
    /// # Errors
    /// Why the task could not be built.
    pub(crate) fn build_at_the_desk(&mut self, site: &mut Site) -> Option<Result<Built, BuildError>> {
        match self.at_the_desk.take() {
            Some(build) => Some(build()),
            None => self.computes.then(|| self.build(site)),
        }
    }

    /// Says that a tick may give values which were measured so long before its release ([`Task::age`]), at most.
    #[must_use]
    pub(crate) fn holding(self, held: Span) -> Self {
        Self { held, ..self }
    }

    /// How long before the release of its tick a value may have been measured.
    pub(crate) fn held(&self) -> Span {
        self.held
    }

    /// Looks at what the task would open, and changes nothing. `None`: its kind does not know how to, or this was called before.
    ///
    /// # Errors
    /// What could not be opened now, and why.
    #[doc(hidden)]
    pub fn look(&mut self, site: &mut Site) -> Option<Result<Preview, BuildError>> {
        self.look.take().map(|look| look(site))
    }

    /// Builds the task; once.
    ///
    /// # Errors
    /// What could not be opened, and why; or that it has been built before.
    #[doc(hidden)]
    pub fn build(&mut self, site: &mut Site) -> Result<Built, BuildError> {
        self.look = None; // what it would have opened is open now
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

/// What a task will be, as far as a look at the machine shows.
#[derive(Debug, Default)]
pub struct Preview {
    /// Its values; `None` if only a start finds them out.
    pub columns: Option<Vec<Column>>,
    /// The blocks that it produces, if any.
    pub stream: Option<Shape>,
    /// What may keep it from a start, but need not: a device that only the service may open, or that is still to come.
    pub warnings: Vec<String>,
    /// What it does to leave its device in a safe state, each a sentence without its full stop.
    pub safe: Vec<String>,
    /// What another hertzd that runs has of what a start would take.
    pub taken: Vec<String>,
    /// What only a start can find out, as clauses that begin with "whether".
    pub unknown: Vec<String>,
    /// Kept until the whole configuration has been looked at, so that two tasks do not both take the same device for free.
    pub held: Option<Box<dyn Any + Send>>,
}
