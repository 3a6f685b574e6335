//! Instants and spans in integer nanoseconds, and the trait `Clock`, through which all other code reads time.
//!
//! Nothing here reads a clock, blocks or allocates.
//!
//! ```
//! use hertzd::time::{Instant, Span};
//!
//! let release = Instant::ZERO + Span::from_millis(250);
//! let started = release + Span::from_nanos(4_100);
//! assert_eq!((started - release).to_string(), "4.10 µs");
//! ```

pub(crate) mod clock;

pub(crate) use clock::{Clock, Wake};

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub};

/// Nanoseconds in one second.
pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in time: nanoseconds since the zero of the clock it was read from.
///
/// 128 bits wide, because the release of tick 10¹² at 30 Hz is a thousand years ahead, and 64 bits of nanoseconds end after 292 years.
/// Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i128);

impl Instant {
    /// The zero of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than any reading of a clock.
    pub const MAX: Self = Self(i128::MAX);

    /// The instant `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn nanos(self) -> i128 {
        self.0
    }

    /// The time from `earlier` to `self`; negative if `self` is the earlier one.
    pub(crate) fn since(self, earlier: Self) -> Span {
        Span::from_wide(self.0.saturating_sub(earlier.0))
    }

    /// The instant `nanos` nanoseconds after this one, for offsets wider than a [`Span`].
    pub(crate) const fn plus_nanos(self, nanos: i128) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(i128::from(span.0)))
    }
}

impl Sub<Span> for Instant {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(i128::from(span.0)))
    }
}

impl Sub for Instant {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        self.since(earlier)
    }
}

/// A signed length of time in nanoseconds; up to 292 years either way. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span, about 292 years.
    pub const MAX: Self = Self(i64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `seconds` seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// The span of this many nanoseconds, or the nearest one that fits.
    pub fn from_wide(nanos: i128) -> Self {
        Self(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX }))
    }

    /// The length in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The length in seconds, for display and ratios; exact below 104 days.
    #[expect(clippy::cast_precision_loss, reason = "the result is rounded on purpose")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Span {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// Shows three significant digits and the unit that fits: `812 ns`, `4.10 µs`, `16.7 ms`, `2.00 s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (unit, scale) = match magnitude {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            // A value that would round to 1000 of one unit is shown as 1 of the next.
            1_000..999_500 => ("µs", 1e3),
            999_500..999_500_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let value = self.0 as f64 / scale;
        let digits = match value.abs() {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// How long ago something was noticed, for people: `3.20 s`, or `a moment`. Polling cannot date an event more precisely, and the event may
/// even be newer than the poll that shows its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Span);

impl Age {
    /// A shorter age is a moment: the cool threads poll several times in that time.
    const MOMENT: Span = Span::from_millis(100);
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Self::MOMENT { f.pad("a moment") } else { self.0.fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_the_unit_that_fits() {
        let shown = |nanos| Span::from_nanos(nanos).to_string();
        assert_eq!(shown(0), "0 ns");
        assert_eq!(shown(-812), "-812 ns");
        assert_eq!(shown(4_100), "4.10 µs");
        assert_eq!(shown(16_666_667), "16.7 ms");
        assert_eq!(shown(999_499), "999 µs");
        assert_eq!(shown(999_999), "1.00 ms");
        assert_eq!(shown(999_999_999), "1.00 s");
        assert_eq!(shown(-2_000_000_000), "-2.00 s");
        assert_eq!(format!("{:>8}|", Span::from_micros(50)), " 50.0 µs|");
    }

    #[test]
    fn an_age_that_is_too_short_to_be_known_is_a_moment() {
        let shown = |millis| Age(Span::from_millis(millis)).to_string();
        assert_eq!([-5_000, 0, 99, 100, 3_200].map(shown), ["a moment", "a moment", "a moment", "100 ms", "3.20 s"]);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::MAX + Span::MAX, Instant::MAX);
        assert_eq!(Instant::MAX - Instant::ZERO, Span::MAX);
        assert_eq!(Instant::ZERO - Instant::MAX, Span::from_nanos(i64::MIN));
        assert_eq!(-Span::from_nanos(i64::MIN), Span::MAX);
    }
}
