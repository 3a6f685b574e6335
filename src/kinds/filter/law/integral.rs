//! The integral over time of a value that is held from tick to tick. Pure.

/// An integral, which starts at zero.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Integral {
    period: f64, // seconds
    sum: f64,
    lost: f64, // excess of the sum, compensated so that small values count beside a large sum
    held: f64, // value since the last tick
}

impl Integral {
    /// An integral with this many seconds between two ticks.
    pub(in super::super) fn new(period: f64) -> Self {
        Self { period, sum: 0.0, lost: 0.0, held: 0.0 }
    }

    /// Continues from this sum.
    pub(super) fn go_on_from(&mut self, sum: f64) {
        (self.sum, self.lost, self.held) = (sum, 0.0, 0.0);
    }

    /// The held value no longer counts, because it is unknown how long it lasted.
    pub(super) fn pause(&mut self) {
        self.held = 0.0;
    }

    /// This many periods have passed.
    pub(super) fn hold(&mut self, periods: u64) {
        #[expect(clippy::cast_precision_loss, reason = "at most max-gap")]
        let change = self.held * (periods as f64 * self.period) - self.lost;
        let sum = self.sum + change;
        self.lost = (sum - self.sum) - change;
        self.sum = sum;
    }

    /// One more period has passed, and this value is held from now on. Returns the integral up to now.
    pub(super) fn step(&mut self, input: f64) -> f64 {
        self.hold(1);
        self.held = input;
        self.sum
    }

    /// Starts again at zero.
    pub(super) fn reset(&mut self) {
        self.go_on_from(0.0);
    }
}
