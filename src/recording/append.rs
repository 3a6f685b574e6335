//! Files that consist of a header and pieces appended after it: CSV and WAV. Pieces are written whole or not at all, so the file is valid
//! at every moment. May block.

use super::content::Content;
use super::content::RecordedRow;
use super::file::{Moment, RecordingFile};
use super::layout::{Header, Layout};
use super::ledger::WriteCounts;
use super::writer::Writer;
use super::{csv, samples, wav};
use crate::channels::{Block, Format};
use crate::config::{RecordConfig, RecordFormat};
use std::collections::BTreeMap;
use std::io;

/// How many bytes are collected for one write.
const BATCH: usize = 256 << 10;

/// The layout of a file of pieces; `None` if the format is not one of pieces.
///
/// # Errors
/// The task cannot be recorded in this format.
pub(super) fn layout(format: RecordFormat, content: &Content) -> io::Result<Option<Layout>> {
    match format {
        RecordFormat::Csv => Ok(Some(csv::layout(content))),
        RecordFormat::Wav => wav::layout(content).map(Some),
        RecordFormat::Mcap => Ok(None),
    }
}

#[derive(Debug)]
pub(super) struct AppendFile {
    file: RecordingFile,
    header: Header,
    layouts: BTreeMap<u32, Layout>, // by task: after a reload, another task may continue the recording
    pending: Vec<u8>,
}

impl AppendFile {
    /// # Errors
    /// The system's reason, or that a file to be continued holds something else.
    pub(super) fn new(file: RecordingFile, header: Header) -> io::Result<Self> {
        if !header.sized {
            file.last_line_end(&header.bytes)?;
        }
        Ok(Self { file, header, layouts: BTreeMap::new(), pending: Vec::new() })
    }

    /// Begins the next file if this task needs a different header. Returns false if the current file cannot be finished yet.
    fn change(&mut self, id: u32) -> bool {
        let header = match self.layouts.get(&id) {
            Some(Layout { header, .. }) if *header != self.header => header.clone(),
            _ => return true,
        };
        if !self.file.may_try() {
            return false;
        }
        self.write();
        self.retire();
        if self.file.is_open() {
            return false;
        }
        self.header = header;
        self.open();
        true
    }

    /// Adds a piece of a task, with its time.
    fn put(&mut self, id: u32, piece: &[u8], counts: WriteCounts, utc: i128) {
        let after = |own: &Self| own.file.length() + (own.pending.len() + piece.len()) as u64;
        let too_large = self.file.is_full(after(self)) || (after(self) > self.header.largest && self.file.may_try());
        if too_large && (!self.pending.is_empty() || self.file.length() > self.header.length()) {
            self.write();
            self.retire();
            self.open();
        }
        if !self.file.is_open() || after(self) > self.header.largest {
            return self.file.ledger.lose(id, counts);
        }
        self.file.stamp(utc);
        self.pending.extend_from_slice(piece);
        self.file.ledger.pend(id, WriteCounts { bytes: piece.len() as u64, ..counts });
        if self.pending.len() >= BATCH {
            self.write();
        }
    }

    fn open(&mut self) {
        if self.file.is_open() || !self.file.may_try() {
            return;
        }
        let opened = self.file.open().and_then(|()| match self.file.length() {
            0 => self.file.append(&self.header.bytes),
            _ => self.file.drop_partial_line(&self.header.bytes),
        });
        match opened {
            Ok(()) => self.file.begun(),
            Err(error) => self.file.give_up(error),
        }
    }

    fn retire(&mut self) {
        if let Err(error) = self.file.retire() {
            self.file.fail(error);
        }
    }

    /// Makes sure that pieces can be appended, even if another program has moved, deleted or changed the file.
    fn mend(&mut self) -> io::Result<()> {
        if self.file.is_gone() {
            self.file.close();
            self.open();
        }
        if self.file.has_other_content(&self.header)? {
            let gone = self.file.ledger.cut(0, |_| 0);
            self.file.retire().inspect_err(|_| self.file.close())?;
            self.open();
            let path = self.file.path();
            self.file.warn(&format!(
                "another program has changed the recording {path} into something else; {gone} are gone; it is put aside as it is, and \
                 the next file begins"
            ));
            return Ok(());
        }
        let before = self.file.measure(self.header.length(), self.header.unit)?;
        let unit = self.header.sized.then_some(self.header.unit);
        let mut gone = WriteCounts::default();
        let follows = if self.file.length() == 0 {
            gone = self.file.lose_cut_off(unit);
            self.file.append(&self.header.bytes)?;
            self.file.ledger.begin(self.file.length());
            "it begins again with its header"
        } else if before.is_none() {
            return Ok(());
        } else if self.header.sized || self.file.drop_partial_line(&self.header.bytes).is_ok() {
            gone = self.file.lose_cut_off(unit);
            "it continues behind what is left"
        } else {
            self.file.retire().inspect_err(|_| self.file.close())?;
            self.open();
            "it is put aside as it is, and the next file begins"
        };
        let (path, before) = (self.file.path(), before.unwrap_or_default());
        let gone = if gone == WriteCounts::default() { String::new() } else { format!("{gone} are gone; ") };
        self.file.warn(&format!(
            "another program has changed the recording {path}, which had {before} bytes; {gone}{follows}"
        ));
        Ok(())
    }

