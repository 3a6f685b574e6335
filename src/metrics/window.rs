//! Sliding sums over the last seconds, with one slot per second. Takes half a KiB for a task of up to 255 Hz.
//!
//! Time is an argument, on a monotonic clock. What is entered after a gap counts in the second in which it is entered.

use crate::snapshot::WindowSummary;
use crate::time::{Instant, NANOS_PER_SECOND, Span};

/// The two windows, in seconds.
pub(crate) const SHORT: usize = 10;
pub(crate) const LONG: usize = 60;

/// A window covers this many whole seconds and the current one.
const SLOTS: usize = LONG + 1;

/// What a window counts: since the task's start or, with small integers, in one second. The shared counts would be too large here, because
/// there are many tallies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally<Count = u64> {
    pub due: Count,
    pub met: Count,
    pub missed: Count,
    pub errors: Count,
}

impl<Count> Tally<Count> {
    fn try_map<To>(self, count: impl Fn(Count) -> Option<To>) -> Option<Tally<To>> {
        let Self { due, met, missed, errors } = self;
        Some(Tally { due: count(due)?, met: count(met)?, missed: count(missed)?, errors: count(errors)? })
    }

    fn with(self, other: Self, count: fn(Count, Count) -> Count) -> Self {
        Self {
            due: count(self.due, other.due),
            met: count(self.met, other.met),
            missed: count(self.missed, other.missed),
            errors: count(self.errors, other.errors),
        }
    }
}

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second<Count = u32> {
    tally: Tally<Count>,
    worst: f32, // lateness in nanoseconds
}

/// The seconds of one task, with narrow counts while these suffice: most tasks are slow.
#[derive(Clone, Debug)]
enum Seconds {
    Narrow(Box<[Second<u8>; SLOTS]>),
    Wide(Box<[Second; SLOTS]>),
    /// They will not be read again.
    Closed,
}

impl Seconds {
    fn at(&self, slot: usize) -> Second {
        match self {
            Self::Narrow(seconds) => wide(seconds[slot]),
            Self::Wide(seconds) => seconds[slot],
            Self::Closed => Second::default(),
        }
    }

    fn set(&mut self, slot: usize, second: Second) {
        if let Self::Narrow(seconds) = self {
            match second.tally.try_map(|count| u8::try_from(count).ok()) {
                Some(tally) => return seconds[slot] = Second { tally, worst: second.worst },
                None => *self = Self::Wide(Box::new(seconds.map(wide))),
            }
        }
        if let Self::Wide(seconds) = self {
            seconds[slot] = second;
        }
    }
}

fn wide(Second { tally, worst }: Second<u8>) -> Second {
    Second { tally: tally.try_map(|count| Some(count.into())).unwrap_or_default(), worst }
}

/// The last minute of one task.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    slots: Seconds,
    began: Option<Instant>,
    latest: i64,  // number of the second of the most recent entry
    tally: Tally, // as of the most recent entry
}

impl Default for Windows {
    fn default() -> Self {
        let slots = Seconds::Narrow(Box::new([Second::default(); SLOTS]));
        Self { slots, began: None, latest: 0, tally: Tally::default() }
    }
}

impl Windows {
    /// Enters a tick's lateness.
    #[expect(clippy::cast_precision_loss, reason = "seven digits are enough for a maximum")]
    pub(crate) fn late(&mut self, lateness: Span) {
        let slot = slot(self.latest);
        let second = self.slots.at(slot);
        let lateness = lateness.nanos() as f32;
        if lateness > second.worst {
            self.slots.set(slot, Second { worst: lateness, ..second });
        }
    }

    /// Frees the memory, after the last reading. Nothing is kept from now on.
    pub(crate) fn close(&mut self) {
        self.slots = Seconds::Closed;
    }

    /// Enters the counts as of `now`.
    pub(crate) fn enter(&mut self, now: Instant, tally: Tally) {
        self.began.get_or_insert(now);
        let number = second(now);
        for back in 0..(number - self.latest).clamp(0, SLOTS as i64) {
            self.slots.set(slot(number - back), Second::default());
        }
        self.latest = self.latest.max(number);
        let new = tally.with(self.tally, u64::saturating_sub);
        let new = new.try_map(|count| Some(u32::try_from(count).unwrap_or(u32::MAX))).unwrap_or_default();
        self.tally = tally;
        let slot = slot(self.latest);
        let Second { tally, worst } = self.slots.at(slot);
        self.slots.set(slot, Second { tally: tally.with(new, u32::saturating_add), worst });
    }

