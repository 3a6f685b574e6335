//! Targets whose outputs ended without writing the safe value: who still has to write it, and who has taken the target over. No clock is
//! read; nothing blocks.

use super::{Guard, PlannedWrite};
use crate::atomic::Ordering;
use crate::time::Instant;

impl Guard {
    /// The output has no safe value and keeps what its target holds; `writes` are sample writes to that target.
    pub(crate) fn keeps(&self, writes: Vec<PlannedWrite>) {
        _ = self.kept.set(writes);
    }

    /// Writes to the target: those that make it safe, or sample writes if the output has no safe value.
    pub(crate) fn writes(&self) -> Vec<PlannedWrite> {
        self.kept.get().cloned().unwrap_or_else(|| self.plan())
    }

    /// The task writes no more values. Returns whether it was the last that might. Called only by the task itself, once.
    pub(crate) fn leaves(&self) -> bool {
        self.has_begun() && self.watched.leaves()
    }

    /// The output has written its safe value or left that to others. In the latter case it is still watched, because a device may never
    /// return from the write.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed); // read by the thread that writes it, which builds tasks
    }

    /// Whether the safe value may still be needed: the task lives, or has left it to others. A thread may keep a guard a little longer than
    /// that.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) || self.is_owed()
    }

    /// The safe value was written after this `trip` and `request`. Returns true if it had been left to others: the target is then to be
    /// closed. A newer request stays. It may come from this task, which meanwhile recovered and ended without its safe value, or concern an
    /// earlier output.
    pub(crate) fn settle(&self, trip: u64, request: u64) -> bool {
        self.watched.trips() == trip && self.watched.take_wanted(request) && self.left.get().is_some()
    }

    /// The task has ended without its safe value; others have to write it.
    pub(crate) fn leave_unsafe(&self, now: Instant) {
        // The order matters: no one may mistake it for an output whose target another one has, and the target is closed once it is safe.
        self.watched.set_left(true);
        self.left.set(now);
        self.watched.set_wanted(true);
    }

    /// Whether others still have to write the safe value.
    pub(crate) fn is_owed(&self) -> bool {
        self.watched.is_left() && self.watched.is_wanted() && self.left.get().is_some()
    }

    /// No one owes this target a safe value any more.
    pub(crate) fn clear_left(&self) {
        self.watched.set_left(false);
    }

    /// The takeover is off: the old output's safe value is owed again.
    pub(crate) fn cancel_takeover(&self) {
        self.watched.set_left(true);
        self.watched.set_wanted(true);
    }

    /// The output has the target, and what was done for the one before no longer blocks it.
    pub(crate) fn has_target(&self) {
        self.watched.set_wanted(false);
        if let Some(trips) = self.tripped() {
            self.release(trips);
        }
        self.set_hanging(false);
        self.made_safe(None);
    }

    /// Whether the task ended without its safe value and another output has its target.
    pub(crate) fn is_replaced(&self) -> bool {
        self.left.get().is_some() && !self.watched.is_left()
    }
}
