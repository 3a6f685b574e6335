//! The law of a filter: its output at each tick, from numbers alone. Pure; nothing is allocated after construction.
//!
//! A value is held between two ticks: each tick that was skipped, or had no value, counts as one with the previous tick's value. Non-finite
//! values never enter the state. A filter starts in the steady state of its first value, as if its input had always been that. A filter
//! that continues from another starts in the state that gives the other one's output.

mod integral;
mod median;
mod moving_average;
mod recursive;

pub(super) use integral::Integral;
pub(super) use median::Median;
pub(super) use moving_average::MovingAverage;
pub(super) use recursive::{FirstOrder, Response, SecondOrder};

use super::super::elapsed::{Elapsed, Row};
use super::super::slope::Slope;

/// The inputs of one tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub input: f64, // not finite: no value
    pub row: Row,
    pub elapsed: Elapsed,
    pub reset: bool,
}

/// The kind of filter, with its state.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    FirstOrder(FirstOrder),
    SecondOrder(SecondOrder),
    MovingAverage(MovingAverage),
    Median(Median),
    /// The output follows the input, by at most `change` per tick.
    SlewLimit {
        out: f64,
        change: f64, // per tick; greater than zero
    },
    Derivative {
        slope: Slope,
        time_constant: f64, // seconds; 0: no filter
    },
    Integral(Integral),
}

/// The state of a filter between two ticks.
#[derive(Clone, Debug)]
pub(super) struct Law {
    shape: Shape,
    held: Option<f64>, // the last input; `None`: the filter starts at the next one
    from: Option<f64>, // if it starts there, it continues from this output of another filter
}

impl Law {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, held: None, from: None }
    }

    /// Continues from the last output of another filter of this shape.
    pub(super) fn go_on_from(&mut self, out: f64) {
        match &mut self.shape {
            Shape::Integral(integral) => integral.go_on_from(out),
            _ => self.from = Some(out),
        }
    }

    /// Whether the next output depends on earlier outputs.
    pub(super) fn remembers(&self) -> bool {
        self.held.is_some() || self.from.is_some() || matches!(self.shape, Shape::Integral(_))
    }

    /// One tick; NaN: nothing to output.
    pub(super) fn step(&mut self, step: &Step) -> f64 {
        if step.reset {
            self.shape.reset();
        }
        if !step.input.is_finite() {
            let may_wait = |_: &f64| step.elapsed.may_wait;
            (self.held, self.from) = (self.held.filter(may_wait), self.from.filter(may_wait));
            return f64::NAN;
        }
        match self.held.replace(step.input) {
            Some(held) if !step.elapsed.gap => self.shape.hold(held, step.elapsed.skipped),
            _ => match self.from.take() {
                Some(out) => self.shape.settle_at(out, step.input),
                None => self.shape.settle(step.input),
            },
        }
        let out = self.shape.step(step.input, step.row);
        if out.is_finite() {
            return out;
        }
        // The values are too large for floating point.
        self.held = None;
        f64::NAN
    }
}

impl Shape {
    /// Sets the steady state for this input.
    fn settle(&mut self, input: f64) {
        match self {
            Self::FirstOrder(filter) => filter.settle(input),
            Self::SecondOrder(filter) => filter.settle(input),
            Self::MovingAverage(window) => window.fill(input),
            Self::Median(window) => window.fill(input),
            Self::SlewLimit { out, .. } => *out = input,
            Self::Derivative { slope, .. } => slope.restart(),
            Self::Integral(integral) => integral.pause(),
        }
    }

    /// Sets the steady state that gives the output `out`, before the input changes to `input`. A slope has no such state.
    fn settle_at(&mut self, out: f64, input: f64) {
        match self {
            Self::FirstOrder(filter) => filter.settle(filter.level_for(out, input)),
            Self::SecondOrder(filter) => filter.settle(filter.level_for(out, input)),
            Self::MovingAverage(_) | Self::Median(_) | Self::SlewLimit { .. } => self.settle(out),
            Self::Derivative { .. } | Self::Integral(_) => self.settle(input),
        }
    }

    /// Makes up for ticks with this input that did not run. Does nothing for a filter that does not count ticks.
    fn hold(&mut self, input: f64, ticks: u64) {
        match self {
            Self::MovingAverage(window) if ticks >= window.ticks() => window.fill(input),
            Self::Median(window) if ticks >= window.ticks() => window.fill(input),
            Self::FirstOrder(_) | Self::SecondOrder(_) | Self::MovingAverage(_) | Self::Median(_) => {
                (0..ticks).for_each(|_| {
                    self.step(input, Row::Same);
                });
            }
            Self::SlewLimit { out, change } => {
                #[expect(clippy::cast_precision_loss, reason = "at most max-gap")]
                let most = *change * ticks as f64;
                *out += (input - *out).clamp(-most, most);
            }
            Self::Derivative { .. } => (),
            Self::Integral(integral) => integral.hold(ticks),
        }
    }

    fn step(&mut self, input: f64, row: Row) -> f64 {
        match self {
            Self::FirstOrder(filter) => filter.step(input),
            Self::SecondOrder(filter) => filter.step(input),
            Self::MovingAverage(window) => window.push(input),
            Self::Median(window) => window.push(input),
            Self::SlewLimit { out, change } => {
                *out += (input - *out).clamp(-*change, *change);
                *out
            }
            Self::Derivative { slope, time_constant } => slope.step(input, row, *time_constant),
            Self::Integral(integral) => integral.step(input),
        }
    }

    fn reset(&mut self) {
        if let Self::Integral(integral) = self {
            integral.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELAPSED: Elapsed = Elapsed { skipped: 0, seconds: 1.0, gap: false, may_wait: true };

    fn step(law: &mut Law, input: f64, may_wait: bool) -> f64 {
        law.step(&Step { input, row: Row::Next(1.0), elapsed: Elapsed { may_wait, ..ELAPSED }, reset: false })
    }

    #[test]
    fn one_that_goes_on_begins_where_the_other_one_was() {
        let slow = 1e-9;
        for (shape, wanted) in [
            (Shape::FirstOrder(FirstOrder::new(Response::LowPass, slow)), 3.0),
            (Shape::FirstOrder(FirstOrder::new(Response::HighPass, slow)), 3.0),
            (Shape::SecondOrder(SecondOrder::butterworth(Response::LowPass, slow)), 3.0),
            (Shape::SecondOrder(SecondOrder::butterworth(Response::HighPass, slow)), 3.0),
            (Shape::MovingAverage(MovingAverage::new(4)), 3.5),
            (Shape::Median(Median::new(3)), 3.0),
            (Shape::SlewLimit { out: 0.0, change: 0.25 }, 3.25),
            (Shape::Derivative { slope: Slope::default(), time_constant: 0.0 }, 0.0),
            (Shape::Integral(Integral::new(1.0)), 3.0),
        ] {
            let shown = format!("{shape:?}");
            let mut law = Law::new(shape);
            law.go_on_from(3.0);
            assert!(step(&mut law, f64::NAN, true).is_nan() && law.remembers(), "{shown}");
            let mut late = law.clone();
            let out = step(&mut law, 5.0, true);
            assert!((out - wanted).abs() < 1e-6, "{out} of {shown}");
            // After too long without a value it starts over.
            step(&mut late, f64::NAN, false);
            assert_eq!(late.remembers(), shown.starts_with("Integral"), "{shown}");
        }
    }
}
