//! How far a worker's clock is ahead of the monotonic clock, and when it was stepped.
//!
//! Main measures this several times a second for workers on `tai` or `realtime`. Nothing here blocks; the worker adopts a new offset
//! between two ticks.

use crate::sys::clock::{Ahead, KernelClock};
use crate::time::{Instant, Span};

/// Steps of one clock are reported at most this often.
const REPORT_EVERY: Span = Span::from_seconds(1);

/// A clock that gains exactly the time of a suspension was not stepped. The two are compared with this tolerance.
const SAME: Span = Span::from_millis(1);

/// One step of the clock, or several in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockStep {
    /// When it was noticed, on the monotonic clock.
    pub(crate) at: Instant,
    /// How far the clock went forward; negative: back. Excludes suspension time.
    pub(crate) by: Span,
    /// The number of steps combined here.
    pub(crate) count: u64,
}

/// Follows a clock that can be stepped.
#[derive(Clone, Debug)]
pub(crate) struct ClockWatch {
    clock: KernelClock,
    ahead: Ahead,
    suspended: Ahead, // in total, since boot
    /// From the monotonic clock to this one, measured at the start or after the last step. Never more than the true offset.
    pub(crate) offset: Span,
    /// The last step.
    pub(crate) latest: Option<ClockStep>,
    /// The number of steps so far.
    pub(crate) steps: u64,
    unreported: Option<ClockStep>,
    reported: Option<Instant>,
}

impl ClockWatch {
    /// Starts following this clock.
    pub(crate) fn new(clock: KernelClock) -> Self {
        Self::with(clock, measure(clock))
    }

    fn with(clock: KernelClock, (ahead, suspended): (Ahead, Ahead)) -> Self {
        let offset = Span::from_wide(ahead.least);
        Self { clock, ahead, suspended, offset, latest: None, steps: 0, unreported: None, reported: None }
    }

    /// Measures at `now` on the monotonic clock. Returns whether the offset has changed, by a step or a suspension.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        self.enter(now, measure(self.clock))
    }

    fn enter(&mut self, now: Instant, (ahead, suspended): (Ahead, Ahead)) -> bool {
        if let Some(narrowed) = self.ahead.narrowed(ahead) {
            self.ahead = narrowed;
            return false;
        }
        let offset = Span::from_wide(ahead.least);
        let moved = offset - self.offset;
        let asleep = match self.suspended.narrowed(suspended) {
            Some(_) => Span::ZERO,
            None => Span::from_wide(suspended.least - self.suspended.least),
        };
        (self.ahead, self.suspended, self.offset) = (ahead, suspended, offset);
        let by = moved - asleep;
        if asleep == Span::ZERO || by.max(-by) > SAME {
            let step = ClockStep { at: now, by, count: 1 };
            let before = self.unreported.map_or((Span::ZERO, 0), |step| (step.by, step.count));
            self.unreported = Some(ClockStep { by: before.0 + by, count: before.1 + 1, ..step });
            self.latest = Some(step);
            self.steps += 1;
        }
        true
    }

    /// The step to report at `now`: all steps since the last report combined. `None`: nothing new, or too soon.
    pub(crate) fn report(&mut self, now: Instant) -> Option<ClockStep> {
        if self.reported.is_some_and(|reported| now - reported < REPORT_EVERY) {
            return None;
        }
        let step = self.unreported.take()?;
        self.reported = Some(now);
        Some(step)
    }
}

/// How far `clock` and the boot time are ahead of the monotonic clock.
fn measure(clock: KernelClock) -> (Ahead, Ahead) {
    let monotonic = KernelClock::monotonic();
    (Ahead::measure(clock, monotonic), Ahead::measure(KernelClock::boottime(), monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    fn at(seconds: i64) -> Instant {
        Instant::ZERO + Span::from_seconds(seconds)
    }

    /// The clock is `ahead` seconds ahead, and the machine was suspended for `suspended` seconds, measured to within `blur` ns.
    fn measured(ahead: i128, suspended: i128, blur: i128) -> (Ahead, Ahead) {
        let around = |nanos| Ahead { least: nanos - blur, most: nanos + blur };
        (around(ahead * SECOND), around(suspended * SECOND))
    }

    #[test]
    fn a_step_is_a_contradiction_and_blurred_readings_are_none() {
        let mut clock = ClockWatch::with(KernelClock::tai(), measured(1_000, 0, 40));
        let offset = clock.offset;
        for blur in [900, 20, 5_000_000, 1, 70] {
            assert!(!clock.enter(at(1), measured(1_000, 0, blur)));
            assert_eq!((clock.offset, clock.steps), (offset, 0));
        }
        assert!(clock.enter(at(2), measured(980, 0, 10)));
        let latest = ClockStep { at: at(2), by: Span::from_nanos(-20_000_000_000 + 30), count: 1 };
        assert_eq!((clock.offset, clock.latest, clock.steps), (Span::from_nanos(979_999_999_990), Some(latest), 1));
        assert!(!clock.enter(at(3), measured(980, 0, 10)));
    }

    #[test]
    fn the_time_of_a_suspension_is_no_step() {
        let mut clock = ClockWatch::with(KernelClock::realtime(), measured(1_000, 50, 0));
        assert!(clock.enter(at(1), measured(4_600, 3_650, 300)));
        assert_eq!((clock.latest, clock.steps), (None, 0));
        assert_eq!(clock.offset, Span::from_nanos(4_600_000_000_000 - 300));
        assert!(clock.enter(at(2), measured(4_605, 3_651, 0)), "suspended for 1 s, and put forward by 4 s");
        let by = clock.latest.map(|step| step.by.nanos());
        assert!(by.is_some_and(|by| (by - 4_000_000_000).abs() <= 600), "{by:?}");
    }

    #[test]
    fn steps_are_reported_together_once_a_second() {
        let mut clock = ClockWatch::with(KernelClock::realtime(), measured(0, 0, 0));
        assert_eq!(clock.report(at(0)), None);
        let reported = |count, by| Some((count, Span::from_seconds(by)));
        let mut after = |now, ahead| {
            clock.enter(now, measured(ahead, 0, 0));
            clock.report(now).map(|step| (step.count, step.by))
        };
        assert_eq!(after(at(1), 7), reported(1, 7));
        assert_eq!(after(at(1) + Span::from_millis(300), 9), None);
        assert_eq!(after(at(1) + Span::from_millis(600), 4), None);
        assert_eq!(after(at(2), 4), reported(2, -3));
        assert_eq!(after(at(9), 4), None);
    }
}
