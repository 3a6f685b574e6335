//! What one thread writes and others read as of one moment, while neither waits: a sequence lock, and numbers in one.
//!
//! The order of its fences is that of Boehm, "Can seqlocks get along with programming language memory models?" (2012). No clock is read, and
//! nothing allocates.

use crate::atomic::{AtomicU64, Ordering, fence};
use std::array;

/// How often a reader tries to read between two updates; an update takes nanoseconds, unless its thread is preempted.
const ATTEMPTS: usize = 1_000;

/// Whether what it guards is of one moment. One thread writes.
#[derive(Debug, Default)]
pub(super) struct SequenceLock {
    begun: AtomicU64, // updates; ahead of `ended` during one
    ended: AtomicU64,
}

impl SequenceLock {
    /// Makes an update of these stores.
    pub(super) fn update(&self, stores: impl FnOnce()) {
        let update = self.ended.load(Ordering::Relaxed).wrapping_add(1);
        self.begun.store(update, Ordering::Relaxed);
        fence(Ordering::Release);
        stores();
        self.ended.store(update, Ordering::Release);
    }

    /// What these loads see; `None`: it is being updated.
    pub(super) fn try_read<T>(&self, loads: impl FnOnce() -> T) -> Option<T> {
        let ended = self.ended.load(Ordering::Acquire);
        let seen = loads();
        fence(Ordering::Acquire);
        (self.begun.load(Ordering::Relaxed) == ended).then_some(seen)
    }
}

/// What `try_read` sees between two updates; `None`: one lasts, as the thread that writes is preempted in the middle of it.
pub(super) fn soon<T>(try_read: impl Fn() -> Option<T>) -> Option<T> {
    (0..ATTEMPTS).find_map(|_| try_read())
}

/// The latest numbers that one thread has stored.
#[derive(Debug)]
pub(crate) struct Latest<const N: usize> {
    lock: SequenceLock,
    numbers: [AtomicU64; N],
}

impl<const N: usize> Default for Latest<N> {
    /// All are zero until the first ones are stored.
    fn default() -> Self {
        Self { lock: SequenceLock::default(), numbers: array::from_fn(|_| AtomicU64::default()) }
    }
}

impl<const N: usize> Latest<N> {
    /// These are the latest ones from now on. One thread may do this. If another does so at the same time, as at the hand-over of an alarm, what is
    /// read may be of either until the next call.
    pub(crate) fn store(&self, latest: [u64; N]) {
        self.lock.update(|| {
            for (number, latest) in self.numbers.iter().zip(latest) {
                number.store(latest, Ordering::Relaxed);
            }
        });
    }

    /// The latest ones: all of one call of [`store`](Self::store), unless its thread is preempted in the middle of it.
    pub(crate) fn read(&self) -> [u64; N] {
        soon(|| self.try_read()).unwrap_or_else(|| self.loads())
    }

    /// The same; `None`: they are being stored.
    pub(crate) fn try_read(&self) -> Option<[u64; N]> {
        self.lock.try_read(|| self.loads())
    }

    fn loads(&self) -> [u64; N] {
        array::from_fn(|at| self.numbers[at].load(Ordering::Relaxed))
    }
}
