//! What comes of building a task: the task, and what it brings for others. Nothing blocks here.

use super::error::BuildError;
use crate::channels::Stream;
use crate::channels::alarm::Alarm;
use crate::safety::Guard;
use crate::task::{Task, code_of};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// A task that has been built, with what it brings. A task that brings nothing becomes one by `into()`.
///
/// ```
/// use hertzd::config::Blueprint;
/// use hertzd::{Built, Task, Tick, TickError};
///
/// struct Blink;
///
/// impl Task for Blink {
///     fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> { Ok(()) }
/// }
///
/// let plain = Blueprint::new(|_| Ok(Blink.into()));
/// // Nothing is written before all tasks of a start or a reload are built; then each of them may.
/// let first = Blueprint::new(|_| Ok(Built::from(Blink).beginning(|| Ok(()))));
/// ```
pub struct Built {
    /// What ticks.
    pub task: Box<dyn Task>,
    pub(crate) code: usize, // of its tick
    pub(crate) measures: bool,
    /// The blocks that it produces, if any.
    #[doc(hidden)]
    pub stream: Option<Stream>,
    pub(crate) aside: Option<Aside>,
    pub(crate) beginnings: Vec<Beginning>,
    pub(crate) guards: Vec<Weak<Guard>>,
}

impl Built {
    /// Has this done once all tasks of a start or a reload are built and nothing but a device can refuse them any more: a first write. It must not
    /// keep alive what belongs to the task, which may be gone by then.
    #[must_use]
    pub fn beginning(self, write: impl FnOnce() -> Result<(), BuildError> + Send + 'static) -> Self {
        self.begins(Beginning::new(write))
    }

    #[must_use]
    pub(crate) fn begins(mut self, beginning: Beginning) -> Self {
        self.beginnings.push(beginning);
        self
    }

    /// Says that its values are no measurements, as those of a setpoint or an output: no age counts from them along the chain of tasks that take them.
    /// Of a task that takes values itself, the age is in any case that of those.
    #[must_use]
    pub fn measures_nothing(self) -> Self {
        Self { measures: false, ..self }
    }

    /// Has this asked now and then while the task runs, off the hot thread: what is wrong with it, as a clause that names it. While something is,
    /// `hertzd status` is not well, and gives this as a reason. Must not wait.
    #[must_use]
    pub fn troubled_by(mut self, trouble: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.aside.get_or_insert_default().trouble = Some(Box::new(trouble));
        self
    }

    /// Has this called when a reload has removed or replaced the task, which is dropped soon, after others perhaps. Called once, off the hot thread,
    /// before the first of those that the same reload ended on its worker is dropped, so that what takes time can begin. Must not wait.
    #[must_use]
    pub fn leaving(mut self, leave: impl Fn() + Send + Sync + 'static) -> Self {
        self.aside.get_or_insert_default().leave = Some(Box::new(leave));
        self
    }

    /// Another task that has this one, and all that it brings.
    #[must_use]
    #[doc(hidden)]
    pub fn map<T: Task + 'static>(self, wrap: impl FnOnce(Box<dyn Task>) -> T) -> Self {
        Self { task: Box::new(wrap(self.task)), ..self }
    }

    /// Has its alarm watched, and its changes reported.
    #[must_use]
    pub(crate) fn alarmed_by(mut self, alarm: Arc<Alarm>) -> Self {
        self.aside.get_or_insert_default().alarm = Some(alarm);
        self
    }

    /// Has its output made safe by others when the task does not.
    #[must_use]
    pub(crate) fn guarded_by(mut self, guard: &Arc<Guard>) -> Self {
        self.guards.push(Arc::downgrade(guard));
        self
    }
}

impl<T: Task + 'static> From<T> for Built {
    fn from(task: T) -> Self {
        let (stream, aside, beginnings, guards) = Default::default();
        Self { task: Box::new(task), code: code_of::<T>(), measures: true, stream, aside, beginnings, guards }
    }
}

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built").field("guards", &self.guards).finish_non_exhaustive()
    }
}

/// What others than its worker have of a task while it runs.
#[derive(Default)]
pub(crate) struct Aside {
    trouble: Option<Box<dyn Fn() -> Option<String> + Send + Sync>>,
    leave: Option<Box<dyn Fn() + Send + Sync>>,
    /// For the metrics thread, once.
    pub(crate) alarm: Option<Arc<Alarm>>,
}

impl Aside {
    /// What is wrong with the task now, as a clause.
    pub(crate) fn trouble(&self) -> Option<String> {
        // Of one that panics, which is reported elsewhere, nothing is known.
        catch_unwind(AssertUnwindSafe(|| self.trouble.as_ref()?())).ok().flatten()
    }

    /// A reload has ended the task.
    pub(crate) fn leave(&self) {
        // What one of them does wrong is not to keep the others.
        let _ = catch_unwind(AssertUnwindSafe(|| self.leave.as_ref().map(|leave| leave())));
    }
}

/// What one task writes before its first tick, if it still exists by then.
pub(crate) struct Beginning {
    write: Box<dyn FnOnce() -> Result<(), BuildError> + Send>,
    takes_over: bool,
}

impl Beginning {
    pub(crate) fn new(write: impl FnOnce() -> Result<(), BuildError> + Send + 'static) -> Self {
        Self { write: Box::new(write), takes_over: false }
    }

    /// The same; if it `takes_over` from a task that ticks, it writes nothing, and is done when all others are: until then its target is in the care
    /// of that task.
    pub(crate) fn taking_over(self, takes_over: bool) -> Self {
        Self { takes_over, ..self }
    }

    pub(crate) fn takes_over(&self) -> bool {
        self.takes_over
    }

    /// Does it. May block.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(crate) fn write(self) -> Result<(), BuildError> {
        (self.write)()
    }
}
