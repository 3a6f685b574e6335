//! Detects devices that are open but deliver nothing: a loose cable behind them, or a stream that was never started. No system call fails,
//! so only elapsed time shows it. Arithmetic only.

use crate::time::{Instant, Span};

/// No device counts as stalled sooner than this.
const LEAST: Span = Span::from_seconds(5);

/// Missed intervals after which a device counts as stalled.
const INTERVALS: f64 = 10.0;

/// Measures how long a device has delivered nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::kinds) struct Stalled {
    latest: Option<Instant>, // time of the last data, or of the first check
}

impl Stalled {
    /// How long to wait for data. `interval`: the expected interval, in nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "saturating")]
    pub(in crate::kinds) fn patience(interval: f64) -> Span {
        LEAST.max(Span::from_nanos((interval * INTERVALS) as i64))
    }

    /// Records whether data came. Returns true if none came for longer than `patience`.
    pub(in crate::kinds) fn exceeds(&mut self, now: Instant, came: bool, patience: Span) -> bool {
        if came {
            self.latest = Some(now);
        }
        now - *self.latest.get_or_insert(now) > patience
    }

    /// Starts over: the device is gone, which is reported separately.
    pub(in crate::kinds) fn reset(&mut self) {
        self.latest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_stalled_until_data_comes() {
        let mut stalled = Stalled::default();
        let at = |seconds: i64| Instant::ZERO + Span::from_seconds(seconds);
        let patience = Stalled::patience(1e9 / 30.0);
        let mut exceeds = |seconds, came| stalled.exceeds(at(seconds), came, patience);
        assert!(!exceeds(100, false) && !exceeds(105, false));
        assert!(exceeds(106, false) && exceeds(107, false));
        assert!(!exceeds(108, true) && !exceeds(113, false));
        assert!(exceeds(114, false));
        stalled.reset();
        assert!(!stalled.exceeds(at(200), false, patience));
    }

    #[test]
    fn slow_devices_have_longer() {
        assert_eq!(Stalled::patience(0.0), LEAST);
        assert_eq!(Stalled::patience(5e8), LEAST);
        assert_eq!(Stalled::patience(2e9), Span::from_seconds(20));
        assert_eq!(Stalled::patience(f64::INFINITY), Span::from_nanos(i64::MAX));
        assert_eq!(Stalled::patience(f64::NAN), LEAST);
    }
}
