//! The slope of a value over the releases of distinct rows, through a low-pass filter. Pure.
//!
//! Between two rows the slope stays constant, so a sensor slower than the task that reads it causes no spikes. The filter `s / (1 + T·s)`
//! is sampled by the backward difference, `s = (1 - 1/z) / h`, with the time `h` between two rows. Its pole `T / (T + h)` lies between 0
//! and 1 for every `T` and `h`. The pole of Tustin's rule, `(2·T - h) / (2·T + h)`, is negative if `T` is below `h / 2`: each step would
//! then ring from row to row, and without a filter forever.

use super::elapsed::Row;

/// The slope of a value, between two ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slope {
    before: Option<f64>, // value of the last row; `None`: starts again at slope zero
    slope: f64,          // per second
}

impl Slope {
    /// Forgets the last row.
    pub(super) fn restart(&mut self) {
        self.before = None;
    }

    /// The slope with this value. `time_constant`: of the filter, in seconds; zero means no filter.
    pub(super) fn step(&mut self, value: f64, row: Row, time_constant: f64) -> f64 {
        match (self.before, row) {
            (None, _) | (_, Row::First) => self.slope = 0.0,
            (Some(_), Row::Same) => return self.slope,
            (Some(before), Row::Next(seconds)) => {
                let share = seconds / (time_constant + seconds);
                self.slope += share * ((value - before) / seconds - self.slope);
            }
        }
        self.before = Some(value);
        self.slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.signal.cont2discrete(([1, 0], [T, 1]), 1 / 8, "backward_diff")`, a step of one at the second row.
    #[test]
    fn it_is_the_backward_difference_and_does_not_ring() {
        for (time_constant, wanted) in [
            (0.25, [2.666666666666667, 1.7777777777777783, 1.185185185185186, 0.7901234567901243]),
            (0.0125, [7.272727272727266, 0.6611570247933809, 0.06010518407211851, 0.005464107642913163]),
            (0.0, [8.0, 0.0, 0.0, 0.0]),
        ] {
            let mut slope = Slope::default();
            assert_eq!(slope.step(0.0, Row::Next(0.125), time_constant), 0.0);
            let found = [0; 4].map(|_| slope.step(1.0, Row::Next(0.125), time_constant));
            let near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-13);
            assert!(near, "{time_constant}: {found:?}");
        }
    }
}
