//! An exact rate. The release of any tick is computed from the tick's index alone.
//!
//! At 30000/1001 Hz a period is not a whole number of nanoseconds, and a sum of rounded periods drifts. Here the release of tick `n` is
//! `floor(n·den·10⁹/num)` nanoseconds after the first, in 128-bit integers. It is as exact after a century as in the first second. Nothing
//! blocks or allocates.

use super::utilisation::reduced;
use crate::time::Span;
use std::fmt;

const NANOS: u128 = 1_000_000_000;

/// Ticks per second as a reduced fraction: between once in 24 hours and one million per second.
///
/// ```
/// use hertzd::pacing::Rate;
///
/// let ntsc = Rate::new(30_000, 1_001).unwrap();
/// assert_eq!(ntsc.offset(30_000), 1_001_000_000_000);
/// assert_eq!(ntsc.to_string(), "30000/1001");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    num: u64, // in 1..=10^15
    den: u64, // in 1..=8.64·10^13
}

impl Rate {
    /// The limits, for messages.
    pub(crate) const LIMITS: &'static str = "above 0 (at least one tick in 24 hours) and at most 1 MHz";

    /// `num` ticks in `den` seconds; `None` outside the limits.
    pub fn new(num: u64, den: u64) -> Option<Self> {
        let (num, den) = reduced(num.into(), den.into());
        let within = num <= 1_000_000_000_000_000 && num <= 1_000_000 * den && den <= 86_400 * num;
        let (num, den) = (u64::try_from(num).ok()?, u64::try_from(den).ok()?);
        (num > 0 && within).then_some(Self { num, den })
    }

    /// One tick every `period`; `None` outside the limits.
    pub fn from_period(period: Span) -> Option<Self> {
        Self::new(1_000_000_000, u64::try_from(period.nanos()).ok()?)
    }

    /// The numerator of the reduced fraction.
    pub const fn num(self) -> u64 {
        self.num
    }

    /// The denominator of the reduced fraction.
    pub const fn den(self) -> u64 {
        self.den
    }

    /// Ticks per second, rounded; for display and ratios, never for pacing.
    #[expect(clippy::cast_precision_loss, reason = "the result is rounded on purpose")]
    pub fn hertz(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// One period, rounded up to a whole nanosecond, so that it is never too short.
    pub fn period(self) -> Span {
        let nanos = (u128::from(self.den) * NANOS).div_ceil(u128::from(self.num));
        Span::from_wide(i128::try_from(nanos).unwrap_or(i128::MAX))
    }

    /// Nanoseconds from tick 0 to tick `n`: `floor(n·den·10⁹/num)`.
    ///
    /// Exact while `n·den` is below 1.7·10²⁹ (at one tick per day: for 10¹³ years); saturates beyond.
    pub fn offset(self, n: u64) -> i128 {
        self.position(n).nanos
    }

    /// The [`offset`](Self::offset) of tick `n`, with the remainder from which the next position follows.
    pub(super) fn position(self, n: u64) -> Position {
        let product = (u128::from(n) * u128::from(self.den)).checked_mul(NANOS);
        let num = u128::from(self.num);
        let wide = product.unwrap_or(u128::MAX);
        let rest = product.and_then(|product| u64::try_from(product % num).ok());
        Position { nanos: i128::try_from(wide / num).unwrap_or(i128::MAX), rest }
    }

    /// The step from one tick to the next.
    pub(super) fn step(self) -> Step {
        let (scale, num) = (u128::from(self.den) * NANOS, u128::from(self.num));
        let narrow = |nanos: u128| u64::try_from(nanos).unwrap_or(u64::MAX);
        Step { whole: narrow(scale / num), rest: narrow(scale % num), num: self.num }
    }

    /// How many ticks have an [`offset`](Self::offset) below `nanos`. This is also the index of the first tick at or after it.
    #[doc(hidden)]
    pub fn ticks_before(self, nanos: i128) -> u64 {
        // floor(n·P) < t  <=>  n·P < t  (t whole)  <=>  n < t/P, so the count is ceil(t/P).
        let Ok(nanos) = u128::try_from(nanos) else {
            return 0;
        };
        let scale = u128::from(self.den) * NANOS;
        let count = match nanos.checked_mul(u128::from(self.num)) {
            Some(product) => product.div_ceil(scale),
            None => (nanos / scale).saturating_mul(u128::from(self.num)),
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// The shortest positive time that is both a whole number of nanoseconds and a whole number of periods. Shifted by this time, the grid
    /// of releases maps onto itself, rounding included.
    pub(crate) fn repeats_after(self) -> u128 {
        // num and den are coprime.
        reduced(u128::from(self.den) * NANOS, self.num.into()).0
    }
}

/// The shortest time that maps the grids of all these rates onto themselves; `None` without rates, or if it is longer than 292 years.
pub(crate) fn hyperperiod(mut rates: impl Iterator<Item = Rate>) -> Option<i128> {
    let least_common_multiple = |length: u128, rate: Rate| {
        let other = rate.repeats_after();
        let (_, factor) = reduced(length, other);
        length.checked_mul(factor).filter(|length| i64::try_from(*length).is_ok())
    };
    let length = rates.try_fold(1, least_common_multiple)?;
    i128::try_from(length).ok().filter(|length| *length > 1)
}

/// The offset of a tick, and the exact remainder of its division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// `floor(n·den·10⁹/num)`.
    pub(super) nanos: i128,
    rest: Option<u64>, // remainder of that division, in 0..num; `None`: the offset is saturated
}

/// One period, exactly: `whole + rest/num` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    whole: u64, // at most 24 hours
    rest: u64,  // in 0..num
    num: u64,
}

impl Step {
    /// The position of the tick after `position`, without a division. The division's remainder is carried along, so the result equals that
    /// of a division: nothing is rounded twice, and no error accumulates.
    ///
    /// `None` where positions saturate.
    pub(super) fn after(self, position: Position) -> Option<Position> {
        let rest = position.rest? + self.rest; // below 2·10¹⁵
        let carry = u64::from(rest >= self.num);
        let nanos = position.nanos.checked_add(i128::from(self.whole + carry))?;
        Some(Position { nanos, rest: Some(rest - carry * self.num) })
    }

