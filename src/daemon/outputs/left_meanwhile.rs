//! Writes left outputs while the builder opens or closes devices. If a device hangs, the builder's thread can do nothing else; so after a
//! while a thread of the pool does it.

use super::guard_thread::GuardThread;
use super::left_outputs::LeftOutputs;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Span};
use crossbeam_channel::{RecvTimeoutError, Sender, TryRecvError, bounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::warn;

/// A device that takes longer than this may be hanging.
const HANGS_AFTER: Span = Span::from_millis(500);

/// How often to check whether a write has ended or must be tried again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The left outputs, shared by the builder and this thread.
pub(super) type SharedLeft = Arc<Mutex<LeftOutputs>>;

pub(super) fn lock(left: &SharedLeft) -> MutexGuard<'_, LeftOutputs> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Left outputs are written until this is dropped. Afterwards no write begins.
#[derive(Debug)]
pub(crate) struct Meanwhile {
    left: SharedLeft,
    lasts: Option<Sender<()>>,
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        let left = lock(&self.left);
        left.are_written_meanwhile(false);
        self.lasts = None;
    }
}

/// Called by the thread after each round: shows the tasks that a start must still deal with, and what is owed and why.
pub(crate) type Shows = dyn Fn(Option<String>, Option<String>) + Send;

/// Begins to write left outputs. `stops`: the process is about to end, so no output begins any more. `None`: nothing is left.
pub(super) fn begin(
    left: &SharedLeft,
    guard: Arc<GuardThread>,
    stops: Arc<AtomicBool>,
    shows: Box<Shows>,
) -> Option<Meanwhile> {
    let (tasks, pool) = {
        let left = lock(left);
        let tasks = left.tasks()?;
        left.are_written_meanwhile(true);
        (tasks, left.pool())
    };
    let ((lasts, ended), its) = (bounded(0), left.clone());
    let meanwhile = Meanwhile { left: left.clone(), lasts: Some(lasts) };
    let write = move |(): &mut ()| {
        let (clock, left) = (KernelClock::monotonic(), its);
        let began = clock.now();
        while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let is_stopping = stops.load(Ordering::Relaxed);
            if !is_stopping && clock.now() - began < HANGS_AFTER {
                continue;
            }
            let mut left = lock(&left);
            if ended.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            left.write_meanwhile(&guard.planned(), is_stopping);
            shows(left.left_by_start(), left.trouble());
        }
    };
    if let Err((error, _)) = pool.give(Box::new(write)) {
        warn!(
            "{tasks}: should a device hang, the safe values that an earlier run has left are written only after that: there is no thread for it: {error}"
        );
    }
    Some(meanwhile)
}
