//! The layout of a task's data in a file of pieces. Plain data.

use crate::channels::Format;
use std::ops::Range;

/// What precedes the pieces in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bytes: Vec<u8>,
    pub(super) unit: u64,    // bytes per indivisible unit after the header: a frame of sound, or 1
    pub(super) largest: u64, // the maximum number of bytes that the format allows in a file
    pub(super) sized: bool,  // it contains the sizes of a WAV
}

impl Header {
    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The positions of the bytes that change with the length of the file.
    pub(super) fn sizes(&self) -> [Range<usize>; 2] {
        let end = self.bytes.len();
        if self.sized { [4..8, end.saturating_sub(4)..end] } else { [0..0, 0..0] }
    }
}

/// How a task is recorded.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) header: Header,
    pub(super) blocks: Option<Format>, // the content of the recorded blocks; `None`: rows are recorded
}
