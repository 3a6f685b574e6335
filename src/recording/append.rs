//! A file of pieces one behind the other after a header: what CSV and WAV have in common. Pieces are written whole or not
//! at all, so that the file is valid at every moment.

use super::file::{Disk, Moment};
use super::{Ledger, Tally};
use std::io;

/// Bytes that wait for one write.
const BATCH: usize = 256 << 10;

/// Writes the sizes that stand in a header, for a file of this length.
pub(super) type Sizes = fn(&Disk, header: u64) -> io::Result<()>;

pub(super) fn something_else() -> io::Error {
    let text = "it exists and holds something else; move it away, or record to another file";
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

#[derive(Debug)]
pub(super) struct Plain {
    pub(super) disk: Disk,
    pub(super) ledger: Ledger,
    header: Vec<u8>,
    sizes: Option<Sizes>,
    limit: u64, // bytes that such a file may have at most
    pending: Vec<u8>,
    failure: Option<io::Error>,
    at: Option<Moment>,
}

impl Plain {
    pub(super) fn new(disk: Disk, header: Vec<u8>, sizes: Option<Sizes>, limit: u64) -> Self {
        let (ledger, pending) = (Ledger::default(), Vec::new());
        Self { disk, ledger, header, sizes, limit, pending, failure: None, at: None }
    }

    /// Sees that there is a file to write to, and that it is not too old.
    pub(super) fn begin(&mut self, at: Moment) {
        self.at = Some(at);
        self.disk.lost(at.now);
        if self.disk.is_old(at.now) && self.disk.length() > self.header.len() as u64 {
            self.turn(at);
        }
        self.open(at);
    }

    /// Goes over to a file with this header.
    pub(super) fn change(&mut self, header: Vec<u8>) {
        self.write();
        self.disk.close();
        self.header = header;
        if let Some(at) = self.at {
            self.open(at);
        }
    }

    /// Adds a piece of data of a task, of this time.
    pub(super) fn put(&mut self, id: u32, piece: &[u8], tally: Tally, utc: i128) {
        let Some(at) = self.at else { return };
        let after = |plain: &Self| plain.disk.length() + (plain.pending.len() + piece.len()) as u64;
        let too_large =
            self.disk.is_full(after(self), at.now) || (after(self) > self.limit && self.disk.may_try(at.now));
        if too_large && (!self.pending.is_empty() || self.disk.length() > self.header.len() as u64) {
            self.write();
            self.turn(at);
            self.open(at);
        }
        if !self.disk.is_open() || after(self) > self.limit {
            self.ledger.lose(id, tally);
            return;
        }
        self.disk.stamp(utc);
        self.pending.extend_from_slice(piece);
        self.ledger.pend(id, Tally { bytes: piece.len() as u64, ..tally });
        if self.pending.len() >= BATCH {
            self.write();
        }
    }

    /// Writes what has been put; true: there was something.
    ///
    /// # Errors
    /// What has failed since the last time. What was put is then lost and counted, and the file ends with the last whole
    /// piece.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let some = self.write();
        self.failure.take().map_or(Ok(some), Err)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        let written = self.flush();
        self.disk.close();
        written.map(drop)
    }

    fn open(&mut self, at: Moment) {
        if self.disk.is_open() || !self.disk.may_try(at.now) {
            return;
        }
        let opened = self.disk.open(at).and_then(|()| match self.disk.length() {
            0 => self.disk.append(&self.header),
            // Somebody may have put another file there.
            _ => match self.disk.begins_with(&self.header)? {
                true => self.disk.end_line(),
                false => Err(something_else()),
            },
        });
        match opened {
            Ok(()) => self.disk.begun(),
            Err(error) => {
                self.disk.close();
                self.failure.get_or_insert(error);
            }
        }
    }

    fn turn(&mut self, at: Moment) {
        if let Err(error) = self.disk.retire(at.now) {
            self.failure.get_or_insert(error);
        }
    }

    /// Sees that the file can be written on, where others have cut it off.
    fn mend(&mut self) -> io::Result<()> {
        let changed = self.disk.measure(self.header.len() as u64)?;
        match self.disk.length() {
            0 => self.disk.append(&self.header),
            _ if changed => self.disk.end_line(),
            _ => Ok(()),
        }
    }

    /// Writes what is pending, or nothing of it. Whatever comes of it, it is not tried again: it would pile up for as long
    /// as the disk fails.
    fn write(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let header = self.header.len() as u64;
        let written = self.mend().and_then(|()| self.disk.append(&self.pending));
        let written = written.and_then(|()| self.sizes.map_or(Ok(()), |sizes| sizes(&self.disk, header)));
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
    use super::super::tests::{limits, moment, names};
    use super::*;

    #[test]
    fn a_full_disk_loses_pieces_and_counts_them_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut file = Plain::new(Disk::new(limits(&path), true), b"header\n".to_vec(), None, u64::MAX);
        file.begin(moment(0));
        let put = |file: &mut Plain| file.put(3, b"line\n", Tally { rows: 1, samples: 1, ..Tally::default() }, 0);
        put(&mut file);
        file.flush().unwrap();
        if !file.disk.fill_up() {
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
    fn a_file_never_passes_what_its_form_allows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut file = Plain::new(Disk::new(limits(&path), false), b"header\n".to_vec(), None, 20);
        file.begin(moment(0));
        for _ in 0..4 {
            file.put(0, b"line\n", Tally { rows: 1, ..Tally::default() }, 0);
        }
        file.put(0, b"a line that is too long for any file\n", Tally { rows: 1, ..Tally::default() }, 0);
        file.finish().unwrap();
        let texts: Vec<_> = names(folder.path())
            .iter()
            .map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap())
            .collect();
        assert_eq!(texts, ["header\nline\nline\n", "header\nline\nline\n", "header\n"]);
        assert_eq!((file.ledger.of(0).rows, file.ledger.of(0).lost), (4, 1));
    }

    #[test]
    fn what_was_cut_off_gets_its_header_and_the_end_of_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        // As a run leaves it that was killed while it wrote.
        std::fs::write(&path, "header\nli").unwrap();
        let mut file = Plain::new(Disk::new(limits(&path), true), b"header\n".to_vec(), None, u64::MAX);
        file.begin(moment(0));
        for (length, wanted) in [
            (u64::MAX, "header\nli\nline\n"),
            (12, "header\nli\nli\nline\n"),
            (3, "header\nline\n"),
            (0, "header\nline\n"),
        ] {
            if length < u64::MAX {
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            }
            file.put(0, b"line\n", Tally { rows: 1, ..Tally::default() }, 0);
            file.flush().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted, "cut off at {length}");
        }
    }
}
