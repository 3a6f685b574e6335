//! The share of its CPU that a thread uses now, from its processor time at the last looks. Arithmetic only.

use crate::time::{Instant, Span};
use std::collections::VecDeque;

/// The time that the share covers.
const OVER: Span = Span::from_seconds(5);

/// Between two readings.
const EVERY: Span = Span::from_seconds(1);

/// The processor time of one thread over the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    readings: VecDeque<(Instant, Span)>,
}

impl Meter {
    /// Whether it is time for a reading.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.readings.back().is_none_or(|(at, _)| now - *at >= EVERY)
    }

    /// Enters the processor time that the thread had used by `now`.
    pub(super) fn enter(&mut self, now: Instant, cpu_time: Span) {
        self.readings.push_back((now, cpu_time));
        // The first of them is the one to compare with.
        while self.readings.get(1).is_some_and(|(at, _)| now - *at >= OVER) {
            self.readings.pop_front();
        }
    }

    /// The share of one CPU, and the time that it covers; `None`: too little of it has passed.
    pub(super) fn share(&self) -> Option<(f64, Span)> {
        let ((first, before), (last, after)) = (self.readings.front()?, self.readings.back()?);
        let span = *last - *first;
        (span > Span::ZERO).then(|| ((*after - *before).seconds() / span.seconds(), span))
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
            meter.enter(now, used);
            assert!(!meter.is_due(now + Span::from_millis(999)));
            meter.share()
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