    /// Writes all pending pieces or none; returns true if there were any. A failed write is not retried: pieces would pile up for as long
    /// as the disk fails.
    fn write(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let written = self.mend().and_then(|()| self.file.append(&self.pending));
        self.pending.clear();
        let end = self.file.length();
        self.file.ledger.settle(written.is_ok().then_some(end));
        let sized = match self.header.sized && written.is_ok() {
            true => wav::write_sizes(&self.file, self.header.length()),
            false => Ok(()),
        };
        let sized = sized.map_err(|error| {
            let text = format!("the sound is written, but its length could not be put into the header: {error}");
            io::Error::new(error.kind(), text)
        });
        if let Err(error) = written.and(sized) {
            self.file.fail(error);
        }
        true
    }
}

impl Writer for AppendFile {
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.file.join(id, content, limits);
        let layout = layout(limits.format, content).ok().flatten();
        self.layouts.extend(layout.map(|layout| (id, layout)));
    }

    fn leave(&mut self, id: u32) {
        self.file.leave(id);
        self.layouts.remove(&id);
    }

    fn begin(&mut self, at: Moment) {
        self.file.at = at;
        if self.file.is_gone() {
            self.file.close();
        }
        let has_holes = self.file.has_holes();
        if (self.file.is_old() || has_holes) && self.file.length() > self.header.length() {
            self.retire();
        }
        self.open();
    }

    fn row(&mut self, id: u32, row: &RecordedRow<'_>, utc: i128) {
        if self.layouts.get(&id).is_none_or(|layout| layout.blocks.is_some()) {
            return;
        }
        let counts = WriteCounts { rows: 1, ..WriteCounts::default() };
        if !self.change(id) {
            return self.file.ledger.lose(id, counts);
        }
        self.put(id, csv::row(&row.row, utc).as_bytes(), counts, utc);
    }

    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128) {
        let Some(format) = self.layouts.get(&id).and_then(|layout| layout.blocks.clone()) else { return };
        let count = samples::count(&format, block.bytes);
        self.file.ledger.block(id, block.head.index, count);
        let counts = match format {
            Format::Samples(_) => WriteCounts { rows: count, samples: count, ..WriteCounts::default() },
            _ => WriteCounts { blocks: 1, samples: count, ..WriteCounts::default() },
        };
        if !self.change(id) {
            return self.file.ledger.lose(id, counts);
        }
        match format {
            Format::Samples(columns) => {
                for sample in samples::read(block.bytes, columns.len()) {
                    let utc = i128::from(sample.at) + to_utc;
                    let line = csv::sample(block.head.n, &sample, utc);
                    self.put(id, line.as_bytes(), WriteCounts { rows: 1, samples: 1, ..counts }, utc);
                }
            }
            Format::Audio(format) => {
                self.put(id, &wav::packed(format.sample, block.bytes), counts, block.head.at.nanos() + to_utc);
            }
            Format::Image(_) => {}
        }
    }

    /// If writing fails, the data is lost and counted, and the file ends with the last whole piece.
    fn flush(&mut self) -> io::Result<bool> {
        let some = self.write();
        self.file.flush(some)
    }

    fn hurry(&mut self) {
        self.file.hurries = true;
    }

    fn finish(&mut self) -> io::Result<()> {
        // If something is pending, `write` does this itself.
        let mended = if self.file.is_open() && self.pending.is_empty() { self.mend() } else { Ok(()) };
        self.write();
        self.file.finish();
        self.file.flush(false).and(mended)
    }

    fn counts(&self, id: u32) -> WriteCounts {
        self.file.counts(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::claim::Claim;
    use crate::recording::tests::testing::{in_folder, limits, moment, names};
    use crate::sys::lock;
    use std::path::Path;

    fn file(path: &Path, continued: bool, largest: u64) -> AppendFile {
        let file = RecordingFile::new(path.into(), Claim::take(path).unwrap(), limits(path), continued);
        let header = Header { bytes: b"header\n".to_vec(), unit: 1, largest, sized: false };
        AppendFile::new(file, header).unwrap()
    }

    const ROW: WriteCounts =
        WriteCounts { rows: 1, samples: 0, blocks: 0, ticks: 0, bytes: 0, lost: 0, gaps: 0, files: 0 };

    #[test]
    fn a_full_disk_loses_pieces_and_counts_them_once() {
        let (_folder, path) = in_folder("x.csv");
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        let put = |file: &mut AppendFile| file.put(3, b"line\n", WriteCounts { samples: 1, ..ROW }, 0);
        put(&mut file);
        file.flush().unwrap();
        file.file.fill_up();
        put(&mut file);
        put(&mut file);
        file.flush().unwrap_err();
        assert_eq!((file.counts(3).rows, file.counts(3).lost), (1, 2));
        file.flush().unwrap();
        // The open file is found to differ from the file at the path, so the path is opened again.
        file.begin(moment(1));
        put(&mut file);
        file.flush().unwrap();
        assert_eq!((file.counts(3).rows, file.counts(3).lost), (2, 2), "each is tried once, and counted once");
        assert_eq!(file.counts(3).gaps, 1, "what was lost leaves one gap");
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
        assert_eq!((file.counts(0).rows, file.counts(0).lost), (4, 1));
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped_and_a_header_written_again() {
        let (folder, path) = in_folder("x.csv");
        // As left by a crash or by a full disk.
        let long = "1,".repeat(5_000);
        std::fs::write(&path, format!("header\n0,1\n{long}")).unwrap();
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        for (length, wanted) in [
            (u64::MAX, "header\n0,1\n1,25\n"),
            (14, "header\n0,1\n1,25\n"),
            (3, "header\n1,25\n"),
            (0, "header\n1,25\n"),
        ] {
            if length < u64::MAX {
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            }
            file.put(0, b"1,25\n", ROW, 0);
            file.flush().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted, "cut off at {length}");
        }
        // With 64 GiB of zeros appended, it is not a recording any more, and is left as it is.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(64 << 30).unwrap();
        file.put(0, b"1,25\n", ROW, 0);
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\n1,25\n");
        let aside = names(folder.path()).into_iter().find(|name| name != "x.csv").unwrap();
        assert_eq!(std::fs::metadata(folder.path().join(aside)).unwrap().len(), 64 << 30);
        // Lost: the line that was cut off, and two lines after which the file was cut off. The fourth is in the file put aside.
        assert_eq!((file.counts(0).rows, file.counts(0).lost), (2, 3));
    }

    #[test]
    fn what_another_program_wrote_is_put_aside_as_it_is() {
        for wav in [false, true] {
            for work in ["years", "years of work, and more of it than a header has, up to here"] {
                let (folder, path) = in_folder(if wav { "x.wav" } else { "x.csv" });
                let mut file = file(&path, !wav, u64::MAX);
                if wav {
                    file.header =
                        Header { bytes: b"RIFF....WAVEdata....".to_vec(), unit: 4, largest: u64::MAX, sized: true };
                }
                file.begin(moment(0));
                file.put(0, b"1234", ROW, 0);
                file.flush().unwrap();
                std::fs::write(&path, work).unwrap();
                file.put(0, b"5678", ROW, 0);
                file.flush().unwrap();
                let all = names(folder.path());
                assert!(
                    all.iter()
                        .any(|name| std::fs::read_to_string(folder.path().join(name)).is_ok_and(|text| text == work)),
                    "{all:?}"
                );
                assert!(std::fs::read(&path).unwrap().ends_with(b"5678"));
                assert_eq!((file.counts(0).rows, file.counts(0).lost), (1, 1));
            }
        }
    }

    #[test]
    fn a_lock_that_a_stranger_had_is_taken_once_it_is_free() {
        let (_folder, path) = in_folder("x.csv");
        std::fs::write(&path, "").unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        lock::lock_as_stranger(&reader, false, (0, 0));
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        file.begin(moment(1_000));
        drop(reader);
        file.begin(moment(2_000));
        let refused = Claim::take(&path).unwrap_err().to_string();
        assert!(refused.starts_with("in use by "), "{refused}");
    }

    #[test]
    fn lines_for_a_deleted_file_go_to_the_next() {
        let (_folder, path) = in_folder("x.csv");
        let mut file = file(&path, true, u64::MAX);
        file.begin(moment(0));
        std::fs::remove_file(&path).unwrap();
        file.put(0, b"line\n", ROW, 0);
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\nline\n");
        assert_eq!((file.counts(0).rows, file.counts(0).lost), (1, 0));
    }
}
