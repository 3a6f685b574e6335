//! The result of building a task: the task, and what it provides for others. Nothing blocks here.

use super::error::BuildError;
use crate::channels::Stream;
use crate::channels::alarm::Alarm;
use crate::safety::Guard;
use crate::task::{Task, code_of};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// A task that has been built, with what it provides for others. A task that provides nothing is converted with `into()`.
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
    /// The task itself.
    pub task: Box<dyn Task>,
    pub(crate) code: usize, // address of its tick function
    pub(crate) measures: bool,
    /// Its stream of blocks, if it produces any.
    #[doc(hidden)]
    pub stream: Option<Stream>,
    pub(crate) aside: Option<Aside>,
    pub(crate) beginnings: Vec<Beginning>,
    pub(crate) guards: Vec<Weak<Guard>>,
}

impl Built {
    /// Calls `write` once all tasks of a start or reload are built and only a device can still refuse: for a task's first write. The
    /// closure must not keep the task's own resources alive; the task may be gone by then.
    #[must_use]
    pub fn beginning(self, write: impl FnOnce() -> Result<(), BuildError> + Send + 'static) -> Self {
        self.begins(Beginning::new(write))
    }

    #[must_use]
    pub(crate) fn begins(mut self, beginning: Beginning) -> Self {
        self.beginnings.push(beginning);
        self
    }

    /// Declares that the task's values are not measurements, such as those of a setpoint or an output. Then no age starts at them along the
    /// chain of tasks that read them. If the task itself reads values, its age is theirs in any case.
    #[must_use]
    pub fn measures_nothing(self) -> Self {
        Self { measures: false, ..self }
    }

    /// Calls `trouble` from time to time while the task runs, off the hot thread. It returns what is wrong with the task, as a clause that
    /// names it. Meanwhile `hertzd status` is not well and shows that reason. Must not wait.
    #[must_use]
    pub fn troubled_by(mut self, trouble: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.aside.get_or_insert_default().trouble = Some(Box::new(trouble));
        self
    }

    /// Calls `leave` when a reload has removed or replaced the task, which is dropped soon, perhaps after others. Called once, off the hot
    /// thread, before the reload drops the first of the tasks it ended on that worker: slow work can start here. Must not wait.
    #[must_use]
    pub fn leaving(mut self, leave: impl Fn() + Send + Sync + 'static) -> Self {
        self.aside.get_or_insert_default().leave = Some(Box::new(leave));
        self
    }

    /// Wraps the task in another one; everything it provides stays.
    #[must_use]
    #[doc(hidden)]
    pub fn map<T: Task + 'static>(self, wrap: impl FnOnce(Box<dyn Task>) -> T) -> Self {
        Self { task: Box::new(wrap(self.task)), ..self }
    }

    /// Registers the task's alarm, so that its changes are watched and reported.
    #[must_use]
    pub(crate) fn alarmed_by(mut self, alarm: Arc<Alarm>) -> Self {
        self.aside.get_or_insert_default().alarm = Some(alarm);
        self
    }

    /// Lets others make the task's output safe when the task does not.
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

/// What other threads than its worker use of a task while it runs.
#[derive(Default)]
pub(crate) struct Aside {
    trouble: Option<Box<dyn Fn() -> Option<String> + Send + Sync>>,
    leave: Option<Box<dyn Fn() + Send + Sync>>,
    /// Used by the metrics thread, once.
    pub(crate) alarm: Option<Arc<Alarm>>,
}

impl Aside {
    /// What is wrong with the task now, as a clause.
    pub(crate) fn trouble(&self) -> Option<String> {
        // A panic here counts as nothing known; it is reported elsewhere.
        catch_unwind(AssertUnwindSafe(|| self.trouble.as_ref()?())).ok().flatten()
    }

    /// A reload has ended the task.
    pub(crate) fn leave(&self) {
        // A panic in one task's closure must not keep the others from being called.
        let _ = catch_unwind(AssertUnwindSafe(|| self.leave.as_ref().map(|leave| leave())));
    }
}

/// A task's write before its first tick, if the task still exists by then.
pub(crate) struct Beginning {
    write: Box<dyn FnOnce() -> Result<(), BuildError> + Send>,
    takes_over: bool,
}

impl Beginning {
    pub(crate) fn new(write: impl FnOnce() -> Result<(), BuildError> + Send + 'static) -> Self {
        Self { write: Box::new(write), takes_over: false }
    }

    /// If the task `takes_over` from one that ticks, it writes nothing and begins after all others: until then its target is in that task's
    /// care.
    pub(crate) fn taking_over(self, takes_over: bool) -> Self {
        Self { takes_over, ..self }
    }

    pub(crate) fn takes_over(&self) -> bool {
        self.takes_over
    }

    /// Runs it. May block.
    ///
    /// # Errors
    /// The write that the kernel refused.
    pub(crate) fn write(self) -> Result<(), BuildError> {
        (self.write)()
    }
}
