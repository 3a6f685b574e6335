//! What a task of the kind `audio` wants of its device. Arithmetic only.

use crate::channels::{AudioFormat, SampleFormat};
use crate::kinds::device::Missing;
use crate::time::{NANOS_PER_SECOND, Span};

/// The sample formats by their names in a configuration.
pub(super) const FORMATS: [(&str, SampleFormat); 4] =
    [("s16", SampleFormat::S16), ("s24", SampleFormat::S24), ("s32", SampleFormat::S32), ("f32", SampleFormat::F32)];

/// Which device, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AudioSettings {
    pub(super) device: String,
    pub(super) format: AudioFormat,
    pub(super) buffer: Span,       // asked for
    pub(super) least_buffer: Span, // below which the device is refused
    pub(super) period: Span,       // the task's
    pub(super) missing: Missing,
}

impl AudioSettings {
    /// Bytes of one frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.format.sample.bytes() * usize::from(self.format.channels)
    }

    /// How many frames this time has.
    pub(super) fn buffer_frames(&self, span: Span) -> u64 {
        let frames = i128::from(span.nanos()) * i128::from(self.format.rate) / i128::from(NANOS_PER_SECOND);
        u64::try_from(frames).unwrap_or(0)
    }

    /// The most frames that one tick takes: twice what was asked for, since the device may give more.
    pub(super) fn largest_take(&self) -> usize {
        usize::try_from(2 * self.buffer_frames(self.buffer)).unwrap_or(usize::MAX).max(64)
    }
}
