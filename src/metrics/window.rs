//! Sliding sums over the last seconds: a slot for each second, half a KiB for a task of up to 255 Hz.
//!
//! Time is an argument, on a clock that goes on. What is entered after a gap belongs to the second of its entry.

use crate::snapshot::WindowSummary;
use crate::time::{Instant, NANOS_PER_SECOND, Span};

/// The two windows, in seconds.
pub(crate) const SHORT: usize = 10;
pub(crate) const LONG: usize = 60;

/// A window covers this many whole seconds and the current one.
const SLOTS: usize = LONG + 1;

/// Counts since a task began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub due: u64,
    pub met: u64,
    pub missed: u64,
    pub errors: u64,
}

impl Tally {
    fn since(self, earlier: Self) -> Self {
        Self {
            due: self.due.saturating_sub(earlier.due),
            met: self.met.saturating_sub(earlier.met),
            missed: self.missed.saturating_sub(earlier.missed),
            errors: self.errors.saturating_sub(earlier.errors),
        }
    }
}

/// What happened in one second. Smaller than a [`Tally`]: there are many.
#[derive(Clone, Copy, Debug, Default)]
struct Second<Count = u32> {
    due: Count,
    met: Count,
    missed: Count,
    errors: Count,
    worst: f32, // lateness in nanoseconds
}

impl<Count> Second<Count> {
    fn try_map<To>(self, count: impl Fn(Count) -> Option<To>) -> Option<Second<To>> {
        let Self { due, met, missed, errors, worst } = self;
        Some(Second { due: count(due)?, met: count(met)?, missed: count(missed)?, errors: count(errors)?, worst })
    }
}

/// The seconds of one task, narrow as long as that is enough: most tasks are slow.
#[derive(Clone, Debug)]
enum Seconds {
    Narrow(Box<[Second<u8>; SLOTS]>),
    Wide(Box<[Second; SLOTS]>),
    /// They are not looked at any more.
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
            match second.try_map(|count| u8::try_from(count).ok()) {
                Some(second) => return seconds[slot] = second,
                None => *self = Self::Wide(Box::new(seconds.map(wide))),
            }
        }
        if let Self::Wide(seconds) = self {
            seconds[slot] = second;
        }
    }
}

fn wide(second: Second<u8>) -> Second {
    second.try_map(|count| Some(count.into())).unwrap_or_default()
}

/// What happened in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub span: Span, // the time it covers
    pub tally: Tally,
    pub worst: Span, // the largest lateness
}

impl From<Window> for WindowSummary {
    fn from(Window { span, tally, worst }: Window) -> Self {
        let Tally { due, met, missed, errors } = tally;
        Self { span_ns: span.nanos(), due, met, missed, errors, lateness_max_ns: worst.nanos(), late_chains: None }
    }
}

/// The last minute of one task.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    slots: Seconds,
    began: Option<Instant>,
    latest: i64,  // number of the second of the latest entry
    tally: Tally, // at the latest entry
}

impl Default for Windows {
    fn default() -> Self {
        let slots = Seconds::Narrow(Box::new([Second::default(); SLOTS]));
        Self { slots, began: None, latest: 0, tally: Tally::default() }
    }
}

impl Windows {
    /// A tick was this late.
    #[expect(clippy::cast_precision_loss, reason = "seven digits are enough for a maximum")]
    pub(crate) fn late(&mut self, lateness: Span) {
        let slot = slot(self.latest);
        let second = self.slots.at(slot);
        let lateness = lateness.nanos() as f32;
        if lateness > second.worst {
            self.slots.set(slot, Second { worst: lateness, ..second });
        }
    }

    /// Lets go of the memory, after the last look: nothing is kept from now on.
    pub(crate) fn close(&mut self) {
        self.slots = Seconds::Closed;
    }

    /// Enters what has been counted by `now`.
    pub(crate) fn enter(&mut self, now: Instant, tally: Tally) {
        self.began.get_or_insert(now);
        let number = second(now);
        for back in 0..(number - self.latest).clamp(0, SLOTS as i64) {
            self.slots.set(slot(number - back), Second::default());
        }
        self.latest = self.latest.max(number);
        let Tally { due, met, missed, errors } = tally.since(self.tally);
        self.tally = tally;
        let slot = slot(self.latest);
        let mut second = self.slots.at(slot);
        let add = |sum: &mut u32, count| *sum = sum.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        add(&mut second.due, due);
        add(&mut second.met, met);
        add(&mut second.missed, missed);
        add(&mut second.errors, errors);
        self.slots.set(slot, second);
    }

