//! The course of a setpoint: its value at a time since it began, from numbers alone. Pure: time is passed in as nanoseconds. Nothing is
//! allocated once a course exists.

use crate::pacing::Rate;
use crate::time::Span;
use std::f64::consts::TAU;

const NANOS: i128 = 1_000_000_000;

/// A setpoint over time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    pub(super) shape: Shape,
    /// The length of one round, after which the course starts again; `None` if the final value stays.
    pub(super) round: Option<Span>, // above zero
}

/// The shape of one round.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Constant(f64),
    Ramp {
        from: f64,
        to: f64,
        duration: Span,
    },
    Sine {
        wave: Wave,
        frequency: Rate,
    },
    /// The frequency changes linearly from `from` to `to`.
    Chirp {
        wave: Wave,
        from: Rate,
        to: Rate,
        duration: Span,
    },
    Points {
        points: Points,
        interpolates: bool,
    },
}

/// The centre and the amplitude of a wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wave {
    pub(super) offset: f64,
    pub(super) amplitude: f64,
}

/// Values, each with the time in nanoseconds from which it holds. At least one, with times strictly rising.
pub(super) type Points = Box<[(i64, f64)]>;

impl Course {
    /// The value this many nanoseconds after the first release.
    pub(super) fn at(&self, nanos: i128) -> f64 {
        let nanos = match self.round {
            Some(round) => nanos.rem_euclid(i128::from(round.nanos().max(1))),
            None => nanos,
        };
        match &self.shape {
            Shape::Constant(level) => *level,
            Shape::Ramp { from, to, duration } => between(*from, *to, nanos, duration.nanos().into()),
            Shape::Sine { wave, frequency } => wave.at(part_of_cycle(nanos, *frequency)),
            Shape::Chirp { wave, from, to, duration } => {
                let now = Span::from_wide(nanos).min(*duration).seconds();
                let slope = (to.hertz() - from.hertz()) / duration.seconds();
                wave.at((from.hertz() * now + slope * now * now / 2.0).fract())
            }
            Shape::Points { points, interpolates } => point(points, *interpolates, nanos),
        }
    }
}

impl Wave {
    fn at(self, cycles: f64) -> f64 {
        self.offset + self.amplitude * (TAU * cycles).sin()
    }
}

/// The elapsed fraction of the current cycle. It is exact up to the one division, however long the wave has been running.
#[expect(clippy::cast_precision_loss, reason = "the quotient is rounded, once")]
fn part_of_cycle(nanos: i128, frequency: Rate) -> f64 {
    // den·10⁹ nanoseconds hold num cycles. Below 8.64·10²² times at most 10¹⁵, both products fit.
    let whole = i128::from(frequency.den()) * NANOS;
    (nanos.rem_euclid(whole) * i128::from(frequency.num()) % whole) as f64 / whole as f64
}

/// Linear interpolation between two values, `nanos` of `length` after the beginning. Exact at both ends.
#[expect(clippy::cast_precision_loss, reason = "a share is wanted, rounded")]
fn between(from: f64, to: f64, nanos: i128, length: i128) -> f64 {
    match nanos {
        nanos if nanos >= length => to,
        nanos if nanos <= 0 => from,
        nanos => from + (to - from) * (nanos as f64 / length as f64),
    }
}

fn point(points: &[(i64, f64)], interpolates: bool, nanos: i128) -> f64 {
    let next = points.partition_point(|(begin, _)| i128::from(*begin) <= nanos);
    let Some((begin, value)) = points.get(next.saturating_sub(1)) else { return f64::NAN };
    match points.get(next) {
        Some((end, after)) if interpolates && next > 0 => {
            between(*value, *after, nanos - i128::from(*begin), i128::from(*end) - i128::from(*begin))
        }
        _ => *value,
    }
}
