//! One task as CSV: a line per tick with its values, or, for a task with buffered samples, a line per sample.
//!
//! A file that exists is continued if its header is the same.

use super::append::{Plain, something_else};
use super::file::{Disk, Moment};
use super::{Content, Form, Gaps, Tally, samples};
use crate::channels::{Block, Format, Row};
use crate::config::RecordConfig;
use crate::task::Column;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::time::{Duration, UNIX_EPOCH};

#[derive(Debug)]
pub(super) struct Csv {
    file: Plain,
    sampled: Option<usize>, // how many columns a sample has
    gaps: Gaps,
    line: String,
}

impl Csv {
    /// # Errors
    /// The system's reason; or that the file holds something else.
    pub(super) fn open(limits: &RecordConfig, content: &Content) -> io::Result<Self> {
        let header = header(content);
        let file = Disk::probe(&limits.path)?;
        let mut first = Vec::new();
        BufReader::new(&file).read_until(b'\n', &mut first)?;
        if !first.is_empty() && first != header.as_bytes() {
            return Err(something_else());
        }
        let file = Plain::new(Disk::new(limits.clone(), true), header.into_bytes(), None, u64::MAX);
        let sampled = match &content.format {
            Some(Format::Samples(columns)) => Some(columns.len()),
            _ => None,
        };
        Ok(Self { file, sampled, gaps: Gaps::default(), line: String::new() })
    }
}

impl Form for Csv {
    fn join(&mut self, _: u32, _: &Content, limits: &RecordConfig) {
        self.file.disk.limit(limits.clone());
    }

    fn begin(&mut self, at: Moment) {
        self.file.begin(at);
    }

    fn row(&mut self, id: u32, row: &Row<'_>, utc: i128) {
        if self.sampled.is_some() {
            return;
        }
        self.line.clear();
        // Writing to a String does not fail, here and below.
        let _ = write!(self.line, "{},{},{}", row.n, rfc3339(utc), row.lateness.nanos());
        values(&mut self.line, row.values.iter().copied());
        self.file.put(id, self.line.as_bytes(), Tally { rows: 1, ..Tally::default() }, utc);
    }

    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128) {
        let Some(columns) = self.sampled else { return };
        let count = samples::read(block.bytes, columns).count() as u64;
        self.file.ledger.gap(id, self.gaps.jumps(id, block.head.index, count));
        for sample in samples::read(block.bytes, columns) {
            let utc = i128::from(sample.at) + to_utc;
            self.line.clear();
            let _ = write!(self.line, "{},{}", block.head.n, rfc3339(utc));
            values(&mut self.line, sample.values());
            self.file.put(id, self.line.as_bytes(), Tally { rows: 1, samples: 1, ..Tally::default() }, utc);
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.file.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }

    fn tally(&self, id: u32) -> Tally {
        Tally { files: self.file.disk.files(), ..self.file.ledger.of(id) }
    }
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

/// The first line.
pub(super) fn header(content: &Content) -> String {
    let (mut header, columns) = match &content.format {
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
    header
}
