//! What a task of the kind `video` wants of its camera. Plain data.

use crate::kinds::device::Missing;

/// Which frames a tick takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FrameChoice {
    /// All that are ready, in order.
    #[default]
    Every,
    /// The newest one; those before it are handed back at once.
    Latest,
}

/// Which camera, and how its frames are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VideoSettings {
    /// Its path, from the root; or a part of its name that only one camera has, upper or lower case.
    pub device: String,
    /// V4L2's four characters, filled up with spaces.
    pub format: [u8; 4],
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Frames per second to ask for, as a fraction without zeros; `None`: as the camera is set.
    pub frame_rate: Option<(u32, u32)>,
    /// Which frames a tick works on.
    pub take: FrameChoice,
    /// Buffers to ask for, 2 to 32.
    pub buffers: u32,
    /// What to do when it is not there at the start.
    pub missing: Missing,
}

/// Every frame of 640x480 in YUYV, four buffers. The device is missing.
impl Default for VideoSettings {
    fn default() -> Self {
        Self {
            device: String::new(),
            format: *b"YUYV",
            width: 640,
            height: 480,
            frame_rate: None,
            take: FrameChoice::Every,
            buffers: 4,
            missing: Missing::Refuse,
        }
    }
}
