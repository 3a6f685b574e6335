//! The mean of the last values. Pure; allocates only at construction.
//!
//! A running sum that subtracts old values would keep their rounding errors: after 10¹⁷ has passed through, a sum of ones is wrong. So
//! nothing is subtracted. New values are added up as they come. Once per window, the sums from each value to the newest one are computed.

/// The last values.
#[derive(Clone, Debug)]
pub(in super::super) struct MovingAverage {
    sums: Box<[f64]>, // from `at` on: sums from each value to the end of the previous window
    at: usize,        // number of values in this window
    sum: f64,         // of the values in this window
}

impl MovingAverage {
    /// A window of this many values; at least one.
    pub(in super::super) fn new(ticks: usize) -> Self {
        Self { sums: vec![0.0; ticks].into_boxed_slice(), at: 0, sum: 0.0 }
    }

    pub(super) fn ticks(&self) -> u64 {
        self.sums.len() as u64
    }

    /// Fills the window with this value.
    pub(super) fn fill(&mut self, value: f64) {
        self.sums.fill(value);
        self.at = self.sums.len();
    }

    /// Adds a value in place of the oldest. Returns the mean.
    pub(super) fn push(&mut self, value: f64) -> f64 {
        if self.at == self.sums.len() {
            self.turn();
        }
        self.sums[self.at] = value;
        self.at += 1;
        self.sum += value;
        let before = self.sums.get(self.at).copied().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "a window has at most some thousand ticks")]
        let ticks = self.sums.len() as f64;
        (before + self.sum) / ticks
    }

    /// Turns the values into sums from each to the newest, and starts the next window.
    fn turn(&mut self) {
        let mut sum = 0.0;
        for value in self.sums.iter_mut().rev() {
            sum += *value;
            *value = sum;
        }
        (self.at, self.sum) = (0, 0.0);
    }
}
