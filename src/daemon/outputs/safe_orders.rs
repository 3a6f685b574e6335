//! What is asked of the guard thread from outside: the safe values of all outputs, now, or for the last time.
//!
//! Counters, which `tests/loom` tries in every order. Nothing here waits, no clock is read.

use crate::atomic::{AtomicBool, AtomicU64, Ordering};

/// Orders to make all outputs safe, which are numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct SafeOrders {
    given: AtomicU64,
    done: AtomicU64,     // the latest
    is_last: AtomicBool, // of those that were given: failed writes are tried again, and no output recovers
}

/// What was ordered so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    /// The number of the latest order; 0: there was none.
    pub(crate) latest: u64,
    /// There will be no other one.
    pub(super) is_last: bool,
}

impl SafeOrders {
    /// Gives an order, and returns its number.
    pub(crate) fn give(&self) -> u64 {
        self.given.fetch_add(1, Ordering::Release) + 1
    }

    /// Gives the last one.
    pub(super) fn give_last(&self) -> u64 {
        // Whoever sees the order is to see that it is the last.
        self.is_last.store(true, Ordering::Relaxed);
        self.give()
    }

    /// For who carries them out.
    pub(crate) fn look(&self) -> Ordered {
        let latest = self.given.load(Ordering::Acquire);
        Ordered { latest, is_last: self.is_last.load(Ordering::Relaxed) }
    }

    /// All up to this one are carried out.
    pub(super) fn are_done(&self, latest: u64) {
        self.done.store(latest, Ordering::Release);
    }

    /// Whether this one is.
    pub(super) fn is_done(&self, order: u64) -> bool {
        self.done.load(Ordering::Acquire) >= order
    }
}
