//! Devices that are there and give nothing: a cable that came loose behind them, a stream that was never started. No call
//! of the kernel fails, so only time tells. Arithmetic only.

use crate::time::{Instant, Span};

/// No device is called silent before this.
const LEAST: Span = Span::from_seconds(5);

/// Intervals in which something should have come, and did not.
const INTERVALS: f64 = 10.0;

/// How long nothing has come.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::kinds) struct Silence {
    heard: Option<Instant>, // when something came last, or the device
}

impl Silence {
    /// How long to wait for something that should come in this interval, in nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "saturating")]
    pub(in crate::kinds) fn patience(interval: f64) -> Span {
        LEAST.max(Span::from_nanos((interval * INTERVALS) as i64))
    }

    /// Notes whether something came; true: nothing has for longer than `patience`.
    pub(in crate::kinds) fn lasts(&mut self, now: Instant, came: bool, patience: Span) -> bool {
        if came {
            self.heard = Some(now);
        }
        now - *self.heard.get_or_insert(now) > patience
    }

    /// There is no device, which is told by itself.
    pub(in crate::kinds) fn end(&mut self) {
        self.heard = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_lasts_until_something_comes() {
        let mut silence = Silence::default();
        let at = |seconds: i64| Instant::ZERO + Span::from_seconds(seconds);
        let patience = Silence::patience(1e9 / 30.0);
        let mut lasts = |seconds, came| silence.lasts(at(seconds), came, patience);
        assert!(!lasts(100, false) && !lasts(105, false));
        assert!(lasts(106, false) && lasts(107, false));
        assert!(!lasts(108, true) && !lasts(113, false));
        assert!(lasts(114, false));
        silence.end();
        assert!(!silence.lasts(at(200), false, patience));
    }

    #[test]
    fn what_comes_seldom_is_waited_for() {
        assert_eq!(Silence::patience(0.0), LEAST);
        assert_eq!(Silence::patience(5e8), LEAST);
        assert_eq!(Silence::patience(2e9), Span::from_seconds(20));
        assert_eq!(Silence::patience(f64::INFINITY), Span::from_nanos(i64::MAX));
        assert_eq!(Silence::patience(f64::NAN), LEAST);
    }
}
