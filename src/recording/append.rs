//! A file of pieces, one after the other behind a header: what CSV and WAV have in common. Pieces are written whole or not
//! at all, so that the file is valid at every moment. May block; time is an argument.

use super::file::{Moment, RecordingFile};
use super::ledger::{Ledger, WriteCounts};
use std::io;

/// Bytes that wait for one write.
const BATCH: usize = 256 << 10;

/// What comes before the pieces of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bytes: Vec<u8>,
    /// Bytes that belong together behind it: those of a frame of sound, or 1.
    pub(super) unit: u64,
}

impl Header {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Writes the sizes in a header of this length, for the file as it is.
pub(super) type WriteSizes = fn(&RecordingFile, header: u64) -> io::Result<()>;

pub(super) fn something_else() -> io::Error {
    let text = "it exists and holds something else; move it away, or record to another file";
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

#[derive(Debug)]
pub(super) struct AppendFile {
    pub(super) file: RecordingFile,
    pub(super) ledger: Ledger,
    header: Header,
    write_sizes: Option<WriteSizes>,
    largest: u64, // bytes that the format allows
    pending: Vec<u8>,
    failure: Option<io::Error>,
    at: Option<Moment>,
}

impl AppendFile {
    pub(super) fn new(file: RecordingFile, header: Header, write_sizes: Option<WriteSizes>, largest: u64) -> Self {
        let (ledger, pending) = (Ledger::default(), Vec::new());
        Self { file, ledger, header, write_sizes, largest, pending, failure: None, at: None }
    }

    /// Makes sure that there is a file to write to, and that it is not too old.
    pub(super) fn begin(&mut self, at: Moment) {
        self.at = Some(at);
        if self.file.is_moved(at.now) {
            self.file.close();
        }
        if self.file.is_old(at.now) && self.file.length() > self.header.length() {
            self.turn(at);
        }
        self.open(at);
    }

    /// Begins the next file if this one has another header. False: this one cannot be finished yet.
    pub(super) fn change(&mut self, header: &Header) -> bool {
        if self.header == *header {
            return true;
        }
        let Some(at) = self.at.filter(|at| self.file.may_try(at.now)) else { return false };
        self.write();
        self.turn(at);
        if self.file.is_open() {
            return false;
        }
        self.header = header.clone();
        self.open(at);
        true
    }

    /// Adds a piece of a task, of this time.
    pub(super) fn put(&mut self, id: u32, piece: &[u8], counts: WriteCounts, utc: i128) {
        let Some(at) = self.at else { return };
        let after = |own: &Self| own.file.length() + (own.pending.len() + piece.len()) as u64;
        let too_large =
            self.file.is_full(after(self), at.now) || (after(self) > self.largest && self.file.may_try(at.now));
        if too_large && (!self.pending.is_empty() || self.file.length() > self.header.length()) {
            self.write();
            self.turn(at);
            self.open(at);
        }
        if !self.file.is_open() || after(self) > self.largest {
            self.ledger.lose(id, counts);
            return;
        }
        self.file.stamp(utc);
        self.pending.extend_from_slice(piece);
        self.ledger.pend(id, WriteCounts { bytes: piece.len() as u64, ..counts });
        if self.pending.len() >= BATCH {
            self.write();
        }
    }

    /// Writes what was put in; true: there was something.
    ///
    /// # Errors
    /// What has failed since the last time. What was put in is then lost and counted, and the file ends with the last whole
    /// piece.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let some = self.write();
        self.failure.take().map_or(Ok(some), Err)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        let written = self.flush();
        self.file.close();
        written.map(drop)
    }

    /// What was written of a task and what was lost.
    pub(super) fn counts(&self, id: u32) -> WriteCounts {
        WriteCounts { files: self.file.files(), ..self.ledger.of(id) }
    }

    fn open(&mut self, at: Moment) {
        if self.file.is_open() || !self.file.may_try(at.now) {
            return;
        }
        let opened = self.file.open(at).and_then(|()| match self.file.length() {
            0 => self.file.append(&self.header.bytes),
            // Another program may have put a file there.
            _ => match self.file.begins_with(&self.header.bytes)? {
                true => self.file.drop_partial_line(),
                false => Err(something_else()),
            },
        });
        match opened {
            Ok(()) => self.file.begun(),
            Err(error) => {
                self.file.close();
                self.failure.get_or_insert(error);
            }
        }
    }

    fn turn(&mut self, at: Moment) {
        if let Err(error) = self.file.retire(at.now) {
            self.failure.get_or_insert(error);
        }
    }

    /// Makes sure that pieces can be appended where another program has deleted the file or made it shorter.
    fn mend(&mut self) -> io::Result<()> {
        if let Some(at) = self.at.filter(|_| self.file.is_deleted()) {
            self.file.close();
            self.open(at);
        }
        let changed = self.file.measure(self.header.length(), self.header.unit)?;
        match self.file.length() {
            0 => self.file.append(&self.header.bytes),
            _ if changed => self.file.drop_partial_line(),
            _ => Ok(()),
        }
    }

    /// Writes all that is pending, or nothing of it. It is not tried again: it would pile up for as long as the disk fails.
    fn write(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let header = self.header.length();
        let written = self.mend().and_then(|()| self.file.append(&self.pending));
        let written = written.and_then(|()| self.write_sizes.map_or(Ok(()), |sizes| sizes(&self.file, header)));
        self.pending.clear();
        self.ledger.settle(written.is_ok());
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::claim::Claim;
    use crate::recording::testing::{limits, moment, names};
    use std::path::Path;

    fn file(path: &Path, continued: bool, largest: u64) -> AppendFile {
        let file = RecordingFile::new(path.into(), Claim::take(path).unwrap(), limits(path), continued);
        AppendFile::new(file, Header { bytes: b"header\n".to_vec(), unit: 1 }, None, largest)
    }

    const ROW: WriteCounts =
        WriteCounts { rows: 1, samples: 0, blocks: 0, ticks: 0, bytes: 0, lost: 0, gaps: 0, files: 0 };

    #[test]
    fn a_full_disk_loses_pieces_and_counts_them_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        let put = |file: &mut AppendFile| file.put(3, b"line\n", WriteCounts { samples: 1, ..ROW }, 0);
        put(&mut file);
        file.flush().unwrap();
        if !file.file.fill_up() {
            println!("skipped: no /dev/full here");
            return;
        }
        put(&mut file);
        put(&mut file);
        file.flush().unwrap_err();
        assert_eq!((file.ledger.of(3).rows, file.ledger.of(3).lost), (1, 2));
        file.flush().unwrap();
        // The file is found to be another one than that at the path, and is opened again.
        file.begin(moment(1));
        put(&mut file);
        file.flush().unwrap();
        assert_eq!((file.ledger.of(3).rows, file.ledger.of(3).lost), (2, 2), "each is tried once, and counted once");
        assert_eq!(file.ledger.of(3).gaps, 1, "what was lost leaves one gap");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\nline\nline\n");
    }

    #[test]
    fn a_file_never_passes_what_its_format_allows() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(&folder.path().join("x.csv"), false, 20);
        file.begin(moment(0));
        for _ in 0..4 {
            file.put(0, b"line\n", ROW, 0);
        }
        file.put(0, b"a line that is too long for any file\n", ROW, 0);
        file.finish().unwrap();
        let texts: Vec<_> = names(folder.path())
            .iter()
            .map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap())
            .collect();
        assert_eq!(texts, ["header\nline\nline\n", "header\nline\nline\n", "header\n"]);
        assert_eq!((file.ledger.of(0).rows, file.ledger.of(0).lost), (4, 1));
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped_and_a_header_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        // As a crash leaves it, or a disk that was full.
        let long = "1,".repeat(5_000);
        std::fs::write(&path, format!("header\nold\n{long}")).unwrap();
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        for (length, wanted) in [
            (u64::MAX, "header\nold\nline\n"),
            (14, "header\nold\nline\n"),
            (3, "header\nline\n"),
            (0, "header\nline\n"),
        ] {
            if length < u64::MAX {
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            }
            file.put(0, b"line\n", ROW, 0);
            file.flush().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted, "cut off at {length}");
        }
    }

    #[test]
    fn lines_for_a_deleted_file_go_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        std::fs::remove_file(&path).unwrap();
        file.put(0, b"line\n", ROW, 0);
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\nline\n");
        assert_eq!((file.ledger.of(0).rows, file.ledger.of(0).lost), (1, 0));
    }
}
