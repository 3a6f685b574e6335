//! Outputs that ended without their safe value: a reload closed the task, and the device refused the write. Each stays here with its target
//! until the thread of safe values has written the value, or another output has taken over the target. A mutex guards the lists: it is
//! locked where tasks are built and closed, never at a tick. Reads the monotonic clock.

use super::{Guard, Owing};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Span};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// How many times, and at what interval, to check whether a running write has returned.
const LOOKS: u32 = 100;
const BETWEEN: Span = Span::from_millis(10);

/// A target that a task gives up once it has its safe value.
pub(crate) trait Leave: Send + Sync {
    /// A task gives up the target.
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
    /// Takeovers of this start or reload, with the tasks that had the targets before, until the reload is accepted or refused.
    taken_over: Vec<(Arc<Guard>, String)>,
}

/// The outputs of a daemon that still need their safe value.
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

    /// Ends an output whose task is dropped. If it has not `finished`, and no other task may write to the target, its safe value is written
    /// now; if that fails, it is left to others. An output that has not begun never wrote, so nothing is written for it. May block.
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

    /// Leaves the safe value of an ending output to others.
    fn keep(&self, guard: &Arc<Guard>, target: Arc<dyn Leave>, owing: Owing) {
        guard.leave_unsafe(KernelClock::monotonic().now());
        self.lists().pending.push(Pending { guard: guard.clone(), target, _owing: owing });
    }

    /// Closes targets that now have their safe value or that others have taken over. May block.
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

    /// The tasks that had this output's target and left it without its safe value.
    fn names(&self, guard: &Guard) -> String {
        let lists = self.lists();
        let theirs = lists.pending.iter().filter(|pending| pending.guard.target() == guard.target());
        theirs.map(|pending| pending.guard.task()).collect::<Vec<_>>().join(", ")
    }

    /// Begins an output with `write`. If it takes its target from an output that ended without its safe value, that safe value is no longer
    /// owed, unless `write` fails or the start or reload is refused. The caller must afterwards call
    /// [`finish_takeovers`](Self::finish_takeovers) or [`cancel_takeovers`](Self::cancel_takeovers).
    ///
    /// # Errors
    /// The error of `write`, or that a running write of the safe value does not return.
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

    /// The start or reload is accepted: the outputs that had left their targets are done with.
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

    /// The start or reload was refused and its tasks are closed: the outputs that had left their targets owe their safe values again.
    pub(crate) fn cancel_takeovers(&self) {
        let taken_over = std::mem::take(&mut self.lists().taken_over);
        for (guard, _) in taken_over {
            guard.cancel_takeover();
        }
    }
}
