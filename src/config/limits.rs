//! Checks that a value is within its key's limits. Pure.
//!
//! On failure, each function returns what is wanted instead; the caller appends that to `key = found; `.

use super::key::Value;
use super::value::{duration, duration_text, number, percent, rate, size, written, written_size};
use crate::time::Span;
use toml::de::DeValue;

pub(super) fn duration_of(wanted: &Value, found: &DeValue<'_>) -> Result<Span, String> {
    let span = duration(found)?;
    let Value::Duration { min, max } = *wanted else { return Ok(span) };
    match min.nanos() {
        _ if (min..=max).contains(&span) => Ok(span),
        1 if span == Span::ZERO => Err("must be above zero".to_owned()),
        0 | 1 => Err(format!("must be at most {}", written(max))),
        _ if max == Span::MAX => Err(format!("must be at least {}", written(min))),
        _ => Err(format!("must be from {} to {}", written(min), written(max))),
    }
}

pub(super) fn size_of(wanted: &Value, found: &DeValue<'_>) -> Result<u64, String> {
    match (size(found)?, wanted) {
        (bytes, Value::Size { min }) if bytes < *min => Err(format!("must be at least {}", written_size(*min))),
        (bytes, _) => Ok(bytes),
    }
}

/// A percentage within the key's range, as a fraction of one.
pub(super) fn percent_of(wanted: &Value, found: &DeValue<'_>) -> Result<f64, String> {
    match (percent(found)?, wanted) {
        (share, Value::Percent { zero, max }) if (share <= 0.0 && !zero) || share > f64::from(*max) / 100.0 => {
            let least = if *zero { "" } else { "above 0 % and " };
            Err(format!("must be {least}at most {max} %"))
        }
        (share, _) => Ok(share),
    }
}

pub(super) fn hertz(found: &DeValue<'_>) -> Result<u32, String> {
    let whole = rate(found).ok().filter(|rate| rate.den() == 1);
    let hertz = whole.and_then(|rate| u32::try_from(rate.num()).ok());
    hertz.ok_or_else(|| "must be a whole number of hertz up to 1 MHz, such as 48000 or \"48 kHz\"".to_owned())
}

/// A finite number; not zero, or above zero, if the key demands that.
pub(super) fn number_of(wanted: &Value, found: &DeValue<'_>) -> Result<f64, String> {
    match (number(found)?, wanted) {
        (0.0, Value::Factor) => Err("must not be zero".to_owned()),
        (number, Value::Positive) if number <= 0.0 => Err("must be above zero".to_owned()),
        (number, _) => Ok(number),
    }
}

pub(super) fn integer(wanted: &Value, found: &DeValue<'_>) -> Result<i64, String> {
    let number = whole(found);
    // Show limits in the notation of the number: everyone writes a chip's address as 0x48.
    let shown = |limit: i64| match found.as_integer().map(|number| number.radix()) {
        Some(16) => format!("{limit:#04x}"),
        _ => limit.to_string(),
    };
    let (min, max, or) = match *wanted {
        Value::Integer { min, max } | Value::Integers { min, max, .. } => (min, max, ""),
        Value::NumberOrName { min, max } | Value::NumbersOrNames { min, max, .. } => {
            (min, max, ", or a text in quotes")
        }
        _ => (i64::MIN, i64::MAX, ""),
    };
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| match max {
        i64::MAX => format!("must be a whole number, at least {min}{or}"),
        _ => format!("must be a whole number from {} to {}{or}", shown(min), shown(max)),
    })
}

/// The integer that was found, in any range.
pub(super) fn whole(found: &DeValue<'_>) -> Option<i64> {
    found.as_integer().and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok())
}

pub(super) fn byte(found: &DeValue<'_>) -> Result<u8, String> {
    let byte = integer(&Value::Integer { min: 0, max: 0xff }, found)?;
    u8::try_from(byte).map_err(|error| error.to_string())
}

/// A text; as the key demands, a non-empty text, a path or a file name.
pub(super) fn text(wanted: &Value, found: &DeValue<'_>) -> Result<String, String> {
    let kind = if matches!(wanted, Value::Path | Value::PathEnding(_)) { "path" } else { "text" };
    let text = found.as_str().ok_or_else(|| format!("must be a {kind} in quotes"))?;
    let any = matches!(wanted, Value::Text | Value::Format { .. });
    match wanted {
        _ if !any && text.trim().is_empty() => Err("must not be empty".to_owned()),
        _ if !any && text.contains('\0') => Err("must not contain a NUL byte".to_owned()),
        Value::ValueName => refuse_value_name(text).map_or_else(|| Ok(text.to_owned()), |why| Err(why.to_owned())),
        Value::FileName if text.contains('/') || text == "." || text == ".." => {
            Err("must be the name of a file, such as \"temp1_input\", without a folder".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

/// The columns of every CSV recording besides the values; see [`crate::recording`].
pub(super) const OWN_COLUMNS: [&str; 4] = ["tick", "release_utc", "sample_utc", "lateness_ns"];

/// Why a value cannot be called `name`. `None`: it can.
pub(crate) fn refuse_value_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("must not be empty"),
        _ if OWN_COLUMNS.contains(&name) => Some("is a column of every CSV recording; choose another name"),
        _ if name.chars().any(char::is_control) => Some("must not contain a line break or another control character"),
        _ => None,
    }
}

/// Whether the key accepts this word. True for a key that does not take words.
pub(super) fn is_word(wanted: &Value, word: &str) -> bool {
    match wanted {
        Value::Choice(words) | Value::NumberOr(words) => words.contains(&word),
        Value::Spin => matches!(word, "off" | "auto") || duration_text(word).is_ok(),
        Value::DurationOrOff => word == "off" || duration_text(word).is_ok(),
        _ => true,
    }
}
