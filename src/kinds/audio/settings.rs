//! What an `audio` task wants from its device. Arithmetic only.

use crate::channels::{AudioFormat, SampleFormat};
use crate::kinds::device::Missing;
use crate::time::{NANOS_PER_SECOND, Span};

/// The sample formats, by their names in a configuration.
pub(super) const FORMATS: [(&str, SampleFormat); 4] =
    [("s16", SampleFormat::S16), ("s24", SampleFormat::S24), ("s32", SampleFormat::S32), ("f32", SampleFormat::F32)];

/// The device, and how to open it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AudioSettings {
    pub(super) device: String,
    pub(super) format: AudioFormat,
    pub(super) buffer: Span,       // requested
    pub(super) least_buffer: Span, // the device is refused if it has less
    pub(super) period: Span,       // of the task
    pub(super) missing: Missing,
}

impl AudioSettings {
    /// Bytes of one frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.format.sample.bytes() * usize::from(self.format.channels)
    }

    /// Frames in this time span.
    pub(super) fn buffer_frames(&self, span: Span) -> u64 {
        let frames = i128::from(span.nanos()) * i128::from(self.format.rate) / i128::from(NANOS_PER_SECOND);
        u64::try_from(frames).unwrap_or(0)
    }

    /// Maximum number of frames that one tick takes: twice the requested buffer, because the device may choose a longer one.
    pub(super) fn largest_take(&self) -> usize {
        usize::try_from(2 * self.buffer_frames(self.buffer)).unwrap_or(usize::MAX).max(64)
    }
}
