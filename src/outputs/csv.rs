//! One task's values in a CSV file: tick, UTC time of the release, lateness, then a column for each value.
//!
//! The file is valid at every moment: rows are written whole, and a write that fails half-way (a full disk) is taken
//! back. An existing recording with the same columns is continued.

use crate::stream::Row;
use crate::tasks::Column;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A CSV file that rows are appended to.
#[derive(Debug)]
pub struct CsvFile {
    path: PathBuf,
    file: File,
    pending: String,
    pending_rows: u64,
    rows: u64,
    lost: u64,
}

impl CsvFile {
    /// Opens `path` for rows of `columns`: makes it, or continues it.
    ///
    /// # Errors
    /// The system's reason; or that the file holds something else.
    pub fn open(path: &Path, columns: &[Column]) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let header = header(columns);
        let length = file.seek(SeekFrom::End(0))?;
        if length == 0 {
            file.write_all(header.as_bytes())?;
        } else {
            file.seek(SeekFrom::Start(0))?;
            let mut first = Vec::new();
            BufReader::new(&file).read_until(b'\n', &mut first)?;
            if first != header.as_bytes() {
                let text = "it exists and holds something else; move it away, or record to another file";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
        }
        Ok(Self { path: path.into(), file, pending: String::new(), pending_rows: 0, rows: 0, lost: 0 })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rows written since it was opened.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that could not be written.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds a row, to be written by the next [`flush`](Self::flush). `utc` is the release in nanoseconds since 1970.
    pub fn add(&mut self, row: &Row<'_>, utc: i128) {
        let since_1970 = u64::try_from(utc).map_or(Duration::ZERO, Duration::from_nanos);
        let time = humantime::format_rfc3339_nanos(UNIX_EPOCH + since_1970);
        // Writing to a String does not fail.
        let _ = write!(self.pending, "{},{time},{}", row.n, row.lateness.nanos());
        for value in row.values {
            let _ = match value.is_nan() {
                true => write!(self.pending, ","),
                false => write!(self.pending, ",{value}"),
            };
        }
        self.pending.push('\n');
        self.pending_rows += 1;
    }

    /// Writes the rows added since the last time; false: there were none.
    ///
    /// # Errors
    /// The system's reason; the rows are then lost and counted, and the file ends with the last whole row.
    pub fn flush(&mut self) -> io::Result<bool> {
        if self.pending.is_empty() {
            return Ok(false);
        }
        // Whatever comes of it, these rows are not tried again: they would pile up for as long as the disk fails.
        let rows = std::mem::take(&mut self.pending_rows);
        let written = self.write_whole();
        self.pending.clear();
        match written {
            Ok(()) => self.rows += rows,
            Err(_) => self.lost += rows,
        }
        written.map(|()| true)
    }

    /// Writes what is pending, or nothing of it.
    fn write_whole(&mut self) -> io::Result<()> {
        // Asked anew each time: after a reload the same file may have been continued by the task's predecessor.
        let length = self.file.metadata()?.len();
        self.file.write_all(self.pending.as_bytes()).inspect_err(|_| {
            // A disk that does not even take a row back is beyond help here.
            let _ = self.file.set_len(length);
        })
    }
}

fn header(columns: &[Column]) -> String {
    let mut header = String::from("tick,release_utc,lateness_ns");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Instant, Span};

    fn columns() -> Vec<Column> {
        let column = |name: &str, unit: &str| Column { name: name.into(), unit: unit.into() };
        vec![column("temp", "°C"), column("a,b", "")]
    }

    fn row(n: u64, values: &[f64]) -> Row<'_> {
        Row { n, release: Instant::ZERO, lateness: Span::from_nanos(83), values }
    }

    #[test]
    fn rows_have_the_time_and_gaps_stay_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut csv = CsvFile::open(&path, &columns()).unwrap();
        csv.add(&row(7, &[21.5, f64::NAN]), 1_700_000_000_250_000_001);
        csv.flush().unwrap();
        drop(csv);
        let mut again = CsvFile::open(&path, &columns()).unwrap();
        again.add(&row(8, &[f64::NAN, -3.0]), 1_700_000_001_000_000_000);
        again.flush().unwrap();
        assert_eq!((again.rows(), again.lost()), (1, 0));
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "tick,release_utc,lateness_ns,temp [°C],\"a,b\"\n\
             7,2023-11-14T22:13:20.250000001Z,83,21.5,\n\
             8,2023-11-14T22:13:21.000000000Z,83,,-3\n"
        );
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis.txt");
        std::fs::write(&path, "years of work\n").unwrap();
        assert_eq!(CsvFile::open(&path, &columns()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "years of work\n");
        assert!(CsvFile::open(Path::new("/dev/null"), &columns()).is_err());
    }

    #[test]
    fn a_full_disk_loses_rows_and_counts_them() {
        let Ok(file) = OpenOptions::new().append(true).open("/dev/full") else {
            println!("skipped: no /dev/full here");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut csv = CsvFile::open(&folder.path().join("x.csv"), &[]).unwrap();
        csv.file = file;
        csv.add(&row(1, &[]), 0);
        csv.add(&row(2, &[]), 0);
        csv.flush().unwrap_err();
        assert_eq!((csv.rows(), csv.lost()), (0, 2));
        csv.flush().unwrap();
        csv.add(&row(3, &[]), 0);
        csv.flush().unwrap_err();
        assert_eq!((csv.rows(), csv.lost()), (0, 3), "each is tried once, and counted once");
    }
}
