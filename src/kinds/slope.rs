//! The slope of a value over the releases of distinct rows, through a low-pass filter. Pure.
//!
//! Between two rows it stays: a sensor slower than the task that takes its values makes no spikes.

use super::elapsed::Row;

/// The slope of a value, between two ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slope {
    before: Option<f64>, // the value of the latest row; `None`: it begins anew, at zero
    slope: f64,          // per second
}

impl Slope {
    /// Forgets all.
    pub(super) fn restart(&mut self) {
        self.before = None;
    }

    /// The slope with this value; `time_constant` is that of the filter, in seconds, and zero is none.
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
