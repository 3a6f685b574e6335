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

    /// How far a counter has advanced from `before`; `None` if it was reset in between.
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

/// A counter that is reported as a rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    last: Option<(Number, Instant)>,
}

impl Counter {
    /// The mean rate per second since the last reading. `None` at the first reading, after a reset, and if no time has passed.
    pub(super) fn rate(&mut self, now: Number, at: Instant) -> Option<f64> {
        let (before, then) = self.last.replace((now, at))?;
        let seconds = (at - then).seconds();
        now.since(before).filter(|_| seconds > 0.0).map(|step| step / seconds)
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
        let mut counter = Counter::default();
        let mut rate =
            |number, millis| counter.rate(Number::Integer(number), Instant::ZERO + Span::from_millis(millis));
        assert_eq!(rate(100, 1_000), None);
        assert_eq!(rate(150, 1_500), Some(100.0));
        assert_eq!(rate(170, 1_500), None, "no time has passed");
        assert_eq!(rate(180, 3_500), Some(5.0));
        assert_eq!(rate(10, 4_500), None, "a reset");
        assert_eq!(rate(20, 5_500), Some(10.0));
    }
}
