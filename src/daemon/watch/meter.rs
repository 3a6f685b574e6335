//! A thread's current share of its CPU, in total and spinning, from its recent readings. Arithmetic only.

use crate::time::{Instant, Span};
use std::collections::VecDeque;

/// The time that the share covers.
const OVER: Span = Span::from_seconds(5);

/// Time between two readings.
const EVERY: Span = Span::from_seconds(1);

/// What one thread has used.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    cpu_time: Span,
    spun: Span,
}

/// The processor time of one thread over the last seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    readings: VecDeque<Reading>,
}

/// Shares of one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    pub(crate) cpu: f64,
    pub(crate) spin: f64,  // in spin tails
    pub(crate) over: Span, // the time they cover
}

impl Meter {
    /// Whether a reading is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.readings.back().is_none_or(|last| now - last.at >= EVERY)
    }

    /// Adds a reading: the CPU time that the thread had used by `now`, and how much of it was spinning.
    pub(crate) fn enter(&mut self, now: Instant, cpu_time: Span, spun: Span) {
        self.readings.push_back(Reading { at: now, cpu_time, spun });
        // The first reading is the one to compare with.
        while self.readings.get(1).is_some_and(|second| now - second.at >= OVER) {
            self.readings.pop_front();
        }
    }

    /// The shares of one CPU; `None`: too little time has passed.
    pub(crate) fn share(&self) -> Option<Shares> {
        let (first, last) = (self.readings.front()?, self.readings.back()?);
        let over = last.at - first.at;
        let share = |used: Span| used.seconds() / over.seconds();
        let (cpu, spin) = (last.cpu_time - first.cpu_time, last.spun - first.spun);
        (over > Span::ZERO).then(|| Shares { cpu: share(cpu), spin: share(spin), over })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_last_seconds() {
        let mut meter = Meter::default();
        assert_eq!(meter.share(), None);
        let mut used = Span::ZERO;
        let mut share = |second: i64, millis| {
            let now = Instant::ZERO + Span::from_seconds(second);
            assert!(meter.is_due(now));
            used += Span::from_millis(millis);
            meter.enter(now, used, Span::from_nanos(used.nanos() / 2));
            assert!(!meter.is_due(now + Span::from_millis(999)));
            let Shares { cpu, spin, over } = meter.share()?;
            assert_eq!(spin, cpu / 2.0);
            Some((cpu, over))
        };
        for second in 0..100 {
            share(second, 100);
        }
        assert_eq!(share(100, 100), Some((0.1, Span::from_seconds(5))));
        assert_eq!(share(101, 1_100), Some((0.3, Span::from_seconds(5))));
        for second in 102..106 {
            share(second, 1_000);
        }
        assert_eq!(share(106, 1_000), Some((1.0, Span::from_seconds(5))));
        assert_eq!(share(200, 0), Some((0.0, Span::from_seconds(94))), "after a gap");
    }
}
