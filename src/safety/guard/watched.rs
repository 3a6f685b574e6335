//! State that an output's task shares, without a lock, with the threads that may make its target safe. Wait-free for all of them; no clock
//! is read.
//!
//! In two places, two threads each announce what they do and then check what the other has announced; at least one must see the other.
//! These are the task's own write against a trip ([`Watched::writing`], [`Watched::block`]), and a safe write against a takeover
//! ([`LastWritten::begin`], [`Watched::begin_takeover`]). Each side has a sequentially consistent fence between its two steps. `tests/loom`
//! tries every order, and removes each of these memory orderings in turn.

use super::super::written::LastWritten;
use crate::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use crate::time::Instant;
use std::sync::Arc;

/// One target: shared by the tasks that have it one after the other, and by the thread that watches over them.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    beats: AtomicU64,     // ticks its tasks have begun
    trips: AtomicU64,     // how often another thread has made it safe
    released: AtomicU64,  // the last trip its task has recovered from
    sealed: AtomicBool,   // its task will not recover: the process ends
    writing: AtomicUsize, // tasks inside a write of a value, or about to check whether they may write: two at most, see `acting`
    wanted: AtomicU64,    // number of a request: the task could not make it safe when disabled or ended; 0: none
    wants: AtomicU64,     // requests so far
    errno: AtomicI32,     // of the last safe write; 0: it succeeded; negative: not a system call's error
    hangs: AtomicBool,    // the last safe write has been running for a long time
    written: Arc<LastWritten>,
    lost: AtomicBool,    // it is gone, and is looked for
    left: AtomicBool,    // an output has ended without its safe value, and no other has taken over
    acting: AtomicUsize, // outputs that may write to it: two during a takeover
}

/// While this lives, the task may write a value: no other thread makes the target safe, or that thread makes it safe again afterwards.
pub(crate) struct Writing<'a>(&'a Watched);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::Release); // whoever sees this writes after it
    }
}

impl Watched {
    /// The record of the last write to the target.
    pub(crate) fn written(&self) -> &Arc<LastWritten> {
        &self.written
    }

