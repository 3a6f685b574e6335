//! An output to a user's own hardware: hertzd writes its safe value in all cases where it writes those of its own outputs. A tick allocates
//! nothing and makes no system call, except for what the task itself does.

use super::built::{Beginning, Built};
use super::device::DeviceId;
use super::error::BuildError;
use super::refusal::Refusal;
use super::target::{Target, Targets};
use super::{Claim, Holder, Site};
use crate::safety::{Guard, Live, LiveOutputs, Owed, PlannedWrite, SafeWrite, Writing};
use crate::task::{Column, Task, Tick, TickError};
use crate::time::{Instant, Span};
use std::fmt;
use std::io;
use std::sync::Arc;

/// A task's output, with the safe value that others write when the task does not.
///
/// The safe value is written:
/// - before the task's first tick,
/// - after each tick that ends with an error or a panic,
/// - when the task has not ticked for a while because its worker hangs,
/// - when the task is disabled or removed,
/// - at each end of the run,
/// - when another part of the process crashes.
///
/// At its next tick the task writes again. A safe value that cannot be written is retried, and `hertzd status` is not well until it is
/// written.
///
/// Another process does not know how to write it: a hertzd that is killed leaves the last value in place. Only hardware helps there, such
/// as a watchdog that the kind `heartbeat` serves.
pub struct SafeOutput {
    task: String,
    target: String,
    after: Span,
    write: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl SafeOutput {
    /// `task`: the [name](crate::config::Section::name) of its section. `target`: what it writes to, by a name that people know and no
    /// other target has; only one task has it at a time. `after`: how long the task may go without a tick; longer than its period. `write`
    /// writes the safe value through descriptors of its own: any thread may call it at any time, even while the task is in a write, and
    /// after a panic in one. Its stack is 128 KiB, so keep larger buffers elsewhere. It fails if it returns an error or panics, for example
    /// at `unwrap` of a lock that a panicking tick has poisoned.
    pub fn new(
        task: &str,
        target: impl Into<String>,
        after: Span,
        write: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let task = task.strip_prefix("task.").unwrap_or(task).to_owned();
        Self { task, target: target.into(), after, write: Box::new(write) }
    }
}

impl fmt::Debug for SafeOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeOutput").field("task", &self.task).field("target", &self.target).finish_non_exhaustive()
    }
}

struct Writer {
    target: String,
    write: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl SafeWrite for Writer {
    fn write_safe(&self) -> io::Result<()> {
        (self.write)()
    }

    fn plan(&self) -> Vec<PlannedWrite> {
        Vec::new()
    }

    fn has_no_plan(&self) -> bool {
        true
    }

    fn shown(&self) -> String {
        format!("that of {}", self.target)
    }
}

impl Built {
    /// Lets others make the task's output safe when the task does not: see [`SafeOutput`].
    ///
    /// # Errors
    /// Another task has the target.
    pub fn guarded(self, site: &Site, output: SafeOutput) -> Result<Self, BuildError> {
        let SafeOutput { task: name, target, after, write } = output;
        let id = DeviceId::Named(target.clone());
        let mut in_use = Refusal::in_use("kind", &target, [id.clone()]);
        let follows = match site.find_holder(&mut in_use) {
            Some(Holder::Task) => return Err(in_use.into()),
            holder => holder == Some(Holder::Ending),
        };
        let targets = site.common::<Targets>();
        let before = targets.join(&id);
        // An output does not continue from one that ended without its safe value.
        let follows = follows && before.is_some();
        let held = before.unwrap_or_else(|| targets.add(id.clone()));
        let shown = target.clone();
        // A reload may take that much longer until the first tick.
        let first_after = after + Span::from_seconds(5);
        let guard = Guard::new(&name, held.watched(), (after, first_after), Some(Box::new(Writer { target, write })));
        let (owed, live) = (site.common::<Owed>(), site.common::<LiveOutputs>().open(&name, after));
        let claim = site.claim([id], &name);
        let (of_guard, its_owed) = (Arc::downgrade(&guard), owed.clone());
        let begin = Beginning::new(move || {
            let Some(guard) = of_guard.upgrade() else { return Ok(()) };
            let message = |error| format!("cannot write the safe value of {shown}: {error}");
            let begun = its_owed.begin(&guard, || if follows { Ok(()) } else { guard.write_first() });
            begun.map_err(|error| BuildError { key: "kind", message: message(error) })
        })
        .taking_over(follows);
        let built = self.guarded_by(&guard).begins(begin);
        Ok(built.map(|task| Guarded { task, guard, held, owed, live, finished: false, _claim: claim }))
    }
}

/// A task with its safe value.
struct Guarded {
    task: Box<dyn Task>,
    guard: Arc<Guard>,
    held: Arc<Target>,
    owed: Arc<Owed>,
    live: Live,
    finished: bool,
    _claim: Claim,
}

/// A tick of the task, which may write. If it fails or panics, it may have written as well, so the safe value is written afterwards.
struct Attempt<'guard> {
    guard: &'guard Guard,
    writing: Option<Writing<'guard>>,
    is_well: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.writing = None;
        match self.is_well {
            true => self.guard.made_safe(None),
            // The guard records the result for status queries.
            false => _ = self.guard.trip(),
        }
    }
}

impl Task for Guarded {
    fn columns(&self) -> Vec<Column> {
        self.task.columns()
    }

    fn age(&self) -> Span {
        self.task.age()
    }

    fn origin(&self) -> Option<Instant> {
        self.task.origin()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let tripped = self.guard.tripped();
        self.guard.beat();
        if self.guard.is_sealed() {
            return Ok(()); // the run ends
        }
        if let Some(seen) = tripped {
            self.guard.release(seen);
        }
        let Some(writing) = self.guard.writing() else {
            return Ok(()); // made safe since this tick began; the next tick sees it
        };
        let mut attempt = Attempt { guard: &self.guard, writing: Some(writing), is_well: false };
        let done = self.task.tick(tick, values);
        attempt.is_well = done.is_ok();
        drop(attempt);
        self.live.ticked(done.is_ok());
        done
    }

    fn disabled(&mut self) {
        self.task.disabled();
        self.live.ended();
        self.finished = self.guard.end();
    }

    fn ended(&mut self) {
        self.task.ended();
        if self.guard.is_alone() && !self.finished {
            self.finished = self.guard.end();
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.owed.end(&self.guard, self.held.clone(), self.finished, || self.live.owing());
    }
}
