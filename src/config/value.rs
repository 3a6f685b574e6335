//! Parses single values: durations, rates, shares, sizes. Pure functions; exact, using integers.
//!
//! On failure, each returns what is wanted instead; the caller appends that to `key = found; `.

use crate::pacing::{Rate, Target, reduced};
use crate::time::Span;
use std::time::Duration;
use toml::de::DeValue;

/// The units of a duration, as written.
pub(super) const DURATION_UNITS: &[&str] = &["ns", "us", "µs", "ms", "s", "min", "h"];

/// The units of a rate, with their factors.
pub(super) const RATE_UNITS: &[(&str, u64)] = &[("", 1), ("Hz", 1), ("kHz", 1_000), ("KHz", 1_000), ("MHz", 1_000_000)];

/// The units of a size in bytes, with their factors.
pub(super) const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A duration, zero included: one number with one unit.
pub(super) fn duration(value: &DeValue<'_>) -> Result<Span, String> {
    match value {
        DeValue::String(text) => duration_text(text.trim()),
        DeValue::Integer(number) if number.radix() == 10 => {
            Err(format!("write a unit, e.g. \"{}us\"", number.as_str().trim_start_matches(['-', '+'])))
        }
        DeValue::Integer(_) | DeValue::Float(_) => Err("write a unit, e.g. \"250us\"".to_owned()),
        _ => Err("must be a duration such as \"250us\"".to_owned()),
    }
}

pub(super) fn rate(value: &DeValue<'_>) -> Result<Rate, String> {
    let limits = || format!("must be {}", Rate::LIMITS);
    match value {
        DeValue::Integer(number) => {
            let ticks = u64::from_str_radix(number.as_str(), number.radix()).map_err(|_| limits())?;
            Rate::new(ticks, 1).ok_or_else(limits)
        }
        DeValue::Float(number) => rate_text(number.as_str()).map_err(|_| limits()),
        DeValue::String(text) => rate_text(text.trim()),
        _ => Err("must be a rate such as 1000, \"60 Hz\" or \"30000/1001\"".to_owned()),
    }
}

/// A percentile with at most one decimal, and the duration it should stay below.
pub(super) fn spin_target(value: &DeValue<'_>) -> Result<Target, String> {
    let wanted = || "must be a percentile from p50 to p99.9 and a duration, such as \"p99 < 1us\"".to_owned();
    let DeValue::String(text) = value else { return Err(wanted()) };
    let (percentile, below) = text.split_once('<').ok_or_else(wanted)?;
    let digits = percentile.trim().strip_prefix('p').ok_or_else(wanted)?;
    let (whole, tenth) = digits.split_once('.').unwrap_or((digits, "0"));
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole, 2) || !digits(tenth, 1) {
        return Err(wanted());
    }
    let thousandths = format!("{whole}{tenth}").parse().map_err(|_| wanted())?;
    match duration_text(below.trim())? {
        _ if thousandths < 500 => Err(wanted()),
        Span::ZERO => Err("must be below a duration above zero, such as \"p99 < 1us\"".to_owned()),
        below => Ok(Target { thousandths, below }),
    }
}

/// A number of bytes: one number with one unit.
pub(super) fn size(value: &DeValue<'_>) -> Result<u64, String> {
    let text = match value {
        DeValue::String(text) => text.trim(),
        DeValue::Integer(_) | DeValue::Float(_) => return Err("write a unit, e.g. \"100 MB\"".to_owned()),
        _ => return Err("must be a size such as \"100 MB\"".to_owned()),
    };
    size_text(text)
}

/// The same, from its text.
pub(crate) fn size_text(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    let units: Vec<_> = SIZE_UNITS.iter().map(|(name, _)| *name).collect();
    let wanted = || format!("must be a number with one of the units {}, e.g. \"100 MB\"", units.join(", "));
    let scale = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale).ok_or_else(wanted)?;
    let (over, under) = decimal(number).ok().flatten().ok_or_else(wanted)?;
    let bytes = u128::from(over) * u128::from(scale);
    match (bytes % u128::from(under), i64::try_from(bytes / u128::from(under))) {
        (0, Ok(bytes)) => Ok(bytes.unsigned_abs()),
        _ => Err("must be a whole number of bytes below 2^63".to_owned()),
    }
}

/// A percentage, as a fraction of one.
pub(super) fn percent(value: &DeValue<'_>) -> Result<f64, String> {
    let wanted = || "must be a share such as \"5%\"".to_owned();
    let DeValue::String(text) = value else {
        return Err(wanted());
    };
    let number = text.trim().strip_suffix('%').ok_or_else(wanted)?.trim_end();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(wanted());
    }
    number.parse::<f64>().map(|percent| percent / 100.0).map_err(|_| wanted())
}

pub(super) fn number(value: &DeValue<'_>) -> Result<f64, String> {
    let number = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
        #[expect(clippy::cast_precision_loss, reason = "a number of any size is wanted, rounded where it must be")]
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite()).ok_or_else(|| "must be a finite number".to_owned())
}