    /// One more output may write from now on.
    pub(crate) fn begins(&self) {
        self.acting.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether exactly one output may write.
    pub(crate) fn has_one_writer(&self) -> bool {
        self.acting.load(Ordering::Acquire) == 1 // all writes of others came before
    }

    /// An output writes no more. Returns whether it was the last that might.
    pub(crate) fn leaves(&self) -> bool {
        self.acting.fetch_sub(1, Ordering::AcqRel) == 1 // the last one comes after all others
    }

    /// A task ticks. Called only by the task itself.
    pub(crate) fn beat(&self) {
        self.beats.store(self.beats() + 1, Ordering::Relaxed);
    }

    /// How many ticks the tasks have begun.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Stops the task from starting a write until it has recovered. Returns the number of this trip.
    pub(crate) fn block(&self) -> u64 {
        let before = self.trips.fetch_add(1, Ordering::Release); // whoever sees it, and then writes, also sees whether it is final
        fence(Ordering::SeqCst); // pairs with `writing`: the task sees this trip, or its write is seen
        before + 1
    }

    /// How often the target was made safe.
    pub(crate) fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// Blocks again if the task recovered while the target was being made safe: the safe value may have overwritten what it wrote since.
    pub(crate) fn block_if_released(&self) {
        fence(Ordering::SeqCst); // pairs with `writing`: a later write was released later
        if self.tripped().is_none() {
            self.block();
        }
    }

    /// The number of the last trip, if the task has not recovered from it.
    pub(crate) fn tripped(&self) -> Option<u64> {
        let trips = self.trips();
        (trips != self.released.load(Ordering::Relaxed)).then_some(trips)
    }

    /// The task has recovered from trip `seen`. It stays blocked if another trip came since.
    pub(crate) fn release(&self, seen: u64) {
        self.released.store(seen, Ordering::Relaxed);
    }

    /// Stops the task from recovering, for good.
    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Relaxed);
    }

    /// Whether [`seal`](Self::seal) was called.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Relaxed)
    }

    /// Starts a write of a value by the task; `None`: it must not write.
    pub(crate) fn writing(&self) -> Option<Writing<'_>> {
        self.writing.fetch_add(1, Ordering::Relaxed);
        let writing = Writing(self);
        fence(Ordering::SeqCst); // pairs with `block`: this write is seen, or the trip is
        (self.tripped().is_none() && !self.is_sealed()).then_some(writing)
    }

    /// Whether a task's write is running.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) > 0
    }

    /// Whether the target is gone. A thread that learns this slightly late writes to nothing.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sets whether the target is gone.
    pub(crate) fn set_lost(&self, lost: bool) {
        self.lost.store(lost, Ordering::Relaxed);
    }

    /// Whether the safe value is left to others.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > 0
    }

    /// The number of the newest such request; 0: none so far.
    pub(crate) fn request(&self) -> u64 {
        self.wants.load(Ordering::Acquire)
    }

    /// Sets whether the safe value is left to others.
    pub(crate) fn set_wanted(&self, wanted: bool) {
        // Whoever sees this number also sees that its output has ended, and which outputs others have closed.
        let number = if wanted { self.wants.fetch_add(1, Ordering::Release) + 1 } else { 0 };
        self.wanted.swap(number, Ordering::Relaxed);
    }

    /// The safe value was written after this request. Returns whether the request was still in force; a newer one stays.
    pub(crate) fn take_wanted(&self, request: u64) -> bool {
        // Whoever sees this closes the target after the write, which ended with a fence of its own.
        request > 0 && self.wanted.compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Result of the last safe write: 0, an error number, or a negative code.
    pub(crate) fn errno(&self) -> i32 {
        self.errno.load(Ordering::Relaxed)
    }

    /// Sets the result of the last safe write.
    pub(crate) fn set_errno(&self, errno: i32) {
        self.errno.store(errno, Ordering::Relaxed);
    }

    /// Whether the last safe write has been running for a long time.
    pub(crate) fn is_hanging(&self) -> bool {
        self.hangs.load(Ordering::Relaxed)
    }

    /// Sets whether the last safe write has been running for a long time.
    pub(crate) fn set_hanging(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    /// Whether an output has ended without its safe value and no other has taken over.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Sets whether an output has ended without its safe value.
    pub(crate) fn set_left(&self, left: bool) {
        self.left.store(left, Ordering::Release); // whoever takes the target over writes after that output
    }

    /// Takes the target over if it was left: from now on no one starts to write the old safe value. A write that started before shows in
    /// [`Watched::written`].
    pub(crate) fn begin_takeover(&self) -> bool {
        let was_left = self.left.swap(false, Ordering::Relaxed);
        // Pairs with `LastWritten::begin`: a running write is seen, or sees this. Writes from now on come after the output that left the
        // target.
        fence(Ordering::SeqCst);
        was_left
    }
}

/// When an output ended without its safe value; empty until then.
#[derive(Debug)]
pub(super) struct LeftAt(AtomicI64); // nanoseconds on the monotonic clock

impl Default for LeftAt {
    fn default() -> Self {
        Self(AtomicI64::new(Self::NEVER))
    }
}

impl LeftAt {
    const NEVER: i64 = i64::MIN;

    /// Records the end. Whoever sees it also sees that the target is left.
    pub(super) fn set(&self, now: Instant) {
        self.0.store(i64::try_from(now.nanos()).unwrap_or(i64::MAX), Ordering::Release);
    }

    /// The time of that end; `None`: it has not happened.
    pub(super) fn get(&self) -> Option<Instant> {
        let nanos = self.0.load(Ordering::Acquire);
        (nanos != Self::NEVER).then(|| Instant::from_nanos(nanos.into()))
    }
}
