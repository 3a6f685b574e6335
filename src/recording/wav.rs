//! Sound as WAV: the samples exactly as captured. The header is correct after every write, so the file can be played even if the run was
//! killed.

use super::content::Content;
use super::file::RecordingFile;
use super::layout::{Header, Layout};
use crate::channels::{Format, SampleFormat};
use std::borrow::Cow;
use std::io;

/// The maximum number of bytes in a file: its sizes have 32 bits.
const LARGEST: u64 = (u32::MAX - 1_024) as u64;

/// # Errors
/// The task has no sound.
pub(super) fn layout(content: &Content) -> io::Result<Layout> {
    let Some(Format::Audio(format)) = content.format else {
        let text = "only sound can be recorded as WAV, and this task has none; record to a .csv or .mcap";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
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
    let unit = u64::from(bits_per_sample / 8 * format.channels);
    Ok(Layout { header: Header { bytes: header, unit, largest: LARGEST, sized: true }, blocks: content.format.clone() })
}

/// Writes the sizes of the file and of its data chunk, which comes last.
pub(super) fn write_sizes(file: &RecordingFile, header: u64) -> io::Result<()> {
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    file.patch(&size(file.length() - header), header - 4)?;
    file.patch(&size(file.length() - 8), 4)
}

/// Samples as stored in WAV: 24-bit samples take 3 bytes.
pub(super) fn packed(sample: SampleFormat, bytes: &[u8]) -> Cow<'_, [u8]> {
    match sample {
        SampleFormat::S24 => bytes.as_chunks::<4>().0.iter().flat_map(|word| [word[0], word[1], word[2]]).collect(),
        _ => Cow::Borrowed(bytes),
    }
}
