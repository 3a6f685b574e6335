//! The course of a setpoint: its value at a time since it began, from numbers alone. Pure: time comes in as nanoseconds. Nothing is
//! allocated once a course is there.

use crate::pacing::Rate;
use crate::time::Span;
use std::f64::consts::TAU;

const NANOS: i128 = 1_000_000_000;

/// A setpoint over time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    pub(super) shape: Shape,
    /// How long one round takes after which it begins again; `None`: what it has come to stays.
    pub(super) round: Option<Span>, // above zero
}

/// What one round looks like.
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
    /// The frequency goes from the one to the other in a straight line.
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

/// How far and around what it swings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wave {
    pub(super) offset: f64,
    pub(super) amplitude: f64,
}

/// Values with the nanoseconds from which on they hold: at least one, and each later than the one before.
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

/// How much of its cycle a frequency has behind it: exact before the one division, however long it has been going on.
#[expect(clippy::cast_precision_loss, reason = "the quotient is rounded, once")]
fn part_of_cycle(nanos: i128, frequency: Rate) -> f64 {
    // den·10⁹ nanoseconds hold num cycles. Below 8.64·10²² times at most 10¹⁵, both products fit.
    let whole = i128::from(frequency.den()) * NANOS;
    (nanos.rem_euclid(whole) * i128::from(frequency.num()) % whole) as f64 / whole as f64
}

/// On the straight line from one value to another, `nanos` of `length` after its begin; at its ends exactly what they are.
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
