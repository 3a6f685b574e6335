//! The lines of a CSV: one per tick with its values, or, for a task with buffered samples, one per sample. Pure.

use super::append::{Header, Layout};
use super::content::Content;
use super::samples::Sample;
use crate::channels::{Format, Row};
use crate::task::Column;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// Puts the values of a tick into `line`. Writing to a String does not fail, here and below.
pub(super) fn row(line: &mut String, row: &Row<'_>, utc: i128) {
    line.clear();
    let _ = write!(line, "{},{},{}", row.n, rfc3339(utc), row.lateness.nanos());
    values(line, row.values.iter().copied());
}

/// Puts a sample that tick `n` read into `line`.
pub(super) fn sample(line: &mut String, n: u64, sample: &Sample<'_>, utc: i128) {
    line.clear();
    let _ = write!(line, "{n},{}", rfc3339(utc));
    values(line, sample.values());
}

fn values(line: &mut String, values: impl Iterator<Item = f64>) {
    for value in values {
        let _ = match value.is_nan() {
            true => write!(line, ","),
            false => write!(line, ",{value}"),
        };
    }
    line.push('\n');
}

/// The time with nanoseconds; `utc` counts them since 1970.
fn rfc3339(utc: i128) -> impl std::fmt::Display {
    let since_1970 = u64::try_from(utc).map_or(Duration::ZERO, Duration::from_nanos);
    humantime::format_rfc3339_nanos(UNIX_EPOCH + since_1970)
}

pub(super) fn layout(content: &Content) -> Layout {
    let blocks = content.format.clone().filter(|format| matches!(format, Format::Samples(_)));
    let (mut header, columns) = match &blocks {
        Some(Format::Samples(columns)) => (String::from("tick,sample_utc"), columns),
        _ => (String::from("tick,release_utc,lateness_ns"), &content.columns),
    };
    for Column { name, unit } in columns {
        let title = if unit.is_empty() { name.clone() } else { format!("{name} [{unit}]") };
        header.push(',');
        if title.contains([',', '"', '\n', '\r']) {
            header.push_str(&format!("\"{}\"", title.replace('"', "\"\"")));
        } else {
            header.push_str(&title);
        }
    }
    header.push('\n');
    Layout { header: Header { bytes: header.into_bytes(), unit: 1, largest: u64::MAX, sized: false }, blocks }
}
