//! Helpers for tests of recordings: rows, blocks and limits to record with, and the content of a folder.

use crate::channels::{Basis, Block, Format, Head, Row};
use crate::config::{RecordConfig, RecordFormat};
use crate::recording::content::Content;
use crate::recording::content::RecordedRow;
use crate::recording::file::Moment;
use crate::recording::recordings::{Recording, Recordings};
use crate::task::Column;
use crate::time::{Instant, Span};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// 2023-11-14T22:13:20 UTC.
pub(in crate::recording) const UTC: i128 = 1_700_000_000_000_000_000;

/// A new folder, and a path in it.
pub(in crate::recording) fn in_folder(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

pub(in crate::recording) fn limits(path: &Path) -> RecordConfig {
    RecordConfig {
        path: path.into(),
        format: RecordFormat::of(path).unwrap_or(RecordFormat::Csv),
        max_size: None,
        max_time: None,
        keep: None,
    }
}

pub(in crate::recording) fn column(name: &str, unit: &str) -> Column {
    Column { name: name.into(), unit: unit.into() }
}

pub(in crate::recording) fn content(columns: Vec<Column>, format: Option<Format>) -> Content {
    Content { task: "t".into(), columns, raw: false, valid: Vec::new(), format }
}

pub(in crate::recording) fn moment(millis: i64) -> Moment {
    Moment { now: Instant::ZERO + Span::from_millis(millis), to_utc: UTC }
}

pub(in crate::recording) fn row(n: u64, values: &[f64]) -> RecordedRow<'_> {
    let row = Row { n, basis: Basis::Good, release: Instant::ZERO, lateness: Span::from_nanos(83), values };
    RecordedRow { row, qualities: &[] }
}

pub(in crate::recording) fn block(index: u64, bytes: &[u8]) -> Block<'_> {
    Block { head: Head { n: index + 7, at: Instant::from_nanos(1_500_000_000 + i128::from(index)), index }, bytes }
}

/// A recording that task 0 has joined and that has begun.
pub(in crate::recording) fn begun(limits: &RecordConfig, content: &Content) -> Recording {
    let recording = Recordings::default().open(limits, content).unwrap();
    recording.join(0, content);
    recording.begin(moment(0));
    recording
}

/// The names in a folder, sorted.
pub(in crate::recording) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Samples with two columns, at these times.
pub(in crate::recording) fn samples(samples: &[(i64, f64, f64)]) -> Vec<u8> {
    samples.iter().flat_map(|(at, a, b)| [at.to_ne_bytes(), a.to_ne_bytes(), b.to_ne_bytes()].concat()).collect()
}

/// Adds a row at this time, and writes it.
pub(in crate::recording) fn put_row(recording: &Recording, millis: i64, n: u64, utc: i128) -> io::Result<bool> {
    recording.begin(moment(millis));
    recording.lock().row(0, &row(n, &[]), utc);
    recording.flush()
}
