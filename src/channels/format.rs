//! Descriptions of what a task produces: the columns of its rows, and the format of its blocks of samples, sound or
//! pictures. No code runs here on a hot thread.

/// A value that a task reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique in the task.
    pub name: String,
    /// Its unit, for display; empty for a plain number.
    pub unit: String,
}

/// The contents of a task's blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// Sound: whole frames, channels interleaved.
    Audio(AudioFormat),
    /// Pictures, one per block.
    Image(ImageFormat),
    /// Samples with a time and a value for each of these columns. Each sample is 8 bytes of time, in nanoseconds on the
    /// monotonic clock as an `i64`, and then an `f64` for each column, all in this machine's byte order; `NaN`: no value.
    Samples(Vec<Column>),
}

/// The format of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioFormat {
    /// Frames per second, as reported by the device; above zero.
    pub rate: u32,
    /// Channels in a frame; above zero.
    pub channels: u16,
    /// One channel's sample.
    pub sample: SampleFormat,
}

/// How one sample of sound is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFormat {
    /// 16-bit signed integers, little-endian.
    S16,
    /// 24-bit signed integers in the low bytes of 32, little-endian.
    S24,
    /// 32-bit signed integers, little-endian.
    S32,
    /// 32-bit floating point in −1.0 to 1.0, little-endian.
    F32,
}

impl SampleFormat {
    /// Bytes of one sample in a block.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::S16 => 2,
            Self::S24 | Self::S32 | Self::F32 => 4,
        }
    }
}

/// The format of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFormat {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Bytes from one row of pixels to the next; zero if the pixels are compressed.
    pub stride: u32,
    /// The pixel format as V4L2's four characters: `YUYV`, `MJPG`.
    pub four_cc: [u8; 4],
}

/// The stream of blocks that a task produces.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The contents of the blocks.
    pub format: Format,
    /// The largest size of a block, in bytes.
    pub largest: usize,
    /// Bytes per second at the nominal rate.
    pub bytes_per_second: f64,
}
