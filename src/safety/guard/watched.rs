//! What the task of an output shares, without a lock, with the threads that may make its target safe. Wait-free for all of them; no clock is read.
//!
//! Twice each of two threads first says what it does and then looks at what the other one has said, and at least one must see the other: a write of
//! the task's own and a trip ([`Watched::writing`], [`Watched::block`]), and a safe write and a takeover ([`LastWritten::begin`],
//! [`Watched::begin_takeover`]). Between the two steps stands a sequentially consistent fence, on either side. `tests/loom` tries all of it in every
//! order, and without each of these words.

use super::super::written::LastWritten;
use crate::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use crate::time::Instant;
use std::sync::Arc;

/// One target, as the tasks share it that have it one after the other, and as the thread sees it that watches over them.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    beats: AtomicU64,     // ticks that its tasks have begun
    trips: AtomicU64,     // so often it was made safe by another thread
    released: AtomicU64,  // the one of these that its task has recovered from
    sealed: AtomicBool,   // its task will not recover: the process ends
    writing: AtomicUsize, // so many tasks are in a write of a value, or about to ask whether they may: two at most, see `acting`
    wanted: AtomicU64, // the number of a request: the task could not make it safe when it was disabled, or ended; 0: there is none
    wants: AtomicU64,  // requests so far
    errno: AtomicI32,  // of the latest safe write, 0: it succeeded; -1: something else than a system call was wrong
    hangs: AtomicBool, // the latest safe write has not returned for long
    written: Arc<LastWritten>,
    lost: AtomicBool,    // it is not there, and is looked for
    left: AtomicBool,    // an output has ended without its safe value, and no other one has taken it over
    acting: AtomicUsize, // outputs that may write to it: two while one takes over from another
}

/// While it lives, the task may write a value: it is not made safe by another thread, or that one makes it safe again afterwards.
pub(crate) struct Writing<'a>(&'a Watched);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::Release); // who sees this writes after it
    }
}

impl Watched {
    /// What the target was given last.
    pub(crate) fn written(&self) -> &Arc<LastWritten> {
        &self.written
    }

    /// An output may write to it from now on.
    pub(crate) fn begins(&self) {
        self.acting.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether one alone may.
    pub(crate) fn has_one_writer(&self) -> bool {
        self.acting.load(Ordering::Acquire) == 1 // all that others have written came before
    }

    /// An output writes no more. Whether it was the last one that might.
    pub(crate) fn leaves(&self) -> bool {
        self.acting.fetch_sub(1, Ordering::AcqRel) == 1 // the last one comes after all others
    }

    /// A task ticks. Only the task itself calls it.
    pub(crate) fn beat(&self) {
        self.beats.store(self.beats() + 1, Ordering::Relaxed);
    }

    /// How often the tasks have ticked.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Keeps the task from beginning a write, until it has recovered. Returns the number of this trip.
    pub(crate) fn block(&self) -> u64 {
        let before = self.trips.fetch_add(1, Ordering::Release); // who sees it, and then writes, sees whether it is for good
        fence(Ordering::SeqCst); // as in `writing`: the task sees this, or its write is seen
        before + 1
    }

    /// How often it was made safe.
    pub(crate) fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// The same, if the task has recovered while it was made safe: what it has written since may lie under the safe value.
    pub(crate) fn block_if_released(&self) {
        fence(Ordering::SeqCst); // as in `writing`: what is written later was released later
        if self.tripped().is_none() {
            self.block();
        }
    }

    /// How often it was made safe, if its task has not recovered from the latest time.
    pub(crate) fn tripped(&self) -> Option<u64> {
        let trips = self.trips();
        (trips != self.released.load(Ordering::Relaxed)).then_some(trips)
    }

    /// The task has recovered, unless it was made safe since it had `seen` that.
    pub(crate) fn release(&self, seen: u64) {
        self.released.store(seen, Ordering::Relaxed);
    }

    /// Keeps the task from recovering, for good.
    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Relaxed);
    }

    /// Whether that was done.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Relaxed)
    }

    /// Begins a write of a value, by the task; `None`: it must not write.
    pub(crate) fn writing(&self) -> Option<Writing<'_>> {
        self.writing.fetch_add(1, Ordering::Relaxed);
        let writing = Writing(self);
        fence(Ordering::SeqCst); // as in `block`: this is seen, or the trip is
        (self.tripped().is_none() && !self.is_sealed()).then_some(writing)
    }

    /// Whether a write of a task is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) > 0
    }

    /// Whether the target is gone. Who is told a little late writes to nothing.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// The target is gone, or there again.
    pub(crate) fn set_lost(&self, lost: bool) {
        self.lost.store(lost, Ordering::Relaxed);
    }

    /// Whether the safe value is left to others to be written.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > 0
    }

    /// The number of the latest request for that; 0: there was none.
    pub(crate) fn request(&self) -> u64 {
        self.wants.load(Ordering::Acquire)
    }

    /// The safe value is left to others to be written, or not.
    pub(crate) fn set_wanted(&self, wanted: bool) {
        // Who sees this number sees that its output has ended, and which others have closed.
        let number = if wanted { self.wants.fetch_add(1, Ordering::Release) + 1 } else { 0 };
        self.wanted.swap(number, Ordering::Relaxed);
    }

    /// The safe value was written, after this request. Whether it was still in force; one that came since is.
    pub(crate) fn take_wanted(&self, request: u64) -> bool {
        // Who sees this closes the target, after the write: that has ended by a fence of its own.
        request > 0 && self.wanted.compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// What came of the latest safe write: 0, an error number, or -1.
    pub(crate) fn errno(&self) -> i32 {
        self.errno.load(Ordering::Relaxed)
    }

    /// This came of the latest safe write.
    pub(crate) fn set_errno(&self, errno: i32) {
        self.errno.store(errno, Ordering::Relaxed);
    }

    /// Whether the latest safe write has not returned for long.
    pub(crate) fn is_hanging(&self) -> bool {
        self.hangs.load(Ordering::Relaxed)
    }

    /// The latest safe write has not returned for long, or has returned.
    pub(crate) fn set_hanging(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    /// Whether an output has ended without its safe value, and no other one has taken the target over.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// An output has ended without its safe value, or that is over.
    pub(crate) fn set_left(&self, left: bool) {
        self.left.store(left, Ordering::Release); // who takes the target over writes after that output
    }

    /// Takes the target over, if it is left: no one begins to write the safe value from now on. What was begun before shows in
    /// [`Watched::written`].
    pub(crate) fn begin_takeover(&self) -> bool {
        let was_left = self.left.swap(false, Ordering::Relaxed);
        // As in `LastWritten::begin`: a write that is under way is seen, or sees this. And what is written now comes after the output that left it.
        fence(Ordering::SeqCst);
        was_left
    }
}

/// When an output ended without its safe value, if it has.
#[derive(Debug)]
pub(super) struct LeftAt(AtomicI64); // nanoseconds on the monotonic clock

impl Default for LeftAt {
    fn default() -> Self {
        Self(AtomicI64::new(Self::NEVER))
    }
}

impl LeftAt {
    const NEVER: i64 = i64::MIN;

    /// It has ended so at this instant. Who sees that sees that its target is left.
    pub(super) fn set(&self, now: Instant) {
        self.0.store(i64::try_from(now.nanos()).unwrap_or(i64::MAX), Ordering::Release);
    }

    /// When it ended so; `None`: it did not.
    pub(super) fn get(&self) -> Option<Instant> {
        let nanos = self.0.load(Ordering::Acquire);
        (nanos != Self::NEVER).then(|| Instant::from_nanos(nanos.into()))
    }
}