    /// The sums of the last `seconds` (at most [`LONG`]) and of the current one so far, as of the most recent entry; the span is measured
    /// to `now`.
    #[expect(clippy::cast_possible_truncation, reason = "saturating")]
    pub(crate) fn over(&self, seconds: usize, now: Instant) -> WindowSummary {
        let mut sum = Tally::default();
        let (seconds, latest, mut late) = (seconds.min(LONG), slot(self.latest), 0.0_f32);
        for back in 0..=seconds {
            let slot = if back > latest { latest + SLOTS - back } else { latest - back };
            let Second { tally, worst } = self.slots.at(slot);
            sum = sum.with(tally.try_map(|count| Some(count.into())).unwrap_or_default(), |sum, count| sum + count);
            late = late.max(worst);
        }
        let whole = Instant::from_nanos(i128::from(self.latest - seconds as i64) * i128::from(NANOS_PER_SECOND));
        let span = self.began.map_or(Span::ZERO, |began| now - began.max(whole));
        let Tally { due, met, missed, errors } = sum;
        let (span_ns, lateness_max_ns) = (span.nanos(), late as i64);
        WindowSummary { span_ns, due, met, missed, errors, lateness_max_ns, late_chains: None }
    }
}

fn slot(number: i64) -> usize {
    usize::try_from(number.rem_euclid(SLOTS as i64)).unwrap_or(0)
}

/// The number of the second that contains `at`. Divides in 64 bits where possible: a wider division takes five times as long.
fn second(at: Instant) -> i64 {
    match i64::try_from(at.nanos()) {
        Ok(nanos) => nanos.div_euclid(NANOS_PER_SECOND),
        Err(_) => i64::try_from(at.nanos().div_euclid(NANOS_PER_SECOND.into())).unwrap_or(i64::MAX / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_window_forgets_what_is_older() {
        let mut windows = Windows::default();
        let mut tally = Tally::default();
        // At 10 Hz. In second 5 all releases are missed, and one is late by 7 ms.
        for tenth in 0..=1_200 {
            let now = at(300_000 + tenth * 100);
            tally.due += 1;
            let missed = (50..60).contains(&tenth);
            *(if missed { &mut tally.missed } else { &mut tally.met }) += 1;
            windows.enter(now, tally);
            windows.late(if missed { Span::from_millis(7) } else { Span::from_nanos(80) });
            let [short, long] = [SHORT, LONG].map(|seconds| windows.over(seconds, now));
            for window in [short, long] {
                assert_eq!(window.met + window.missed, window.due);
            }
            let all = u64::try_from(tenth).unwrap() + 1;
            assert_eq!(short.due, all.min(100 + (all - 1) % 10 + 1), "at {tenth}");
            assert_eq!(long.due, all.min(600 + (all - 1) % 10 + 1), "at {tenth}");
            assert_eq!(short.span_ns, 100_000_000 * tenth.min(100 + tenth % 10), "at {tenth}");
            let seen = if (60..160).contains(&tenth) { 10 } else { 0 };
            assert!((50..60).contains(&tenth) || short.missed == seen, "at {tenth}: {short:?}");
            assert!((50..60).contains(&tenth) || (short.lateness_max_ns == 7_000_000) == (seen > 0), "{short:?}");
            let seen = if (60..660).contains(&tenth) { 10 } else { 0 };
            assert!((50..60).contains(&tenth) || long.missed == seen, "at {tenth}: {long:?}");
        }
    }

    fn tally(window: WindowSummary) -> Tally {
        let WindowSummary { due, met, missed, errors, .. } = window;
        Tally { due, met, missed, errors }
    }

    #[test]
    fn a_task_that_becomes_fast_keeps_its_past() {
        let mut windows = Windows::default();
        let mut tally = Tally::default();
        for (second, met, missed) in [(1, 200, 55), (2, 255, 0), (3, 256, 1), (4, 1_000_000, 70_000), (5, 1, 0)] {
            tally.met += met;
            tally.missed += missed;
            tally.due += met + missed;
            windows.late(Span::from_nanos(16_777_217 - second)); // belongs to the second before
            windows.enter(at(second * 1_000), tally);
            let window = windows.over(SHORT, at(second * 1_000));
            assert_eq!((self::tally(window), window.lateness_max_ns), (tally, 16_777_216), "in second {second}");
        }
        assert_eq!(windows.over(2, at(5_000)).met, 256 + 1_000_000 + 1);
    }

    #[test]
    fn after_a_gap_nothing_is_left_but_what_came_in_it() {
        let mut windows = Windows::default();
        let missed = |due| Tally { due, met: 0, missed: due, errors: 0 };
        windows.enter(at(1_000), missed(50));
        windows.enter(at(3_600_000), missed(70));
        let window = windows.over(SHORT, at(3_600_000));
        assert_eq!((tally(window), window.span_ns), (missed(20), 10_000_000_000));
        windows.enter(at(3_661_000), missed(70));
        assert_eq!(tally(windows.over(LONG, at(3_661_000))), Tally::default());
    }
}