/// Formats a duration as a configuration would write it: exact, in the largest unit that leaves a whole number.
pub(crate) fn written(span: Span) -> String {
    if span == Span::ZERO {
        return "0s".to_owned();
    }
    let units =
        [("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let fits = units.into_iter().find(|(_, scale)| span.nanos() % scale == 0);
    let (unit, scale) = fits.unwrap_or(("ns", 1));
    format!("{}{unit}", span.nanos() / scale)
}

/// Formats a number of bytes in the same way.
pub(super) fn written_size(bytes: u64) -> String {
    let units = SIZE_UNITS[..4].iter().rev().find(|(_, scale)| bytes.is_multiple_of(*scale));
    let (unit, scale) = units.unwrap_or(&("B", 1));
    format!("{} {unit}", bytes / scale)
}

/// Parses a duration such as `250us`: one number with one unit.
pub(crate) fn duration_text(text: &str) -> Result<Span, String> {
    if text.starts_with('-') {
        return Err("must not be negative".to_owned());
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    if number.is_empty() {
        return Err("must be a number with a unit, e.g. \"250us\"".to_owned());
    }
    if unit.is_empty() {
        return Err(format!("write a unit, e.g. \"{number}us\""));
    }
    // humantime accepts units that would confuse here ("M" is a month), and only one of the two letters for micro.
    let unit = unit.replace('\u{3bc}', "\u{b5}");
    if !DURATION_UNITS.contains(&unit.as_str()) {
        return Err(format!("must be one number with one of the units {}", DURATION_UNITS.join(", ")));
    }
    let parsed: Duration = humantime::parse_duration(&format!("{number}{unit}")).map_err(|error| match error {
        humantime::DurationError::NumberOverflow => "must be whole nanoseconds, and at most 292 years".to_owned(),
        _ => "must be a number with a unit, e.g. \"250us\"".to_owned(),
    })?;
    let nanos = i64::try_from(parsed.as_nanos()).map_err(|_| "must be at most 292 years".to_owned())?;
    Ok(Span::from_nanos(nanos))
}

pub(crate) fn rate_text(text: &str) -> Result<Rate, String> {
    let split = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, unit) = (text[..split].trim_end(), &text[split..]);
    let limits = || format!("must be {}", Rate::LIMITS);
    let Some((_, scale)) = RATE_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("must be a number of Hz, kHz or MHz, {}", Rate::LIMITS));
    };
    let (over, under) = number.split_once('/').unwrap_or((number, "1"));
    let (over, under) = (decimal(over.trim())?, decimal(under.trim())?);
    let (Some(over), Some(under)) = (over, under) else {
        return Err(limits());
    };
    let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let num = times(over.0, under.1).checked_mul(u128::from(*scale)).ok_or_else(limits)?;
    let den = times(over.1, under.0);
    // Reduce before narrowing: 44.1 kHz passes through 441000/10.
    let (num, den) = reduced(num, den);
    match (u64::try_from(num), u64::try_from(den)) {
        (Ok(num), Ok(den)) => Rate::new(num, den).ok_or_else(limits),
        _ => Err(limits()),
    }
}

