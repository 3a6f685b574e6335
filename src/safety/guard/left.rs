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

    /// Its task writes no more. Whether it was the last one that might. Only the task itself calls it, once.
    pub(crate) fn leaves(&self) -> bool {
        self.closed.store(true, Ordering::Relaxed); // read by the thread that writes it, which builds tasks
        self.has_begun() && self.watched.leaves()
    }

    /// Whether its safe value may be wanted: its task lives, or has left it to others. A thread that is just done with a guard keeps it for longer.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) || self.is_owed()
    }

    /// The safe value was written after this `trip`, and nothing has come since. True: that was left to others, and the target is to be closed.
    pub(crate) fn settle(&self, trip: u64) -> bool {
        // A task that has recovered since, and could not make it safe at its end, wants it again. What is wanted of a target that this one has no
        // more is another's.
        if self.watched.trips() != trip || !self.is_open() {
            return false;
        }
        let was_wanted = self.watched.take_wanted();
        if was_wanted && self.watched.trips() != trip {
            self.watched.set_wanted(true);
            return false;
        }
        was_wanted && self.left.get().is_some()
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

    /// Takes the target over from an output that has ended without its safe value, if there is one: no one begins to write that from now on.
    pub(crate) fn begin_takeover(&self) -> bool {
        self.watched.begin_takeover()
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
