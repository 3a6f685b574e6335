//! How much faster the device's clock runs than ours: the slope of frames over time, by least squares.
//!
//! A device reports its position in steps, some in steps of milliseconds. Two readings alone would be wrong by one step divided by the time
//! between them. A line through all readings is usually right to a few parts per million within a minute, unless the ticks are in step with
//! the device. Older readings count less, because a clock changes with its temperature. Pure arithmetic; time is an argument.

use crate::time::{Instant, Span};

/// No value before this much time has passed: a step of 10 ms is 1,000 ppm of it.
const ENOUGH: Span = Span::from_seconds(10);

/// Readings right after the start are ignored: a sound server may begin with a gap or a backlog.
const SETTLING: Span = Span::from_seconds(1);

/// After this much time, a reading counts for 1/e of a new one.
const MEMORY: Span = Span::from_seconds(300);

/// Readings of one device since it was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    rate: f64,               // frames per second, nominal
    opened: Option<Instant>, // when the first frames came
    first: Option<(Instant, u64)>,
    last: Instant,
    weight: f64,
    // Means and moments of the seconds since the first reading, and of the frames in excess of the nominal rate since then.
    seconds: f64,
    frames: f64,
    variance: f64,
    covariance: f64,
}

impl Drift {
    /// A drift without readings; `rate`: the nominal frames per second.
    pub(super) fn new(rate: u32) -> Self {
        Self { rate: rate.into(), ..Self::default() }
    }

    /// Adds a reading: the device is at frame `position` at time `at` on our clock. Call it from the first frame on.
    #[expect(clippy::cast_precision_loss, reason = "2^53 frames are a thousand years")]
    pub(super) fn observe(&mut self, at: Instant, position: u64) {
        if at - *self.opened.get_or_insert(at) < SETTLING {
            return;
        }
        let (begin, from) = *self.first.get_or_insert((at, position));
        let elapsed = if self.weight > 0.0 { (at - self.last).seconds() } else { 0.0 };
        self.last = at;
        let fade = (1.0 - elapsed / MEMORY.seconds()).max(0.0);
        let seconds = (at - begin).seconds();
        let frames = position.saturating_sub(from) as f64 - seconds * self.rate;
        self.weight = self.weight * fade + 1.0;
        let off = seconds - self.seconds;
        self.seconds += off / self.weight;
        self.frames += (frames - self.frames) / self.weight;
        self.variance = self.variance * fade + off * (seconds - self.seconds);
        self.covariance = self.covariance * fade + off * (frames - self.frames);
    }

    /// The drift in parts per million, positive when the device is faster; `NaN` until there are enough readings.
    pub(super) fn ppm(&self) -> f64 {
        match self.first {
            Some((begin, _)) if self.last - begin >= ENOUGH => self.covariance / self.variance / self.rate * 1e6,
            _ => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One minute of ticks every 10.37 ms, from a device that is off by `ppm` and reports its position in steps of `step` frames.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a minute's frames fit")]
    fn minute(ppm: f64, step: f64) -> f64 {
        let mut drift = Drift::new(48_000);
        for tick in 0..6_000_i64 {
            let seconds = f64::from(tick as i32) * 0.010_37;
            let position = (seconds * 48_000.0 * (1.0 + ppm * 1e-6) / step).floor() * step;
            let at = Instant::from_nanos(7_000_000_000) + Span::from_micros(tick * 10_370);
            drift.observe(at, 1_000_000 + position as u64);
            assert_eq!(drift.ppm().is_nan(), tick * 10_370 < 11_000_000 + 10_370, "{tick}");
        }
        drift.ppm()
    }

    #[test]
    fn the_slope_is_found_through_steps() {
        for ppm in [0.0, 50.0, -300.0] {
            let fine = minute(ppm, 1.0);
            assert!((fine - ppm).abs() < 0.1, "{ppm} ppm: {fine}");
            let coarse = minute(ppm, 480.0);
            assert!((coarse - ppm).abs() < 20.0, "{ppm} ppm in steps of 10 ms: {coarse}");
        }
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let mut drift = Drift::new(1_000);
        let mut position = 0;
        for second in 0..6_000_u32 {
            position += if second < 3_000 { 1_000 } else { 1_001 };
            drift.observe(Instant::ZERO + Span::from_seconds(second.into()), position);
        }
        assert!((drift.ppm() - 1_000.0).abs() < 5.0, "{}", drift.ppm());
    }
}
