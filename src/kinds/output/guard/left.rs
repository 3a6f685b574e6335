//! Targets that outputs have left without their safe value: who still has to write it, and who has taken the target over. No clock is read; nothing
//! blocks.

use super::Guard;
use crate::time::Instant;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many outputs that had ended without their safe values have these now, or are replaced.
static SETTLED: AtomicU64 = AtomicU64::new(0);

/// How many outputs that had ended without their safe values have these now, or are replaced: their targets are to be closed.
pub(crate) fn settled() -> u64 {
    SETTLED.load(Ordering::SeqCst)
}

impl Guard {
    /// It was made safe.
    pub(crate) fn is_done(&self) {
        if self.watched.is_done() && self.left.get().is_some() {
            SETTLED.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Its task has ended without its safe value, which others have to write.
    pub(in crate::kinds::output) fn is_left_at(&self, now: Instant) {
        // In this order: nobody takes it for one whose target another output has, and its target is closed once it is made safe.
        self.watched.is_left_now();
        self.left.set(now);
        self.watched.wants(true);
    }

    /// Whether they still have to.
    pub(in crate::kinds::output) fn is_owed(&self) -> bool {
        self.watched.is_left() && self.is_wanted()
    }

    /// They have.
    pub(in crate::kinds::output) fn is_left_no_more(&self) {
        self.watched.is_left_still(false);
    }

    /// Takes the target over from an output that has ended without its safe value, if there is one: nobody begins to write that from now on.
    pub(in crate::kinds::output) fn takes_over(&self) -> bool {
        self.watched.takes_over()
    }

    /// It could not: that one goes on.
    pub(in crate::kinds::output) fn does_not_take_over(&self) {
        self.watched.is_left_still(true);
    }

    /// It has.
    pub(in crate::kinds::output) fn has_taken_over(&self) {
        self.watched.wants(false);
        if let Some(trips) = self.tripped() {
            self.release(trips);
        }
        self.hangs(false);
        self.made_safe(None);
        SETTLED.fetch_add(1, Ordering::SeqCst);
    }

    /// Its task has ended without its safe value, and another output has its target.
    pub(in crate::kinds::output) fn is_replaced(&self) -> bool {
        self.left.get().is_some() && !self.watched.is_left()
    }
}
