//! The lines of a CSV: one per tick with its values or, for a task with buffered samples, one per sample. Pure.

use super::content::Content;
use super::layout::{Header, Layout};
use super::samples::Sample;
use crate::channels::{Format, Row};
use crate::task::Column;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// The line of a tick with its values.
pub(super) fn row(row: &Row<'_>, utc: i128) -> String {
    let line = format!("{},{},{}", row.n, rfc3339(utc), row.lateness.nanos());
    with_values(line, row.values.iter().copied())
}

/// The line of a sample that was read in tick `n`.
pub(super) fn sample(n: u64, sample: &Sample<'_>, utc: i128) -> String {
    with_values(format!("{n},{}", rfc3339(utc)), sample.values())
}

fn with_values(mut line: String, values: impl Iterator<Item = f64>) -> String {
    for value in values {
        // Writing to a String cannot fail.
        let _ = match value.is_nan() {
            true => write!(line, ","),
            false => write!(line, ",{value}"),
        };
    }
    line.push('\n');
    line
}

/// Formats the time with nanoseconds. `utc` is in nanoseconds since 1970.
fn rfc3339(utc: i128) -> impl std::fmt::Display {
    let since_1970 = u64::try_from(utc).map_or(Duration::ZERO, Duration::from_nanos);
    humantime::format_rfc3339_nanos(UNIX_EPOCH + since_1970)
}

pub(super) fn layout(content: &Content) -> Layout {
    let blocks = content.format.clone().filter(|format| matches!(format, Format::Samples(_)));
    let (mut header, columns) = match &blocks {
        Some(Format::Samples(columns)) => (String::from("tick,sample_utc"), columns.clone()),
        _ => (String::from("tick,release_utc,lateness_ns"), content.recorded()),
    };
    for Column { name, unit } in &columns {
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
