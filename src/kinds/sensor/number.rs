//! Numbers in text, and rates of counters. Arithmetic only; nothing is allocated.

use crate::time::Instant;

/// A number as it was written. Counters need all 64 bits, which a floating-point number cannot hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(u64),
    /// Finite.
    Other(f64),
}

impl Number {
    /// Parses a decimal number, with a fraction or an exponent, or a hexadecimal integer such as `0x1f`; either may have a sign. `None` for
    /// anything else, including infinity and NaN.
    pub(super) fn parse(field: &[u8]) -> Option<Self> {
        let text = str::from_utf8(field).ok()?;
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if unsigned.starts_with(['+', '-']) {
            return None;
        }
        let size = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
            Some(digits) if digits.starts_with('+') => return None,
            Some(digits) => Self::Integer(u64::from_str_radix(digits, 16).ok()?),
            None => match unsigned.parse() {
                Ok(integer) => Self::Integer(integer),
                Err(_) => Self::Other(unsigned.parse().ok().filter(|number: &f64| number.is_finite())?),
            },
        };
        Some(if negative { Self::Other(-size.value()) } else { size })
    }

    #[expect(clippy::cast_precision_loss, reason = "values are floating-point numbers; registers rarely pass 2^53")]
    pub(super) fn value(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Other(number) => number,
        }
    }

    /// How far a counter that counts up and down has gone from `before`. An integer that has passed its end, at 2^32 or at 2^64, has gone less
    /// than an eighth of that range beyond it.
    #[expect(clippy::cast_precision_loss, reason = "a step that long is known to 16 digits")]
    fn moved_from(self, before: Self) -> f64 {
        let (Self::Integer(from), Self::Integer(to)) = (before, self) else { return self.value() - before.value() };
        let range = if from.max(to) <= u64::from(u32::MAX) { 1_i128 << 32 } else { 1 << 64 };
        let step = i128::from(to) - i128::from(from);
        let passed_its_end = step.abs() > range - range / 8;
        (if passed_its_end { step - range * step.signum() } else { step }) as f64
    }

    /// How far a counter that only counts up has advanced from `before`; `None` if it was reset in between.
    ///
    /// A decreased integer has wrapped at 2^32, or at 2^64 if the previous value was larger than that. It counts as a wrap only if the
    /// resulting step is shorter than an eighth of the range. Any other decrease is a reset.
    #[expect(clippy::cast_precision_loss, reason = "a step that long is known to 16 digits")]
    fn since(self, before: Self) -> Option<f64> {
        match (before, self) {
            (Self::Integer(before), Self::Integer(now)) if now < before => {
                let range = if before <= u64::from(u32::MAX) { 1_u128 << 32 } else { 1 << 64 };
                let step = u128::from(now) + range - u128::from(before);
                (step < range / 8).then_some(step as f64)
            }
            (Self::Integer(before), Self::Integer(now)) => Some((now - before) as f64),
            (before, now) => Some(now.value() - before.value()).filter(|step| *step >= 0.0),
        }
    }
}

/// Which way a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    Up,
    Both,
}

/// A counter that is reported as a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    counts: Counts,
    last: Option<(Number, Instant)>,
}

/// A counter that only counts up is lower than before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WasReset;

impl Counter {
    pub(super) fn new(counts: Counts) -> Self {
        Self { counts, last: None }
    }

    /// Starts over: the next reading is the first one.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// The mean rate per second since the last reading. `None` at the first reading, and if no time has passed.
    ///
    /// # Errors
    /// It was reset.
    pub(super) fn rate(&mut self, now: Number, at: Instant) -> Result<Option<f64>, WasReset> {
        let Some((before, then)) = self.last.replace((now, at)) else { return Ok(None) };
        let seconds = (at - then).seconds();
        let step = match self.counts {
            Counts::Up => now.since(before).ok_or(WasReset)?,
            Counts::Both => now.moved_from(before),
        };
        Ok((seconds > 0.0).then(|| step / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn numbers() {
        for (field, wanted) in [
            ("42", Some(42.0)),
            ("-4.2e1", Some(-42.0)),
            ("+7", Some(7.0)),
            ("0xffffffff", Some(4_294_967_295.0)),
            ("-0X10", Some(-16.0)),
            ("18446744073709551616", Some(18_446_744_073_709_551_616.0)),
            ("0x", None),
            ("0x+1", None),
            ("--1", None),
            ("+-1", None),
            ("nan", None),
            ("-inf", None),
            ("1e999", None),
            ("45%", None),
            ("", None),
        ] {
            assert_eq!(Number::parse(field.as_bytes()).map(Number::value), wanted, "{field}");
        }
        assert_eq!(Number::parse(&[0xff]), None);
    }

    #[test]
    fn a_decrease_is_a_wrap_or_a_reset() {
        let integer = Number::Integer;
        let (top, half) = (u64::from(u32::MAX), 1 << 31);
        for (before, now, step) in [
            (integer(5), integer(5), Some(0.0)),
            (integer(5), integer(12), Some(7.0)),
            (integer(top), integer(0), Some(1.0)),
            (integer(top - 9), integer(90), Some(100.0)),
            (integer(half), integer(0), None),
            (integer(1_000), integer(3), None),
            (integer(top), integer(top + 5), Some(5.0)),
            (integer(top + 1), integer(0), None),
            (integer(u64::MAX), integer(9), Some(10.0)),
            (integer(u64::MAX - 1), integer(u64::MAX), Some(1.0)),
            (Number::Other(1.5), Number::Other(2.25), Some(0.75)),
            (Number::Other(1.5), Number::Other(0.5), None),
            (Number::Other(0.5), integer(2), Some(1.5)),
        ] {
            assert_eq!(now.since(before), step, "{before:?} to {now:?}");
        }
    }

    #[test]
    fn rates_go_by_the_time_between_readings() {
        let mut counter = Counter::new(Counts::Up);
        let mut rate =
            |number, millis| counter.rate(Number::Integer(number), Instant::ZERO + Span::from_millis(millis));
        assert_eq!(rate(100, 1_000), Ok(None));
        assert_eq!(rate(150, 1_500), Ok(Some(100.0)));
        assert_eq!(rate(170, 1_500), Ok(None), "no time has passed");
        assert_eq!(rate(180, 3_500), Ok(Some(5.0)));
        assert_eq!(rate(10, 4_500), Err(WasReset));
        assert_eq!(rate(20, 5_500), Ok(Some(10.0)));
    }

    #[test]
    fn what_counts_both_ways_has_a_rate_below_zero() {
        let (top, end) = (u64::from(u32::MAX), u64::MAX);
        for (before, now, step) in [
            (Number::Integer(1_000), Number::Integer(3), -997.0),
            (Number::Integer(3), Number::Other(-5.0), -8.0),
            (Number::Integer(5), Number::Integer(top - 4), -10.0),
            (Number::Integer(top - 4), Number::Integer(5), 10.0),
            (Number::Integer(5), Number::Integer(end - 4), -10.0),
            (Number::Integer(end - 4), Number::Integer(5), 10.0),
            (Number::Integer(0), Number::Integer(1 << 31), f64::from(1_u32 << 31)),
        ] {
            assert_eq!(now.moved_from(before), step, "{before:?} to {now:?}");
        }
        let mut counter = Counter::new(Counts::Both);
        assert_eq!(counter.rate(Number::Integer(9), Instant::ZERO), Ok(None));
        assert_eq!(counter.rate(Number::Integer(7), Instant::ZERO + Span::from_millis(500)), Ok(Some(-4.0)));
    }
}