    /// One period, rounded up to a whole nanosecond.
    pub(super) fn period(self) -> Span {
        Span::from_wide(i128::from(self.whole + u64::from(self.rest > 0)))
    }
}

/// `num/den`, always as a fraction: `1000/1`, `30000/1001`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.num, self.den)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_century_at_ntsc_rate_is_exact() {
        let rate = Rate::new(30_000, 1_001).unwrap();
        let n: u64 = 94_605_294_705; // about a century
        assert_eq!(rate.offset(n), i128::from(n) * 1_001 * 1_000_000_000 / 30_000);
        assert_eq!(rate.offset(1_000_000_000_000), 33_366_666_666_666_666_666);
    }

    #[test]
    fn counting_is_the_inverse_of_offset() {
        for (num, den) in [(1_000, 1), (30_000, 1_001), (44_100, 1), (1, 5), (1_000_000, 1), (7, 3)] {
            let rate = Rate::new(num, den).unwrap();
            for n in [0, 1, 2, 29, 30, 1_000, 123_456_789, 1_000_000_000_000] {
                assert_eq!(rate.ticks_before(rate.offset(n)), n, "{rate} {n}");
                assert_eq!(rate.ticks_before(rate.offset(n) + 1), n + 1, "{rate} {n}");
            }
            assert_eq!(rate.ticks_before(-5), 0);
        }
    }

    #[test]
    fn a_step_ends_where_the_division_does() {
        for (num, den) in [
            (1_000, 1),
            (30_000, 1_001),
            (44_100, 1),
            (1, 5),
            (1_000_000, 1),
            (7, 3),
            (999_999_999_999_989, 1_000_000_007),
        ] {
            let rate = Rate::new(num, den).unwrap();
            assert_eq!(rate.step().period(), rate.period());
            for first in [0, 1, 999, 1 << 40, 1 << 62] {
                let mut position = rate.position(first);
                for n in first..first + 3_000 {
                    assert_eq!(position, rate.position(n), "{rate} {n}");
                    position = rate.step().after(position).unwrap();
                }
            }
        }
        let slow = Rate::new(999_999_937, 86_000_000_000_000).unwrap();
        assert_eq!(slow.step().after(slow.position(u64::MAX)), None, "saturated");
    }

    #[test]
    fn a_grid_repeats_after_whole_nanoseconds_and_whole_periods() {
        for (num, den, nanos) in
            [(1_000, 1, 1_000_000), (30_000, 1_001, 100_100_000), (60, 1, 50_000_000), (3, 7, 7_000_000_000)]
        {
            let rate = Rate::new(num, den).unwrap();
            assert_eq!(rate.repeats_after(), nanos, "{rate}");
            let ticks = rate.ticks_before(i128::try_from(nanos).unwrap());
            for n in [0, 1, 2, 7, 1_000] {
                assert_eq!(rate.offset(n + ticks), rate.offset(n) + i128::try_from(nanos).unwrap(), "{rate} {n}");
            }
        }
    }

    #[test]
    fn limits() {
        assert!(Rate::new(0, 1).is_none() && Rate::new(1, 0).is_none() && Rate::new(0, 0).is_none());
        assert!(Rate::new(1_000_000, 1).is_some() && Rate::new(1_000_001, 1).is_none());
        assert!(Rate::new(1, 86_400).is_some() && Rate::new(1, 86_401).is_none());
        assert!(Rate::from_period(Span::from_nanos(-1)).is_none());
        assert_eq!(Rate::from_period(Span::from_micros(2_500)), Rate::new(400, 1));
        assert_eq!(Rate::new(60, 1).unwrap().period(), Span::from_nanos(16_666_667));
    }
}
