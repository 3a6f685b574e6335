//! The available spin tails and their maximum cost. Pure arithmetic.

use crate::time::Span;
use std::fmt;

/// If less time than this is left, spinning is cheaper and more exact than a sleep. `clock_nanosleep` costs 4 to 5 µs even if its instant
/// has passed, and is 12 µs late at the median.
pub(super) const TOO_SHORT_TO_SLEEP: Span = Span::from_micros(10);

/// The requested spin tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tail {
    /// Sleep until the release itself.
    Off,
    /// A margin of fixed length.
    Fixed(Span),
    /// Spin as long as the measured oversleeps require, within `cpu_max` of the processor.
    Auto {
        /// Largest share of one processor spent spinning, in 0..=1.
        cpu_max: f64,
        /// Spin no longer than this target needs. `None`: as long as the share pays for, up to the 99.9th percentile.
        target: Option<Target>,
    },
}

/// A lateness to reach as cheaply as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The percentile of the lateness, in thousandths; in 500..=999.
    pub thousandths: u32,
    /// Required upper bound (exclusive) of the lateness at that percentile; above zero.
    pub below: Span,
}

/// As in a configuration: `p99.5 < 1.00 µs`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.thousandths / 10)?;
        match self.thousandths % 10 {
            0 => {}
            tenth => write!(f, ".{tenth}")?,
        }
        write!(f, " < {}", self.below)
    }
}

impl Tail {
    /// The processor time that a tail takes per release at `hertz` releases a second, at most: the margin, plus the time before it if that
    /// is too short for a sleep. With `auto`, on average.
    pub(crate) fn cost(self, hertz: f64) -> Span {
        match self {
            Self::Off => Span::ZERO,
            Self::Fixed(margin) => margin + TOO_SHORT_TO_SLEEP,
            Self::Auto { cpu_max, .. } => share(Span::from_seconds(1), cpu_max / hertz),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a share of a span is a shorter span")]
pub(super) fn share(span: Span, of: f64) -> Span {
    Span::from_nanos((span.nanos().max(0) as f64 * of) as i64)
}
