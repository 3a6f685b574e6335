//! Outputs that have ended without their safe value: a reload has closed the task, and the device has refused the write. Each stays here, with
//! its target, until the thread of safe values has written it, or another output has taken the target over. A mutex guards the lists: they are
//! used where tasks are built and closed, never at a tick. Reads the monotonic clock.

use super::{Guard, Owing};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Span};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// How often, and after what time, it is looked whether a write has returned that is under way.
const LOOKS: u32 = 100;
const BETWEEN: Span = Span::from_millis(10);

/// A target that a task leaves, when it has its safe value.
pub(crate) trait Leave: Send + Sync {
    /// No task has it any more.
    fn leave(&self);
}

struct Pending {
    guard: Arc<Guard>,
    target: Arc<dyn Leave>,
    _owing: Owing,
}

#[derive(Default)]
struct Lists {
    pending: Vec<Pending>, // in the order in which they ended
    /// Takeovers of this start or reload, with the tasks that had the targets before, until it is known whether it is refused.
    taken_over: Vec<(Arc<Guard>, String)>,
}

/// Who still has to get its safe value, of the outputs of a daemon.
#[derive(Default)]
pub(crate) struct Owed(Mutex<Lists>);

impl fmt::Debug for Owed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owed").finish_non_exhaustive()
    }
}

impl Owed {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an output whose task is dropped. Unless it has `finished`, its safe value is written now, if no other task may write to the target, and
    /// left to others if that fails. For one that has not begun nothing was written, and nothing is. May block.
    pub(crate) fn end(
        &self,
        guard: &Arc<Guard>,
        target: Arc<dyn Leave>,
        finished: bool,
        owing: impl FnOnce() -> Owing,
    ) {
        if guard.leaves() && !finished && guard.trip().is_err() {
            self.keep(guard, target, owing());
        } else {
            target.leave();
        }
        guard.close();
    }

    /// Has others write the safe value of an output that ends without it.
    fn keep(&self, guard: &Arc<Guard>, target: Arc<dyn Leave>, owing: Owing) {
        guard.leave_unsafe(KernelClock::monotonic().now());
        self.lists().pending.push(Pending { guard: guard.clone(), target, _owing: owing });
    }

    /// Closes the targets of those that have their safe values, or that others have taken over. May block.
    pub(crate) fn close_settled(&self) {
        let mut lists = self.lists();
        let (left, settled): (Vec<_>, Vec<_>) = lists.pending.drain(..).partition(|pending| pending.guard.is_owed());
        lists.pending = left;
        drop(lists);
        for Pending { guard, target, .. } in settled {
            guard.clear_left();
            target.leave();
        }
    }

    /// The tasks that had the target of this output, and left it without its safe value.
    fn names(&self, guard: &Guard) -> String {
        let lists = self.lists();
        let theirs = lists.pending.iter().filter(|pending| pending.guard.target() == guard.target());
        theirs.map(|pending| pending.guard.task()).collect::<Vec<_>>().join(", ")
    }

    /// Has an output begin, by `write`. One that has left its target without its safe value is over then, unless that fails, or the start or the
    /// reload is refused: whoever calls this calls [`finish_takeovers`](Self::finish_takeovers) or [`cancel_takeovers`](Self::cancel_takeovers) after it.
    ///
    /// # Errors
    /// What `write` said, or that a write of the safe value does not return.
    pub(crate) fn begin(&self, guard: &Arc<Guard>, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !guard.begin_takeover() {
            write()?;
            guard.begins();
            return Ok(());
        }
        let quiet = || guard.written().is_quiet();
        let is_quiet = quiet() || (0..LOOKS).any(|_| (pause(BETWEEN), quiet()).1);
        let written = match is_quiet {
            true => write(),
            false => Err(io::Error::other(format!(
                "the write of the safe value of {}, which had it, does not return",
                self.names(guard)
            ))),
        };
        if let Err(error) = written {
            guard.cancel_takeover();
            return Err(error);
        }
        guard.has_target();
        guard.begins();
        let before = self.names(guard);
        self.lists().taken_over.push((guard.clone(), before));
        Ok(())
    }

    /// The start or the reload is not refused any more: the outputs that had left their targets are over.
    pub(crate) fn finish_takeovers(&self) {
        let taken_over = std::mem::take(&mut self.lists().taken_over);
        for (guard, before) in taken_over {
            let task = guard.task();
            warn!(
                task,
                "{task}: has the target now that {before} left without its safe value, which is not written any more"
            );
        }
    }

    /// It was refused, and what it had built is closed: the outputs that had left their targets still owe them their safe values.
    pub(crate) fn cancel_takeovers(&self) {
        let taken_over = std::mem::take(&mut self.lists().taken_over);
        for (guard, _) in taken_over {
            guard.cancel_takeover();
        }
    }
}
