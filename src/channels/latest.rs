//! A consistent snapshot from one writer thread to others, without waiting: a sequence lock, and an array of numbers guarded by one.
//!
//! The order of the fences follows Boehm, "Can seqlocks get along with programming language memory models?" (2012). No clock is read, and
//! nothing allocates.

use crate::atomic::{AtomicU64, Ordering, fence};
use std::array;

/// Attempts of a reader to read between two updates. An update takes nanoseconds, unless its thread is preempted.
const ATTEMPTS: usize = 1_000;

/// Tells whether the guarded data is consistent. Only one thread may write.
#[derive(Debug, Default)]
pub(super) struct SequenceLock {
    begun: AtomicU64, // number of updates; ahead of `ended` during an update
    ended: AtomicU64,
}

impl SequenceLock {
    /// Makes these stores one update.
    pub(super) fn update(&self, stores: impl FnOnce()) {
        let update = self.ended.load(Ordering::Relaxed).wrapping_add(1);
        self.begun.store(update, Ordering::Relaxed);
        fence(Ordering::Release);
        stores();
        self.ended.store(update, Ordering::Release);
    }

    /// The result of these loads; `None` during an update.
    pub(super) fn try_read<T>(&self, loads: impl FnOnce() -> T) -> Option<T> {
        let ended = self.ended.load(Ordering::Acquire);
        let seen = loads();
        fence(Ordering::Acquire);
        (self.begun.load(Ordering::Relaxed) == ended).then_some(seen)
    }
}

/// Retries `try_read` until it succeeds. `None` if an update lasts because the writer is preempted in the middle of it.
pub(super) fn soon<T>(try_read: impl Fn() -> Option<T>) -> Option<T> {
    (0..ATTEMPTS).find_map(|_| try_read())
}

/// The numbers that one thread last stored.
#[derive(Debug)]
pub(crate) struct Latest<const N: usize> {
    lock: SequenceLock,
    numbers: [AtomicU64; N],
}

impl<const N: usize> Default for Latest<N> {
    /// All are zero until the first store.
    fn default() -> Self {
        Self { lock: SequenceLock::default(), numbers: array::from_fn(|_| AtomicU64::default()) }
    }
}

impl<const N: usize> Latest<N> {
    /// Stores the numbers. Only one thread may do this. If two do so at the same time, as when an alarm is handed over, a reader may see a
    /// mix of both until the next call.
    pub(crate) fn store(&self, latest: [u64; N]) {
        self.lock.update(|| {
            for (number, latest) in self.numbers.iter().zip(latest) {
                number.store(latest, Ordering::Relaxed);
            }
        });
    }

    /// The current numbers, all from one call of [`store`](Self::store), unless the writer is preempted in the middle of it.
    pub(crate) fn read(&self) -> [u64; N] {
        soon(|| self.try_read()).unwrap_or_else(|| self.loads())
    }

    /// The same; `None` during a store.
    pub(crate) fn try_read(&self) -> Option<[u64; N]> {
        self.lock.try_read(|| self.loads())
    }

    fn loads(&self) -> [u64; N] {
        array::from_fn(|at| self.numbers[at].load(Ordering::Relaxed))
    }
}
