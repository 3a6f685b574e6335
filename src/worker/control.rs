//! Requests to a running worker, and the state that it publishes: plain atomics, written without waiting.

use crate::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::time::{Instant, Span};

/// Requests to a running worker, and the state that it publishes.
///
/// The hot thread is the only writer of the published state, so each update is a plain store. Until the thread has begun, main is the
/// writer.
#[derive(Debug, Default)]
pub struct Control {
    asked: Asked,
    shown: Shown,
}

/// Requests from main: read before each tick and seldom written, so the cache line stays with the worker's processor.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Asked {
    stop: AtomicBool,
    exchange: AtomicBool,
    offset: AtomicI64,  // from the monotonic clock to the clock of releases, in nanoseconds
    adopted: AtomicI64, // the offset in use by the worker
    failed: AtomicU64,  // number of the task that ended the run, plus one; 0: none
}

/// Published by the worker: written several times a tick.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shown {
    ticks: AtomicU64,
    running: AtomicU64, // number of the running task plus one; 0: none
    tick: AtomicU64,
    since: AtomicU64, // start of the running tick, in nanoseconds of the monotonic clock
    until: AtomicU64, // while resting: the release waited for, in the same unit
    wakes: AtomicU64,
    spun: AtomicU64,   // nanoseconds
    short: AtomicBool, // the target of the spin tail costs more than allowed
}

/// What a worker is doing. Instants are on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Ticks finished so far.
    pub ticks: u64,
    /// The current activity.
    pub now: Activity,
}

/// A worker's current activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The worker waits for a release, or is between two ticks.
    Rests {
        /// The release it waits for, or last waited for.
        until: Instant,
    },
    /// The worker runs a tick.
    Runs {
        /// Number of the task.
        task: u32,
        /// Index of the tick.
        n: u64,
        /// When the tick began.
        since: Instant,
    },
}

impl Control {
    /// Asks the worker to end before its next tick. A sleeping worker must also be interrupted.
    pub fn stop(&self) {
        self.asked.stop.store(true, Ordering::Release);
    }

    /// The number of the task that ended the run because its configuration says so; `None` if no task did.
    pub fn failed(&self) -> Option<u32> {
        u32::try_from(self.asked.failed.load(Ordering::Relaxed).checked_sub(1)?).ok()
    }

    /// What the worker is doing. The parts are read one after the other. A tick that ends during the read may show the index of the next
    /// tick; a tick that keeps running shows exactly.
    pub fn doing(&self) -> Doing {
        let instant = |nanos: &AtomicU64| Instant::from_nanos(nanos.load(Ordering::Relaxed).into());
        let running = self.shown.running.load(Ordering::Acquire);
        let now = match u32::try_from(running.wrapping_sub(1)) {
            Ok(task) if running > 0 => {
                Activity::Runs { task, n: self.shown.tick.load(Ordering::Relaxed), since: instant(&self.shown.since) }
            }
            _ => Activity::Rests { until: instant(&self.shown.until) },
        };
        Doing { ticks: self.shown.ticks.load(Ordering::Relaxed), now }
    }

    /// Sleeps made so far, and time spent in spin tails.
    pub fn rested(&self) -> (u64, Span) {
        (self.shown.wakes.load(Ordering::Relaxed), Span::from_wide(self.shown.spun.load(Ordering::Relaxed).into()))
    }

    /// Sets the offset from the monotonic clock to the clock of releases. The worker adopts it before it begins, and between two ticks. A
    /// sleeping worker must also be interrupted.
    pub fn set_offset(&self, offset: Span) {
        self.asked.offset.store(offset.nanos(), Ordering::Relaxed);
    }

    /// Whether the worker uses the offset that was set last.
    pub(super) fn has_adopted(&self) -> bool {
        self.asked.adopted.load(Ordering::Relaxed) == self.asked.offset.load(Ordering::Relaxed)
    }

    pub(super) fn offset(&self) -> Span {
        Span::from_nanos(self.asked.offset.load(Ordering::Relaxed))
    }

    pub(super) fn adopted(&self, offset: Span) {
        self.asked.adopted.store(offset.nanos(), Ordering::Relaxed);
    }

    pub(super) fn falls_short(&self) -> bool {
        self.shown.short.load(Ordering::Relaxed)
    }

    pub(super) fn count_wakes(&self, wakes: u64) {
        self.shown.wakes.store(wakes, Ordering::Relaxed);
    }

    pub(super) fn count_tails(&self, spun: Span, falls_short: bool) {
        self.shown.short.store(falls_short, Ordering::Relaxed);
        self.shown.spun.store(spun.nanos().unsigned_abs(), Ordering::Relaxed);
    }

    /// Whether the worker is asked to stop, to exchange its tasks, or to follow a step.
    pub(super) fn asks_for_something(&self) -> bool {
        self.stopping() || self.asked.exchange.load(Ordering::Relaxed) || !self.has_adopted()
    }

    pub(super) fn stopping(&self) -> bool {
        self.asked.stop.load(Ordering::Acquire)
    }

    pub(super) fn fail(&self, task: u32) {
        self.asked.failed.store(u64::from(task) + 1, Ordering::Relaxed); // visible to whoever sees the stop
        self.stop();
    }

    /// Asks for an exchange of task sets. The flag is raised after the set was sent, so the hot thread never looks into the channel while
    /// the set is still being put there.
    pub(super) fn ask_for_exchange(&self) {
        self.asked.exchange.store(true, Ordering::Release);
    }

    pub(super) fn exchange_asked(&self) -> bool {
        self.asked.exchange.load(Ordering::Relaxed) && self.asked.exchange.swap(false, Ordering::Acquire)
    }

    /// Tick `n` comes next: brings the line that [`begins`](Self::begins) writes into this processor's cache.
    pub(super) fn prepares(&self, n: u64) {
        self.shown.tick.store(n, Ordering::Relaxed);
    }

    pub(super) fn begins(&self, task: u32, n: u64, since: Instant) {
        self.shown.tick.store(n, Ordering::Relaxed);
        self.shown.since.store(low(since), Ordering::Relaxed);
        self.shown.running.store(u64::from(task) + 1, Ordering::Release);
    }

    pub(super) fn ends(&self) {
        self.shown.running.store(0, Ordering::Relaxed);
        self.shown.ticks.store(self.shown.ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn rests(&self, until: Instant) {
        self.shown.until.store(low(until), Ordering::Relaxed);
    }
}

/// Nanoseconds in 64 bits, saturating. A real clock reaches the limit after 584 years.
fn low(instant: Instant) -> u64 {
    u64::try_from(instant.nanos().max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_does_can_be_seen() {
        let control = Control::default();
        control.rests(Instant::from_nanos(70));
        assert_eq!(control.doing(), Doing { ticks: 0, now: Activity::Rests { until: Instant::from_nanos(70) } });
        control.begins(0, 9, Instant::from_nanos(71));
        let runs = Activity::Runs { task: 0, n: 9, since: Instant::from_nanos(71) };
        assert_eq!(control.doing(), Doing { ticks: 0, now: runs });
        control.ends();
        assert_eq!(control.doing(), Doing { ticks: 1, now: Activity::Rests { until: Instant::from_nanos(70) } });
    }
}
