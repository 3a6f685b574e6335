//! Filters of first and second order: Butterworth low-pass and high-pass, and the notch. Pure.
//!
//! They are the analogue filters under the bilinear transform, with an exact cutoff. They are computed as integrators by the trapezoidal
//! rule, not from the coefficients of the transfer function. Both forms are the same filter, but if the cutoff is far below the rate, those
//! coefficients differ from 1 and 2 only in their last digits.

use std::f64::consts::{PI, SQRT_2};

/// What a filter passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Response {
    LowPass,
    HighPass,
    Notch,
}

impl Response {
    /// The level to settle at so that the next output, for `input`, is `out`. The output of a high-pass is the distance of the input from
    /// that level.
    fn level_for(self, out: f64, input: f64) -> f64 {
        match self {
            Self::LowPass | Self::Notch => out,
            Self::HighPass => input - out,
        }
    }
}

/// A filter of first order.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct FirstOrder {
    response: Response,
    share: f64, // fraction of the way to the input covered in half a tick
    low: f64,   // the integrator
}

impl FirstOrder {
    /// A low-pass or high-pass with the cutoff as a fraction of the rate, below one half.
    pub(in super::super) fn new(response: Response, cutoff: f64) -> Self {
        let gain = (PI * cutoff).tan();
        Self { response, share: gain / (1.0 + gain), low: 0.0 }
    }

    pub(super) fn level_for(&self, out: f64, input: f64) -> f64 {
        self.response.level_for(out, input)
    }

    pub(super) fn settle(&mut self, input: f64) {
        self.low = input;
    }

    pub(super) fn step(&mut self, input: f64) -> f64 {
        let half = self.share * (input - self.low);
        let low = self.low + half;
        self.low = low + half;
        if self.response == Response::HighPass { input - low } else { low }
    }
}

/// A filter of second order.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SecondOrder {
    response: Response,
    damping: f64,
    gains: [f64; 3],
    band: f64, // the integrators: this and `low`
    low: f64,
}

impl SecondOrder {
    /// A Butterworth filter with the cutoff as a fraction of the rate, below one half.
    pub(in super::super) fn butterworth(response: Response, cutoff: f64) -> Self {
        Self::new(response, (PI * cutoff).tan(), SQRT_2)
    }

    /// A notch at a fraction of the rate, below one half. The frequencies damped by 3 dB are `frequency / q` apart, after the transform.
    pub(in super::super) fn notch(frequency: f64, q: f64) -> Self {
        let damping = 2.0 * (PI * frequency / q).tan() / (2.0 * PI * frequency).sin();
        Self::new(Response::Notch, (PI * frequency).tan(), damping)
    }

    fn new(response: Response, gain: f64, damping: f64) -> Self {
        let first = 1.0 / (1.0 + gain * (gain + damping));
        Self { response, damping, gains: [first, gain * first, gain * gain * first], band: 0.0, low: 0.0 }
    }

    pub(super) fn level_for(&self, out: f64, input: f64) -> f64 {
        self.response.level_for(out, input)
    }

    pub(super) fn settle(&mut self, input: f64) {
        (self.band, self.low) = (0.0, input);
    }

    pub(super) fn step(&mut self, input: f64) -> f64 {
        let [first, second, third] = self.gains;
        let above = input - self.low;
        let band = first * self.band + second * above;
        let low = self.low + second * self.band + third * above;
        self.band = 2.0 * band - self.band;
        self.low = 2.0 * low - self.low;
        match self.response {
            Response::LowPass => low,
            Response::HighPass => input - self.damping * band - low,
            Response::Notch => input - self.damping * band,
        }
    }
}