    /// The last `seconds` (at most [`LONG`]) and what has passed of the current one, as of the latest entry, at `now`.
    #[expect(clippy::cast_possible_truncation, reason = "saturating")]
    pub(crate) fn over(&self, seconds: usize, now: Instant) -> Window {
        let mut window = Window::default();
        let (seconds, latest, mut late) = (seconds.min(LONG), slot(self.latest), 0.0_f32);
        for back in 0..=seconds {
            let slot = if back > latest { latest + SLOTS - back } else { latest - back };
            let Second { due, met, missed, errors, worst } = self.slots.at(slot);
            let tally = &mut window.tally;
            tally.due += u64::from(due);
            tally.met += u64::from(met);
            tally.missed += u64::from(missed);
            tally.errors += u64::from(errors);
            late = late.max(worst);
        }
        window.worst = Span::from_nanos(late as i64);
        let whole = Instant::from_nanos(i128::from(self.latest - seconds as i64) * i128::from(NANOS_PER_SECOND));
        window.span = self.began.map_or(Span::ZERO, |began| now - began.max(whole));
        window
    }
}

fn slot(number: i64) -> usize {
    usize::try_from(number.rem_euclid(SLOTS as i64)).unwrap_or(0)
}

/// The number of the second that an instant lies in. Divides 64 bits where that is enough: wider ones take five times as long.
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
        // At 10 Hz; in second 5 all are missed and one is late by 7 ms.
        for tenth in 0..=1_200 {
            let now = at(300_000 + tenth * 100);
            tally.due += 1;
            let missed = (50..60).contains(&tenth);
            *(if missed { &mut tally.missed } else { &mut tally.met }) += 1;
            windows.enter(now, tally);
            windows.late(if missed { Span::from_millis(7) } else { Span::from_nanos(80) });
            let [short, long] = [SHORT, LONG].map(|seconds| windows.over(seconds, now));
            for window in [short, long] {
                assert_eq!(window.tally.met + window.tally.missed, window.tally.due);
            }
            let all = u64::try_from(tenth).unwrap() + 1;
            assert_eq!(short.tally.due, all.min(100 + (all - 1) % 10 + 1), "at {tenth}");
            assert_eq!(long.tally.due, all.min(600 + (all - 1) % 10 + 1), "at {tenth}");
            assert_eq!(short.span, Span::from_millis(100 * tenth.min(100 + tenth % 10)), "at {tenth}");
            let seen = if (60..160).contains(&tenth) { 10 } else { 0 };
            assert!((50..60).contains(&tenth) || short.tally.missed == seen, "at {tenth}: {short:?}");
            assert!((50..60).contains(&tenth) || (short.worst == Span::from_millis(7)) == (seen > 0), "{short:?}");
            let seen = if (60..660).contains(&tenth) { 10 } else { 0 };
            assert!((50..60).contains(&tenth) || long.tally.missed == seen, "at {tenth}: {long:?}");
        }
    }

    #[test]
    fn a_task_that_becomes_fast_keeps_its_past() {
        let mut windows = Windows::default();
        let mut tally = Tally::default();
        for (second, met, missed) in [(1, 200, 55), (2, 255, 0), (3, 256, 1), (4, 1_000_000, 70_000), (5, 1, 0)] {
            tally.met += met;
            tally.missed += missed;
            tally.due += met + missed;
            windows.late(Span::from_nanos(16_777_217 - second)); // of the second before
            windows.enter(at(second * 1_000), tally);
            let window = windows.over(SHORT, at(second * 1_000));
            assert_eq!((window.tally, window.worst), (tally, Span::from_nanos(16_777_216)), "in second {second}");
        }
        assert_eq!(windows.over(2, at(5_000)).tally.met, 256 + 1_000_000 + 1);
    }

    #[test]
    fn after_a_gap_nothing_is_left_but_what_came_in_it() {
        let mut windows = Windows::default();
        let tally = |due| Tally { due, met: 0, missed: due, errors: 0 };
        windows.enter(at(1_000), tally(50));
        windows.enter(at(3_600_000), tally(70));
        let window = windows.over(SHORT, at(3_600_000));
        assert_eq!((window.tally, window.span), (tally(20), Span::from_seconds(10)));
        windows.enter(at(3_661_000), tally(70));
        assert_eq!(windows.over(LONG, at(3_661_000)).tally, Tally::default());
    }
}
