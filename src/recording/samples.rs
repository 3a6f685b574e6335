//! The content of a block of samples: for each sample 8 bytes of time, then one number per column.

use crate::channels::Format;

/// One sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    /// When it was taken, in nanoseconds on the monotonic clock.
    pub(super) at: i64,
    values: &'a [[u8; 8]],
}

impl Sample<'_> {
    /// One value per column; `NaN` if there is none.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.values.iter().map(|bytes| f64::from_ne_bytes(*bytes))
    }
}

/// The samples of a block, each with this number of columns.
pub(super) fn read(bytes: &[u8], columns: usize) -> impl Iterator<Item = Sample<'_>> {
    let words = bytes.as_chunks().0;
    words.chunks_exact(columns + 1).map(|words| Sample { at: i64::from_ne_bytes(words[0]), values: &words[1..] })
}

/// The samples or frames of sound in a block of this format; a picture counts as one.
pub(super) fn count(format: &Format, bytes: &[u8]) -> u64 {
    let count = match format {
        Format::Audio(format) => bytes.len() / (format.sample.bytes() * usize::from(format.channels)),
        Format::Image(_) => 1,
        Format::Samples(columns) => read(bytes, columns.len()).count(),
    };
    count as u64
}
