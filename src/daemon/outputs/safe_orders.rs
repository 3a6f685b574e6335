//! Requests to the guard thread from other threads: make all outputs safe now, or for the last time.
//!
//! Counters, which `tests/loom` tries in every order. Nothing here waits or reads a clock.

use crate::atomic::{AtomicBool, AtomicU64, Ordering};

/// Orders to make all outputs safe, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct SafeOrders {
    given: AtomicU64,
    done: AtomicU64,     // the last one done
    is_last: AtomicBool, // the last order was given: failed writes are retried, and no output recovers
}

/// The orders so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    /// The number of the last order; 0: there was none.
    pub(crate) latest: u64,
    /// No further order will come.
    pub(super) is_last: bool,
}

impl SafeOrders {
    /// Gives an order, and returns its number.
    pub(crate) fn give(&self) -> u64 {
        self.given.fetch_add(1, Ordering::Release) + 1
    }

    /// Gives the last order.
    pub(super) fn give_last(&self) -> u64 {
        // Whoever sees the order must also see that it is the last.
        self.is_last.store(true, Ordering::Relaxed);
        self.give()
    }

    /// The orders so far, for the thread that carries them out.
    pub(crate) fn look(&self) -> Ordered {
        let latest = self.given.load(Ordering::Acquire);
        Ordered { latest, is_last: self.is_last.load(Ordering::Relaxed) }
    }

    /// All orders up to `latest` are done.
    pub(super) fn are_done(&self, latest: u64) {
        self.done.store(latest, Ordering::Release);
    }

    /// Whether this order is done.
    pub(super) fn is_done(&self, order: u64) -> bool {
        self.done.load(Ordering::Acquire) >= order
    }
}
