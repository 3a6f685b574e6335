//! Values over time from a CSV file. Reading the file blocks; everything else is pure.

use super::shape::Points;
use crate::config::NumberOrName;
use crate::sys::entry;
use std::io::Read;
use std::path::Path;

/// Larger files are refused, because the whole file is kept in locked memory.
const LARGEST: u64 = 64 << 20;

/// Which columns to read from a file.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) time: NumberOrName,
    pub(super) value: NumberOrName,
}

/// Reads the points of a file.
///
/// # Errors
/// The reason why it cannot be read, or its first wrong line.
pub(super) fn read(path: &Path, wanted: &Wanted) -> Result<Points, String> {
    let shown = path.display();
    let failed = |reason: std::io::Error| format!("cannot read {shown}: {reason}");
    let file = entry::open(path, libc::O_RDONLY).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(format!("cannot read {shown}: it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("{shown} is larger than 64 MiB; keep fewer rows"));
    }
    let text = String::from_utf8(bytes).map_err(|error| match error.as_bytes() {
        [0x89, b'M', b'C', b'A', b'P', ..] => {
            format!(
                "{shown} is an MCAP recording, and a profile is a CSV with a column of seconds since its first release"
            )
        }
        _ => format!("{shown} is no text in UTF-8"),
    })?;
    points(&text, wanted).map_err(|Wrong { line, reason }| match line {
        Some(line) => format!("{shown}:{line}: {reason}"),
        None => format!("{shown}: {reason}"),
    })
}

/// What is wrong with a file.
#[derive(Debug, PartialEq)]
struct Wrong {
    line: Option<usize>, // from 1
    reason: String,
}

fn points(text: &str, wanted: &Wanted) -> Result<Points, Wrong> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut rows = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let (time, value) = match rows.peek().copied() {
        Some((line, header)) if header.starts_with("tick,release_utc,") => {
            let reason = "this is a recording of hertzd, whose times are dates, and a profile needs a column of seconds since its first \
                          release; `simulate` plays a recording as it is (values in [task.NAME.simulate])";
            return Err(Wrong { line: Some(line), reason: reason.into() });
        }
        None => return Err(Wrong { line: None, reason: "it has no rows".into() }),
        Some((line, header)) => {
            let index = |wanted| column(header, wanted).map_err(|reason| Wrong { line: Some(line), reason });
            let columns = (index(&wanted.time)?, index(&wanted.value)?);
            let named = [&wanted.time, &wanted.value].iter().any(|wanted| matches!(wanted, NumberOrName::Name(_)));
            // If columns are given by number, a first line without any number in them is also a header. With one number it is a row, and
            // its other cell is a mistyped number.
            let is_word = |index: usize| cell(header, index).is_some_and(|cell| cell.parse::<f64>().is_err());
            if named || is_word(columns.0) && is_word(columns.1) {
                rows.next();
            }
            columns
        }
    };
    let mut points: Vec<(i64, f64)> = Vec::new();
    for (line, row) in rows {
        let wrong = |reason: String| Wrong { line: Some(line), reason };
        let seconds = number(row, time, "time").map_err(wrong)?;
        let value = number(row, value, "value").map_err(wrong)?;
        let nanos = nanos(seconds).ok_or_else(|| wrong(format!("the time {seconds} must be from 0 to 9e9 seconds")))?;
        if points.last().is_some_and(|(before, _)| nanos <= *before) {
            return Err(wrong(format!("the time {seconds} is not after that of the row before")));
        }
        points.push((nanos, value));
    }
    if points.is_empty() {
        return Err(Wrong { line: None, reason: "it has a header and no rows".into() });
    }
    Ok(points.into())
}

/// The index of a column, by its number or by its name in the header.
fn column(header: &str, wanted: &NumberOrName) -> Result<usize, String> {
    match wanted {
        NumberOrName::Number(number) => {
            let index = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            let count = cells(header).count();
            index
                .filter(|index| *index < count)
                .ok_or_else(|| format!("there is no column {number}; this line has {count}"))
        }
        NumberOrName::Name(name) => {
            if cells(header).filter(|cell| cell == name).count() > 1 {
                return Err(format!("several columns are named {name:?}; give the number of the one that is meant"));
            }
            cells(header).position(|cell| cell == name).ok_or_else(|| {
                let known: Vec<_> = cells(header).collect();
                format!("there is no column {name:?}; the header has {}", known.join(", "))
            })
        }
    }
}

fn number(row: &str, index: usize, what: &str) -> Result<f64, String> {
    let Some(cell) = cell(row, index) else {
        return Err(format!("the {what} is missing: the row has no column {}", index + 1));
    };
    let number = cell.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("the {what} {cell:?} is not a number"))
}

fn cell(row: &str, index: usize) -> Option<&str> {
    cells(row).nth(index)
}

/// The cells of a row, without the quotes around them. A comma inside quotes does not end a cell.
fn cells(row: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    row.split(move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
    .map(|cell| {
        let cell = cell.trim();
        cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')).unwrap_or(cell)
    })
}

/// Rounds to the nearest nanosecond; `None` below zero, and if 64 bits are too few.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
fn nanos(seconds: f64) -> Option<i64> {
    (0.0..=9e9).contains(&seconds).then(|| (seconds * 1e9).round() as i64)
}
