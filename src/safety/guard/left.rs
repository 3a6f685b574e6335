//! Targets that outputs have left without their safe value: who still has to write it, and who has taken the target over. No clock is read; nothing
//! blocks.

use super::{Guard, PlannedWrite};
use crate::atomic::Ordering;
use crate::time::Instant;

impl Guard {
    /// It keeps what its target has, whatever happens; these would write to that.
    pub(crate) fn keeps(&self, writes: Vec<PlannedWrite>) {
        _ = self.kept.set(writes);
    }

    /// Writes to its target: those that make it safe, or if it keeps what it has, any.
    pub(crate) fn writes(&self) -> Vec<PlannedWrite> {
        self.kept.get().cloned().unwrap_or_else(|| self.plan())
    }

    /// Its task writes no more values. Whether it was the last one that might. Only the task itself calls it, once.
    pub(crate) fn leaves(&self) -> bool {
        self.has_begun() && self.watched.leaves()
    }

    /// It has written its safe value, or left that to others: until then it is watched, as a device may not return from that write.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed); // read by the thread that writes it, which builds tasks
    }

    /// Whether its safe value may be wanted: its task lives, or has left it to others. A thread that is just done with a guard keeps it for longer.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) || self.is_owed()
    }

    /// The safe value was written after this `trip` and `request`. True: that was left to others, and the target is to be closed. A request that has
    /// come since stays: of this task, which has recovered meanwhile and ended without its safe value, or for an output before it.
    pub(crate) fn settle(&self, trip: u64, request: u64) -> bool {
        self.watched.trips() == trip && self.watched.take_wanted(request) && self.left.get().is_some()
    }

    /// Its task has ended without its safe value, which others have to write.
    pub(crate) fn leave_unsafe(&self, now: Instant) {
        // In this order: no one takes it for one whose target another output has, and its target is closed once it is made safe.
        self.watched.set_left(true);
        self.left.set(now);
        self.watched.set_wanted(true);
    }

    /// Whether others still have to write it.
    pub(crate) fn is_owed(&self) -> bool {
        self.watched.is_left() && self.watched.is_wanted() && self.left.get().is_some()
    }

    /// No one owes it the safe value any more.
    pub(crate) fn clear_left(&self) {
        self.watched.set_left(false);
    }

    /// It does not take the target over: that one goes on.
    pub(crate) fn cancel_takeover(&self) {
        self.watched.set_left(true);
        self.watched.set_wanted(true);
    }

    /// It has the target, and is not kept from writing by what was done for the other one.
    pub(crate) fn has_target(&self) {
        self.watched.set_wanted(false);
        if let Some(trips) = self.tripped() {
            self.release(trips);
        }
        self.set_hanging(false);
        self.made_safe(None);
    }

    /// Its task has ended without its safe value, and another output has its target.
    pub(crate) fn is_replaced(&self) -> bool {
        self.left.get().is_some() && !self.watched.is_left()
    }
}
