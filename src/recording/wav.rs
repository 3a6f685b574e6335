//! Sound as WAV: the samples exactly as they were captured, and a header that is right after every write, so that the file
//! of a run that was killed can be played. May block; time is an argument.

use super::append::{AppendFile, Header};
use super::content::Content;
use super::file::{Moment, RecordingFile};
use super::ledger::{StreamPositions, WriteCounts};
use super::writer::Writer;
use crate::channels::{AudioFormat, Block, Format, Row, SampleFormat};
use crate::config::RecordConfig;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

/// Bytes that a file may have: its sizes have 32 bits.
const LARGEST: u64 = (u32::MAX - 1_024) as u64;

#[derive(Debug)]
pub(super) struct Wav {
    file: AppendFile,
    formats: BTreeMap<u32, AudioFormat>, // of each task: after a reload another may continue the recording
    positions: StreamPositions,
}

impl Wav {
    /// # Errors
    /// The task has no sound.
    pub(super) fn new(file: RecordingFile, content: &Content) -> io::Result<Self> {
        let file = AppendFile::new(file, header(audio(content)?), Some(write_sizes), LARGEST);
        Ok(Self { file, formats: BTreeMap::new(), positions: StreamPositions::default() })
    }
}

impl Writer for Wav {
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.file.file.limit(limits.clone());
        if let Ok(format) = audio(content) {
            self.formats.insert(id, format);
        }
    }

    fn begin(&mut self, at: Moment) {
        self.file.begin(at);
    }

    fn row(&mut self, _: u32, _: &Row<'_>, _: i128) {}

    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128) {
        let Some(&format) = self.formats.get(&id) else { return };
        let frames = (block.bytes.len() / (format.sample.bytes() * usize::from(format.channels))) as u64;
        let counts = WriteCounts { blocks: 1, samples: frames, ..WriteCounts::default() };
        self.file.ledger.gap(id, self.positions.jumps(id, block.head.index, frames));
        if !self.file.change(&header(format)) {
            return self.file.ledger.lose(id, counts);
        }
        self.file.put(id, &packed(format.sample, block.bytes), counts, block.head.at.nanos() + to_utc);
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

/// The format of the task's sound.
///
/// # Errors
/// It has none.
pub(super) fn audio(content: &Content) -> io::Result<AudioFormat> {
    match content.format {
        Some(Format::Audio(format)) => Ok(format),
        _ => {
            let text = "only sound can be recorded as WAV, and this task has none; record to a .csv or .mcap";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// The header of a file with sound of this format and without samples.
fn header(format: AudioFormat) -> Header {
    let (bits_per_sample, sample_format) = match format.sample {
        SampleFormat::S16 => (16, hound::SampleFormat::Int),
        SampleFormat::S24 => (24, hound::SampleFormat::Int),
        SampleFormat::S32 => (32, hound::SampleFormat::Int),
        SampleFormat::F32 => (32, hound::SampleFormat::Float),
    };
    let mut header =
        hound::WavSpec { channels: format.channels, sample_rate: format.rate, bits_per_sample, sample_format }
            .into_header_for_infinite_file();
    let length = u32::try_from(header.len()).unwrap_or_default();
    header[4..8].copy_from_slice(&(length - 8).to_le_bytes());
    header[length as usize - 4..].copy_from_slice(&0_u32.to_le_bytes());
    Header { bytes: header, unit: u64::from(bits_per_sample / 8 * format.channels) }
}

/// Writes the sizes of the file and of its data, which comes last.
fn write_sizes(file: &RecordingFile, header: u64) -> io::Result<()> {
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    file.patch(&size(file.length() - header), header - 4)?;
    file.patch(&size(file.length() - 8), 4)
}

/// Samples as WAV has them: those of 24 bits take 3 bytes.
pub(super) fn packed(sample: SampleFormat, bytes: &[u8]) -> Cow<'_, [u8]> {
    match sample {
        SampleFormat::S24 => bytes.as_chunks::<4>().0.iter().flat_map(|word| [word[0], word[1], word[2]]).collect(),
        _ => Cow::Borrowed(bytes),
    }
}