/// A decimal number as an exact fraction: 29.97 becomes 2997/100, not the nearest binary number. `None` if it is negative, or too large or
/// too precise for any rate.
fn decimal(text: &str) -> Result<Option<(u64, u64)>, String> {
    let wanted = || "must be a rate such as 1000, \"60 Hz\" or \"30000/1001\"".to_owned();
    let (sign, text) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (&text[..1], rest),
        None => ("+", text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.chars().chain(fraction.chars());
    if whole.is_empty() || mantissa.ends_with('.') || !digits().all(|c| c.is_ascii_digit()) {
        return Err(wanted());
    }
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if unsigned.is_empty() || !unsigned.chars().all(|c| c.is_ascii_digit()) {
        return Err(wanted());
    }
    if sign == "-" {
        return Ok(None);
    }
    let mut mantissa: u64 = 0;
    for digit in digits().filter_map(|c| c.to_digit(10)) {
        match mantissa.checked_mul(10).and_then(|m| m.checked_add(u64::from(digit))) {
            Some(next) => mantissa = next,
            None => return Ok(None),
        }
    }
    let scale = exponent.parse::<i64>().ok().and_then(|e| e.checked_sub(i64::try_from(fraction.len()).ok()?));
    let power = |exponent: u64| 10_u64.checked_pow(u32::try_from(exponent).ok()?);
    Ok(scale.and_then(|scale| {
        let power = power(scale.unsigned_abs())?;
        if scale < 0 { Some((mantissa, power)) } else { Some((mantissa.checked_mul(power)?, 1)) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> DeValue<'_> {
        DeValue::parse(text).unwrap().into_inner()
    }

    #[test]
    fn durations() {
        let nanos = |text| duration(&value(text)).map(Span::nanos);
        assert_eq!(nanos("'250us'"), Ok(250_000));
        assert_eq!(nanos("'1.5ms'"), Ok(1_500_000));
        assert_eq!(nanos("'0.001us'"), Ok(1));
        assert_eq!(nanos("'2 µs'"), Ok(2_000));
        assert_eq!(nanos("'2μs'"), Ok(2_000));
        assert_eq!(nanos("' 1h '"), Ok(3_600_000_000_000));
        assert_eq!(nanos("'0s'"), Ok(0));
        let no_duration =
            ["5", "1.5", "'5'", "'5 m'", "'5M'", "'-5us'", "''", "'us'", "'1 0us'", "'1.us'", "'.5s'", "true"];
        let odd = ["'1.5ns'", "'99999999999999999999s'", "'1h 30min'", "'18446744073709551615s'", "'1e3us'"];
        assert_eq!(no_duration.iter().chain(&odd).find(|wrong| nanos(wrong).is_ok()), None);
        assert_eq!(written(Span::from_nanos(16_666_667)), "16666667ns");
        assert_eq!(written(Span::from_millis(1_500)), "1500ms");
        assert_eq!(written(Span::ZERO), "0s");
        assert_eq!(nanos("-5"), Err("write a unit, e.g. \"5us\"".into()));
    }

    #[test]
    fn rates_are_exact() {
        let fraction = |text| rate(&value(text)).map(|rate| (rate.num(), rate.den()));
        assert_eq!(fraction("1000"), Ok((1_000, 1)));
        assert_eq!(fraction("1_000"), Ok((1_000, 1)));
        assert_eq!(fraction("0x3E8"), Ok((1_000, 1)));
        assert_eq!(fraction("0.2"), Ok((1, 5)));
        assert_eq!(fraction("29.97"), Ok((2_997, 100)));
        assert_eq!(fraction("1e3"), Ok((1_000, 1)));
        assert_eq!(fraction("2.5e-1"), Ok((1, 4)));
        assert_eq!(fraction("'60 Hz'"), Ok((60, 1)));
        assert_eq!(fraction("'30000/1001'"), Ok((30_000, 1_001)));
        assert_eq!(fraction("'30000 / 1001 Hz'"), Ok((30_000, 1_001)));
        assert_eq!(fraction("'60/1.001Hz'"), Ok((60_000, 1_001)));
        assert_eq!(fraction("'44.1 kHz'"), Ok((44_100, 1)));
        assert_eq!(fraction("'1MHz'"), Ok((1_000_000, 1)));
    }

    #[test]
    fn rates_out_of_reach_are_refused() {
        for wrong in ["0", "-5", "0.0", "-0.2", "nan", "inf", "-inf", "1e300", "1e-300", "1e99999999999999999999"] {
            let wanted = rate(&value(wrong)).unwrap_err();
            assert!(wanted.contains(Rate::LIMITS), "{wrong}: {wanted}");
        }
        let texts = ["'5 mHz'", "'5 hz'", "'1/0'", "'1e300 Hz'", "''", "'Hz'", "'1//2'", "'1.'", "'x'", "'1/2/3'"];
        let odd = ["true", "1979-05-27", "[60]", "{}", "'NaN'", "'99999999999999999999/99999999999999999998'"];
        assert_eq!(texts.iter().chain(&odd).find(|wrong| rate(&value(wrong)).is_ok()), None);
    }

    #[test]
    fn sizes() {
        let bytes = |text| size(&value(text));
        assert_eq!(bytes("'100 MB'"), Ok(100_000_000));
        assert_eq!(bytes("'1.5kB'"), Ok(1_500));
        assert_eq!(bytes("' 64 KiB '"), Ok(65_536));
        assert_eq!(bytes("'0.5GiB'"), Ok(1 << 29));
        assert_eq!(bytes("'0 B'"), Ok(0));
        let wrong = ["100", "1.5", "'100'", "'MB'", "'-1 MB'", "'1 mb'", "'1 TB'", "'1.5 B'", "'1e3 B'", "''", "true"];
        let odd = ["'99999999999 GB'", "'0.0000000001 GB'"];
        assert_eq!(wrong.iter().chain(&odd).find(|wrong| bytes(wrong).is_ok()), None);
    }

    #[test]
    fn shares_and_numbers() {
        assert_eq!(percent(&value("'5%'")), Ok(0.05));
        assert_eq!(percent(&value("'12.5 %'")), Ok(0.125));
        for wrong in ["5", "0.05", "'5'", "'%'", "'-5%'", "'nan%'", "'inf%'", "'1e3%'", "'..%'"] {
            assert!(percent(&value(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(number(&value("-3")), Ok(-3.0));
        assert_eq!(number(&value("0x10")), Ok(16.0));
        assert_eq!(number(&value("1.5")), Ok(1.5));
        assert!(["nan", "inf", "1e999", "'1'"].iter().all(|wrong| number(&value(wrong)).is_err()));
    }
}
