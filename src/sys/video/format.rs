//! The format of frames. Plain data.

/// The format of the frames that a device delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelFormat {
    pub four_cc: [u8; 4],  // V4L2's four characters
    pub width: u32,        // in pixels
    pub height: u32,       // in pixels
    pub stride: u32,       // bytes from one row of the first plane to the next; zero where that means nothing
    pub largest: u32,      // bytes that the largest frame may have
    pub alternating: bool, // the two fields of a frame come in buffers of their own
}
