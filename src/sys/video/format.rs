//! The format of frames. Plain data.

/// The format of the frames that a device delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelFormat {
    /// V4L2's four characters.
    pub four_cc: [u8; 4],
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Bytes from one row of the first plane to the next; zero where that means nothing.
    pub stride: u32,
    /// Bytes that the largest frame may have.
    pub largest: u32,
    /// The two fields of a frame come in buffers of their own.
    pub alternating: bool,
}
