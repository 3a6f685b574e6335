//! The metrics thread's own heartbeat, which shows that the process was stopped, frozen or suspended.
//!
//! If the thread slept longer than it asked to, and neither ran nor waited for a CPU meanwhile, something kept it from running that no
//! thread escapes. That is certain if the thread was woken for it. Otherwise perhaps only its CPU stood still, which a virtual machine's
//! host may do to one CPU of many. Reads all clocks; nothing blocks.

use crate::metrics::{Certainty, Instants, Stall};
use crate::sys::clock::{KernelClock, thread_cpu_time};
use crate::sys::usage::{self, RunQueue, WrappingCount};
use crate::time::{Clock, Instant, Span};

/// A sleep that ends this late for no other reason is a stall.
const LATE: Span = Span::from_millis(3);

/// A shorter suspension does not count.
const SUSPENDED: Span = Span::from_millis(1);

/// The heart of the calling thread.
#[derive(Debug)]
pub(crate) struct Heart {
    queue: Option<RunQueue>,
    last: Beat,
}

/// One beat.
#[derive(Clone, Copy, Debug, Default)]
struct Beat {
    at: Instants, // monotonic, international atomic time, UTC
    boot: Instant,
    used: Span,
    waited: Span,
    gave_up: WrappingCount,
}

impl Heart {
    pub(super) fn of_this_thread() -> Self {
        let mut heart = Self { queue: RunQueue::of_this_thread(), last: Beat::default() };
        heart.last = heart.read();
        heart
    }

    /// Beats. `slept`: how long the thread asked to sleep since the last beat; `None`: it did not sleep. Returns a stall of the process
    /// since then.
    pub(crate) fn beat(&mut self, slept: Option<Span>) -> Option<Stall> {
        let now = self.read();
        let before = std::mem::replace(&mut self.last, now);
        // Without this number, every wait for a CPU would look like a stop.
        self.queue.as_ref().and_then(|_| stall(&before, &now, slept))
    }

    /// Beats after work without a sleep, but only if enough time has passed for a stall.
    pub(super) fn beat_after_work(&mut self) -> Option<Stall> {
        if self.was_short() { None } else { self.beat(None) }
    }

    /// Beats after writing the log, which may have waited for its reader. The returned stop of the process is only possible, and may have
    /// had any length up to the time that the thread did not run. A suspension of the machine is certain.
    pub(super) fn beat_after_writing(&mut self) -> Option<Stall> {
        // The work was short and did not give up the CPU, so the next beat may count from before it.
        if self.was_short() && usage::of_this_thread().voluntary == self.last.gave_up {
            return None;
        }
        let before = self.last;
        let stall = self.beat(None)?;
        while_writing(stall, suspended(&before, &self.last))
    }

    /// Whether the time since the last beat is too short for a stall. Takes two clock readings; a full beat also makes three system calls.
    fn was_short(&self) -> bool {
        let at = KernelClock::monotonic().now();
        let now = Beat { at: [at; 3], boot: KernelClock::boottime().now(), ..self.last };
        at - self.last.at[0] <= LATE && suspended(&self.last, &now).is_none()
    }

    fn read(&self) -> Beat {
        let at = [KernelClock::monotonic(), KernelClock::tai(), KernelClock::realtime()].map(|clock| clock.now());
        Beat {
            at,
            boot: KernelClock::boottime().now(),
            used: thread_cpu_time(),
            waited: self.queue.as_ref().and_then(RunQueue::waited).unwrap_or(Span::ZERO),
            gave_up: usage::of_this_thread().voluntary,
        }
    }
}

/// How long the machine was suspended between two beats, if it was.
fn suspended(before: &Beat, now: &Beat) -> Option<Span> {
    let suspended = (now.boot - before.boot) - (now.at[0] - before.at[0]);
    (suspended > SUSPENDED).then_some(suspended)
}

/// What remains of this stall if the log was written meanwhile.
fn while_writing(stall: Stall, suspended: Option<Span>) -> Option<Stall> {
    match (stall.certainty, suspended) {
        (_, Some(_)) => Some(stall),
        (Certainty::Certain, None) => Some(Stall { least: Span::ZERO, certainty: Certainty::Writing, ..stall }),
        _ => None,
    }
}

fn stall(before: &Beat, now: &Beat, slept: Option<Span>) -> Option<Stall> {
    let passed = now.at[0] - before.at[0];
    let most = passed - (now.used - before.used) - (now.waited - before.waited);
    let least = most - slept.unwrap_or(Span::ZERO);
    // A thread that is stopped gives up the CPU once for that, in addition to its sleep.
    let stopped = now.gave_up.since(before.gave_up) > u32::from(slept.is_some());
    let suspended_for = suspended(before, now);
    let certainty = if stopped || suspended_for.is_some() { Certainty::Certain } else { Certainty::Late };
    let stall = |least: Span, most: Span| Some(Stall { from: before.at, to: now.at, least, most, certainty });
    if let Some(suspended) = suspended_for {
        stall(suspended, suspended + passed)
    } else if least > LATE {
        stall(least, most)
    } else if stopped && slept.is_some() {
        stall(Span::ZERO, most)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEP: Span = Span::from_millis(10);

    /// A beat `millis` later; of that time the thread ran for `used` and waited for `waited`.
    fn later(millis: i64, used: i64, waited: i64, gave_up: i32) -> (Beat, Beat) {
        let before = Beat { at: [5, 6, 7].map(|n| Instant::from_nanos(n << 40)), ..Beat::default() };
        let passed = Span::from_millis(millis);
        let now = Beat {
            at: before.at.map(|at| at + passed),
            boot: before.boot + passed,
            used: Span::from_millis(used),
            waited: Span::from_millis(waited),
            gave_up: WrappingCount::of(gave_up.into()),
        };
        (before, now)
    }

    #[test]
    fn a_sleep_that_ends_late_is_a_stall_unless_the_thread_waited_for_a_processor() {
        let found = |(before, now): (Beat, Beat)| {
            stall(&before, &now, Some(SLEEP))
                .map(|stall| (stall.least, stall.most, stall.certainty == Certainty::Certain))
        };
        let millis = |least, most, certain| Some((Span::from_millis(least), Span::from_millis(most), certain));
        assert_eq!(found(later(12, 0, 0, 1)), None);
        assert_eq!(found(later(60, 0, 0, 2)), millis(50, 60, true));
        assert_eq!(found(later(60, 20, 28, 1)), None, "it ran, and waited for a processor");
        assert_eq!(found(later(60, 10, 10, 2)), millis(30, 40, true));
        assert_eq!(found(later(11, 0, 0, 2)), millis(0, 11, true), "stopped in its sleep");
        assert_eq!(found(later(60, 0, 0, 1)), millis(50, 60, false), "its processor stood still, perhaps it alone");
    }

    #[test]
    fn a_suspended_machine_is_noticed() {
        let (before, mut now) = later(11, 0, 0, 1);
        now.boot = now.boot + Span::from_seconds(60);
        let found = stall(&before, &now, Some(SLEEP)).unwrap();
        assert_eq!((found.least, found.from, found.to), (Span::from_seconds(60), before.at, now.at));
        // Also while the log was written, which explains any other gap.
        let writing = |now: &Beat| {
            let stall = while_writing(stall(&before, now, None)?, suspended(&before, now))?;
            Some((stall.least, stall.certainty == Certainty::Certain))
        };
        assert_eq!(writing(&now), Some((Span::from_seconds(60), true)));
        assert_eq!(writing(&later(60, 0, 0, 1).1), Some((Span::ZERO, false)));
    }
}
