//! One task as CSV: a line per tick with its values, or, for a task with buffered samples, a line per sample.
//!
//! A file that exists is continued if its header is the same. May block; time is an argument.

use super::append::{AppendFile, Header, something_else};
use super::content::Content;
use super::file::{Moment, RecordingFile};
use super::ledger::{StreamPositions, WriteCounts};
use super::samples;
use super::writer::Writer;
use crate::channels::{Block, Format, Row};
use crate::config::RecordConfig;
use crate::task::Column;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

/// What the lines of a task hold.
#[derive(Debug)]
struct Layout {
    header: Header,
    sampled: Option<usize>, // columns of a sample; `None`: rows of values
}

impl Layout {
    fn of(content: &Content) -> Self {
        let sampled = match &content.format {
            Some(Format::Samples(columns)) => Some(columns.len()),
            _ => None,
        };
        Self { header: header(content), sampled }
    }
}

#[derive(Debug)]
pub(super) struct Csv {
    file: AppendFile,
    layouts: BTreeMap<u32, Layout>, // of each task: after a reload another may continue the recording
    positions: StreamPositions,
    line: String,
}

impl Csv {
    /// # Errors
    /// The system's reason; or that the file holds something else.
    pub(super) fn new(file: RecordingFile, content: &Content) -> io::Result<Self> {
        let header = header(content);
        if !file.is_new()? && !file.begins_with(&header.bytes)? {
            return Err(something_else());
        }
        let file = AppendFile::new(file, header, None, u64::MAX);
        Ok(Self { file, layouts: BTreeMap::new(), positions: StreamPositions::default(), line: String::new() })
    }
}

impl Writer for Csv {
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.file.file.limit(limits.clone());
        self.layouts.insert(id, Layout::of(content));
    }

    fn leave(&mut self, id: u32) {
        self.layouts.remove(&id);
    }

    fn begin(&mut self, at: Moment) {
        self.file.begin(at);
    }

    fn row(&mut self, id: u32, row: &Row<'_>, utc: i128) {
        let Some(Layout { header, sampled: None }) = self.layouts.get(&id) else { return };
        let counts = WriteCounts { rows: 1, ..WriteCounts::default() };
        if !self.file.change(header) {
            return self.file.ledger.lose(id, counts);
        }
        self.line.clear();
        // Writing to a String does not fail, here and below.
        let _ = write!(self.line, "{},{},{}", row.n, rfc3339(utc), row.lateness.nanos());
        values(&mut self.line, row.values.iter().copied());
        self.file.put(id, self.line.as_bytes(), counts, utc);
    }

    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128) {
        let Some(Layout { header, sampled: Some(columns) }) = self.layouts.get(&id) else { return };
        let count = samples::read(block.bytes, *columns).count() as u64;
        self.file.ledger.gap(id, self.positions.jumps(id, block.head.index, count));
        let counts = WriteCounts { rows: 1, samples: 1, ..WriteCounts::default() };
        if !self.file.change(header) {
            return self.file.ledger.lose(id, WriteCounts { rows: count, samples: count, ..counts });
        }
        for sample in samples::read(block.bytes, *columns) {
            let utc = i128::from(sample.at) + to_utc;
            self.line.clear();
            let _ = write!(self.line, "{},{}", block.head.n, rfc3339(utc));
            values(&mut self.line, sample.values());
            self.file.put(id, self.line.as_bytes(), counts, utc);
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.file.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }

    fn counts(&self, id: u32) -> WriteCounts {
        self.file.counts(id)
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
fn header(content: &Content) -> Header {
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
    Header { bytes: header.into_bytes(), unit: 1 }
}
