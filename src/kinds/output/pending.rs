//! Outputs that have ended without their safe value: a reload has closed the task, and the device has refused the write. Each stays here, with
//! its target, until the thread of safe values has written it, or another output has taken the target over. A mutex guards the list: it is
//! used where tasks are built and closed, never at a tick. Reads the monotonic clock.

use super::guard::Guard;
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Span};
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::warn;

/// How often, and after what time, it is looked whether a write has returned that is under way.
const LOOKS: u32 = 100;
const BETWEEN: Span = Span::from_millis(10);

/// A target that a task leaves, when it has its safe value.
pub(in crate::kinds) trait Leave: Send + Sync {
    /// No task has it any more.
    fn leave(&self);
}

struct Pending {
    guard: Arc<Guard>,
    target: Arc<dyn Leave>,
}

/// In the order in which they ended.
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

/// Has others write the safe value of an output that ends without it.
pub(in crate::kinds) fn keep(guard: &Arc<Guard>, target: Arc<dyn Leave>) {
    guard.leave_unsafe(KernelClock::monotonic().now());
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).push(Pending { guard: guard.clone(), target });
}

/// Closes the targets of those that have their safe values, or that others have taken over. May block.
pub(crate) fn close_settled() {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let (left, settled): (Vec<_>, Vec<_>) = pending.drain(..).partition(|pending| pending.guard.is_owed());
    *pending = left;
    drop(pending);
    for Pending { guard, target } in settled {
        guard.clear_left();
        target.leave();
    }
}

/// The tasks that had the target of this output, and left it without its safe value.
fn names(guard: &Guard) -> String {
    let pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let theirs = pending.iter().filter(|pending| pending.guard.has_target_of(guard));
    theirs.map(|pending| pending.guard.task()).collect::<Vec<_>>().join(", ")
}

thread_local! {
    /// Takeovers of this start or reload, with the tasks that had the targets before, until it is known whether it is refused.
    static TAKEN_OVER: RefCell<Vec<(Arc<Guard>, String)>> = const { RefCell::new(Vec::new()) };
}

/// Has an output begin, by `write`. One that has left its target without its safe value is over then, unless that fails, or the start or the
/// reload is refused: whoever calls this calls [`finish_takeovers`] or [`cancel_takeovers`] on the same thread.
///
/// # Errors
/// What `write` said, or that a write of the safe value does not return.
pub(in crate::kinds) fn begin(guard: &Arc<Guard>, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
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
            names(guard)
        ))),
    };
    if let Err(error) = written {
        guard.cancel_takeover();
        return Err(error);
    }
    guard.has_target();
    guard.begins();
    TAKEN_OVER.with_borrow_mut(|all| all.push((guard.clone(), names(guard))));
    Ok(())
}

/// The start or the reload is not refused any more: the outputs that had left their targets are over.
pub(crate) fn finish_takeovers() {
    for (guard, before) in TAKEN_OVER.take() {
        let task = guard.task();
        guard.finish_takeover();
        warn!(
            task,
            "{task}: has the target now that {before} left without its safe value, which is not written any more"
        );
    }
}

/// It was refused, and what it had built is closed: the outputs that had left their targets still owe them their safe values.
pub(crate) fn cancel_takeovers() {
    for (guard, _) in TAKEN_OVER.take() {
        guard.cancel_takeover();
    }
}
