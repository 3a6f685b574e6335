//! What comes of building a task: the task, and what it brings for others. Nothing blocks here.

use super::error::BuildError;
use crate::safety::Guard;
use crate::task::Task;
use std::fmt;
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

    /// Another task that has this one, and all that it brings.
    #[must_use]
    #[doc(hidden)]
    pub fn map<T: Task + 'static>(self, wrap: impl FnOnce(Box<dyn Task>) -> T) -> Self {
        Self { task: Box::new(wrap(self.task)), ..self }
    }

    /// Has its output made safe by others when the task does not.
    #[must_use]
    pub(crate) fn guarded_by(mut self, guard: &Arc<Guard>) -> Self {
        self.guards.push(Arc::downgrade(guard));
        self
    }
}

impl From<Box<dyn Task>> for Built {
    fn from(task: Box<dyn Task>) -> Self {
        Self { task, beginnings: Vec::new(), guards: Vec::new() }
    }
}

impl<T: Task + 'static> From<T> for Built {
    fn from(task: T) -> Self {
        Self::from(Box::new(task) as Box<dyn Task>)
    }
}

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built").field("guards", &self.guards).finish_non_exhaustive()
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
