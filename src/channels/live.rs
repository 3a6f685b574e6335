//! Counts of a task that can be read while it runs: plain atomics. The worker stores them before it sends the tick's record.
//!
//! A reader that first drains the records and then reads the counts therefore never sees a tick that is not counted. No clock is read;
//! nothing waits or allocates.

use super::latest::{SequenceLock, soon};
use crate::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::time::Instant;

/// A worker's counts for a task. All other counts follow from them: `snapshot::Counts` adds met, missed and due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ticks run.
    pub ran: u64,
    /// Releases given up.
    pub skipped: u64,
    /// Ticks whose response exceeded the deadline.
    pub overruns: u64,
    /// Ticks whose run exceeded the budget.
    pub over_budget: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The task was ended before the run ended.
    pub disabled: bool,
}

/// Counts of a running task, and its next release. The hot thread is the only writer, so each update is a plain store.
#[derive(Debug)]
pub struct LiveCounts {
    each_tick: EachTick,
    skipped: AtomicU64,
    overruns: AtomicU64,
    over_budget: AtomicU64,
    errors: AtomicU64,
    disabled: AtomicBool,
    end: AtomicI64, // in the unit of `next`: releases at or after this do not exist; i64::MAX: no end
    passed: AtomicU64,
}

/// The fields that an ordinary tick writes.
#[derive(Debug)]
struct EachTick {
    lock: SequenceLock, // guards all of `LiveCounts`
    ran: AtomicU64,
    next: AtomicI64, // nanoseconds on the clock of releases; i64::MAX: no release is left
}

/// A snapshot of [`LiveCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// The counts.
    pub counts: Counts,
    /// The first release that is not counted yet: that of the running tick, or else of the next one. `None` if none is left, or the task
    /// has not begun.
    pub next: Option<Instant>,
    /// Releases at or after this do not exist; `None` if there is no end.
    pub end: Option<Instant>,
    /// For a task that was ended: releases that came up afterwards, before the last step of its clock. They are not counted, and lie before
    /// `next`.
    pub passed: u64,
}

impl Default for LiveCounts {
    fn default() -> Self {
        Self {
            each_tick: EachTick {
                lock: SequenceLock::default(),
                ran: AtomicU64::default(),
                next: AtomicI64::new(i64::MAX),
            },
            skipped: AtomicU64::default(),
            overruns: AtomicU64::default(),
            over_budget: AtomicU64::default(),
            errors: AtomicU64::default(),
            disabled: AtomicBool::default(),
            end: AtomicI64::new(i64::MAX),
            passed: AtomicU64::default(),
        }
    }
}

impl LiveCounts {
    /// The task begins; publishes its first release and its end.
    pub(crate) fn begins(&self, next: Option<Instant>, end: Instant) {
        self.end.store(low(end), Ordering::Relaxed);
        self.store(&Counts::default(), next);
    }

    /// Publishes these counts. A dozen stores.
    pub(crate) fn store(&self, counts: &Counts, next: Option<Instant>) {
        self.each_tick.lock.update(|| {
            self.shows(counts, next);
            self.passed.store(0, Ordering::Relaxed);
        });
    }

    /// Publishes that the task `ran` this many ticks; nothing else has changed. Four stores.
    pub(crate) fn ran(&self, ran: u64, next: Option<Instant>) {
        self.each_tick.lock.update(|| {
            self.each_tick.ran.store(ran, Ordering::Relaxed);
            self.shows_next(next);
        });
    }

    /// The memory written by [`ran`](Self::ran), for prefetching.
    pub(crate) fn written_each_tick(&self) -> &impl Sized {
        &self.each_tick
    }

    /// The clock was stepped: publishes the new position of the grid. For a task that was ended, `passed` releases have come up since then.
    pub(crate) fn step(&self, counts: &Counts, next: Option<Instant>, end: Instant, passed: u64) {
        self.each_tick.lock.update(|| {
            self.shows(counts, next);
            self.passed.store(passed, Ordering::Relaxed);
            self.end.store(low(end), Ordering::Relaxed);
        });
    }

    fn shows(&self, counts: &Counts, next: Option<Instant>) {
        self.each_tick.ran.store(counts.ran, Ordering::Relaxed);
        self.skipped.store(counts.skipped, Ordering::Relaxed);
        self.overruns.store(counts.overruns, Ordering::Relaxed);
        self.over_budget.store(counts.over_budget, Ordering::Relaxed);
        self.errors.store(counts.errors, Ordering::Relaxed);
        self.disabled.store(counts.disabled, Ordering::Relaxed);
        self.shows_next(next);
    }

    fn shows_next(&self, next: Option<Instant>) {
        self.each_tick.next.store(next.map_or(i64::MAX, low), Ordering::Relaxed);
    }

    /// The current counts, consistent unless the hot thread is preempted in the middle of an update.
    pub fn read(&self) -> Live {
        soon(|| self.try_read()).unwrap_or_else(|| self.loads())
    }

    /// The current counts; `None` during an update.
    pub(crate) fn try_read(&self) -> Option<Live> {
        self.each_tick.lock.try_read(|| self.loads())
    }

    fn loads(&self) -> Live {
        let counts = Counts {
            ran: self.each_tick.ran.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            overruns: self.overruns.load(Ordering::Relaxed),
            over_budget: self.over_budget.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            disabled: self.disabled.load(Ordering::Relaxed),
        };
        let instant = |nanos: &AtomicI64| {
            let nanos = nanos.load(Ordering::Relaxed);
            (nanos < i64::MAX).then(|| Instant::from_nanos(nanos.into()))
        };
        Live {
            counts,
            next: instant(&self.each_tick.next),
            end: instant(&self.end),
            passed: self.passed.load(Ordering::Relaxed),
        }
    }
}

/// Nanoseconds in 64 bits, saturating. A real clock reaches the limit after 292 years.
fn low(instant: Instant) -> i64 {
    i64::try_from(instant.nanos()).unwrap_or(if instant.nanos() < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_reader_sees_the_counts_of_one_moment() {
        let live = Arc::new(LiveCounts::default());
        assert_eq!(live.read(), Live::default());
        live.begins(Some(Instant::ZERO), Instant::MAX);
        let counts = Counts { ran: 1, skipped: 2, overruns: 3, over_budget: 4, errors: 5, disabled: false };
        live.store(&counts, None);
        live.ran(9, Some(Instant::from_nanos(7)));
        let Live { counts: shown, next, .. } = live.read();
        assert_eq!((shown, next), (Counts { ran: 9, ..counts }, Some(Instant::from_nanos(7))));
        live.begins(Some(Instant::ZERO), Instant::MAX);
        let writer = live.clone();
        let writing = std::thread::spawn(move || {
            for n in 1..=200_000 {
                let counts =
                    Counts { ran: n, skipped: n, overruns: n, over_budget: n, errors: n, disabled: n % 2 == 1 };
                writer.store(&counts, Some(Instant::from_nanos(n.into())));
            }
        });
        let mut latest = 0;
        while latest < 200_000 {
            let Some(Live { counts, next, end, .. }) = live.try_read() else { continue };
            let n = counts.ran;
            let wanted = Counts { ran: n, skipped: n, overruns: n, over_budget: n, errors: n, disabled: n % 2 == 1 };
            assert_eq!((counts, next, end), (wanted, Some(Instant::from_nanos(n.into())), None));
            assert!(n >= latest);
            latest = n;
        }
        writing.join().unwrap();
    }
}
