//! Video4Linux 2 capture devices: their capabilities, their setup, and their memory-mapped buffers.
//!
//! Structs and request numbers come from `moq-v4l`, which includes a translation of the kernel's header. Its own devices and buffers are
//! not used. They panic on a card whose name is not UTF-8, on an unknown colour space, and when they are dropped. They leave files open
//! across `exec`. And their buffers may be read while the camera writes them.
//!
//! [`Device`] is for setup: it opens, allocates and may block. [`FrameSource`] is for the hot path: it never waits for a frame and does not
//! allocate, but a driver may delay it for as long as the driver holds its own lock. Dropping a stream unmaps and closes. No clock is read.

mod capture;
mod request;

pub(crate) use capture::{CaptureStream, Frame, FrameSource, MOST_BUFFERS, PixelFormat};

use moq_v4l::sys as v4l2;
use moq_v4l::v4l2::vidioc;
use request::{CAPTURE, ask, zeroed};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A device's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    pub card: String,       // name of the card: "HD Pro Webcam C920"
    pub driver: String,     // name of the driver: "uvcvideo"
    pub captures: bool,     // it captures frames in one piece and streams them into mapped buffers
    pub multi_planar: bool, // it captures frames with separate planes
}

/// Frame sizes; both ends are equal for a single size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub smallest: (u32, u32), // width and height, in pixels
    pub largest: (u32, u32),  // width and height, in pixels
}

/// An open device that is not streaming yet.
#[derive(Debug)]
pub(crate) struct Device {
    file: File,
}

impl Device {
    /// Opens the device. Nothing here waits for frames.
    /// ENOENT, ENODEV: it does not exist. EACCES, EPERM: forbidden by its mode, or by a service's DeviceAllow=.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { file })
    }

    /// The metadata of its device node.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// What the device can do. ENOTTY: not a video device.
    pub(crate) fn capability(&self) -> io::Result<Capability> {
        let mut capability: v4l2::v4l2_capability = zeroed();
        ask(&self.file, vidioc::VIDIOC_QUERYCAP, &mut capability)?;
        let can = match capability.capabilities & v4l2::V4L2_CAP_DEVICE_CAPS {
            0 => capability.capabilities,
            _ => capability.device_caps,
        };
        let all = |wanted: u32| can & wanted == wanted;
        Ok(Capability {
            card: text(&capability.card),
            driver: text(&capability.driver),
            captures: all(v4l2::V4L2_CAP_VIDEO_CAPTURE | v4l2::V4L2_CAP_STREAMING),
            multi_planar: all(v4l2::V4L2_CAP_VIDEO_CAPTURE_MPLANE),
        })
    }

    /// Sets the frame format and returns the driver's choice, which may differ in every field.
    /// EBUSY: the device already streams, here or in another program. EINVAL: it has no such format.
    pub(crate) fn set_format(&self, four_cc: [u8; 4], width: u32, height: u32) -> io::Result<PixelFormat> {
        self.negotiate(vidioc::VIDIOC_S_FMT, four_cc, width, height)
    }

    /// What [`set_format`](Self::set_format) would return, without setting it; works while streaming too.
    /// EINVAL: it has no such format.
    pub(crate) fn try_format(&self, four_cc: [u8; 4], width: u32, height: u32) -> io::Result<PixelFormat> {
        self.negotiate(vidioc::VIDIOC_TRY_FMT, four_cc, width, height)
    }

    fn negotiate(&self, request: libc::Ioctl, four_cc: [u8; 4], width: u32, height: u32) -> io::Result<PixelFormat> {
        let mut format: v4l2::v4l2_format = zeroed();
        format.type_ = CAPTURE;
        let mut pixels: v4l2::v4l2_pix_format = zeroed();
        (pixels.width, pixels.height) = (width, height);
        pixels.pixelformat = u32::from_le_bytes(four_cc);
        pixels.field = v4l2::v4l2_field_V4L2_FIELD_ANY;
        format.fmt.pix = pixels;
        ask(&self.file, request, &mut format)?;
        // SAFETY: every field of this union is made of integers, and all of it was zeroed before.
        let pixels = unsafe { format.fmt.pix };
        Ok(PixelFormat {
            four_cc: pixels.pixelformat.to_le_bytes(),
            width: pixels.width,
            height: pixels.height,
            stride: pixels.bytesperline,
            largest: pixels.sizeimage,
            alternating: pixels.field == v4l2::v4l2_field_V4L2_FIELD_ALTERNATE,
        })
    }

    /// Frames per second as a fraction; `None` if the driver does not control the rate.
    pub(crate) fn rate(&self) -> io::Result<Option<(u32, u32)>> {
        let mut parameters: v4l2::v4l2_streamparm = zeroed();
        parameters.type_ = CAPTURE;
        ask(&self.file, vidioc::VIDIOC_G_PARM, &mut parameters)?;
        Ok(rate_in(&parameters))
    }

    /// Requests a frame rate and returns the driver's choice.
    pub(crate) fn set_rate(&self, (frames, seconds): (u32, u32)) -> io::Result<Option<(u32, u32)>> {
        let mut parameters: v4l2::v4l2_streamparm = zeroed();
        parameters.type_ = CAPTURE;
        let mut capture: v4l2::v4l2_captureparm = zeroed();
        (capture.timeperframe.numerator, capture.timeperframe.denominator) = (seconds, frames);
        parameters.parm.capture = capture;
        ask(&self.file, vidioc::VIDIOC_S_PARM, &mut parameters)?;
        Ok(rate_in(&parameters))
    }

    /// The available formats: four characters, and the driver's description.
    pub(crate) fn formats(&self) -> io::Result<Vec<([u8; 4], String)>> {
        self.each(|index| {
            let mut format: v4l2::v4l2_fmtdesc = zeroed();
            (format.index, format.type_) = (index, CAPTURE);
            ask(&self.file, vidioc::VIDIOC_ENUM_FMT, &mut format)?;
            Ok((true, (format.pixelformat.to_le_bytes(), text(&format.description))))
        })
    }

    /// The available sizes in a format; empty if the driver does not list them.
    pub(crate) fn sizes(&self, four_cc: [u8; 4]) -> io::Result<Vec<Sizes>> {
        self.each(|index| {
            let mut sizes: v4l2::v4l2_frmsizeenum = zeroed();
            (sizes.index, sizes.pixel_format) = (index, u32::from_le_bytes(four_cc));
            ask(&self.file, vidioc::VIDIOC_ENUM_FRAMESIZES, &mut sizes)?;
            if sizes.type_ == v4l2::v4l2_frmsizetypes_V4L2_FRMSIZE_TYPE_DISCRETE {
                // SAFETY: both fields of this union are made of integers, and all of it was zeroed before.
                let size = unsafe { sizes.__bindgen_anon_1.discrete };
                return Ok((true, Sizes { smallest: (size.width, size.height), largest: (size.width, size.height) }));
            }
            // SAFETY: both fields of this union are made of integers, and all of it was zeroed before.
            let range = unsafe { sizes.__bindgen_anon_1.stepwise };
            let (smallest, largest) = ((range.min_width, range.min_height), (range.max_width, range.max_height));
            Ok((false, Sizes { smallest, largest }))
        })
    }

    /// The available rates in a format and size, in frames per second. A range is given by its two ends. Empty if the driver does not list
    /// them.
    pub(crate) fn rates(&self, four_cc: [u8; 4], (width, height): (u32, u32)) -> io::Result<Vec<(u32, u32)>> {
        let all = self.each(|index| {
            let mut intervals: v4l2::v4l2_frmivalenum = zeroed();
            (intervals.index, intervals.pixel_format) = (index, u32::from_le_bytes(four_cc));
            (intervals.width, intervals.height) = (width, height);
            ask(&self.file, vidioc::VIDIOC_ENUM_FRAMEINTERVALS, &mut intervals)?;
            if intervals.type_ == v4l2::v4l2_frmivaltypes_V4L2_FRMIVAL_TYPE_DISCRETE {
                // SAFETY: both fields of this union are made of integers, and all of it was zeroed before.
                let one = unsafe { intervals.__bindgen_anon_1.discrete };
                return Ok((true, vec![(one.denominator, one.numerator)]));
            }
            // SAFETY: both fields of this union are made of integers, and all of it was zeroed before.
            let range = unsafe { intervals.__bindgen_anon_1.stepwise };
            let ends = [range.max, range.min].map(|end| (end.denominator, end.numerator));
            Ok((false, ends.to_vec()))
        })?;
        Ok(all.concat())
    }

    /// Maps buffers, queues all of them to the driver, and starts the stream.
    pub(crate) fn stream(self, buffers: u32, format: PixelFormat) -> Result<CaptureStream, (&'static str, io::Error)> {
        CaptureStream::start(self.file, buffers, format)
    }

    /// Collects the results of `ask` for 0, 1, 2, ... until the driver has no more. The flag says that the result is one of several. A
    /// range is complete by itself, and drivers return it for any index.
    fn each<T>(&self, mut ask: impl FnMut(u32) -> io::Result<(bool, T)>) -> io::Result<Vec<T>> {
        let mut all = Vec::new();
        for index in 0..1_000 {
            match ask(index) {
                Ok((is_single, one)) if is_single || index == 0 => all.push(one),
                Ok(_) => break,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

/// The rate, if the driver controls it; a fraction without zeros.
fn rate_in(parameters: &v4l2::v4l2_streamparm) -> Option<(u32, u32)> {
    // SAFETY: every field of this union is made of integers, and all of it was zeroed before.
    let capture = unsafe { parameters.parm.capture };
    let interval = capture.timeperframe;
    let is_known = capture.capability & v4l2::V4L2_CAP_TIMEPERFRAME != 0;
    (is_known && interval.numerator > 0 && interval.denominator > 0)
        .then_some((interval.denominator, interval.numerator))
}

/// A text that ends at its first NUL. Invalid UTF-8 from a driver is replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};

    #[test]
    fn texts_of_drivers() {
        assert_eq!(text(b"vivid\0\0\0junk"), "vivid");
        assert_eq!(text(b"Cam\xe9ra "), "Cam\u{fffd}ra");
    }

    #[test]
    fn what_is_no_camera_says_so() {
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        let device = Device::open(Path::new("/dev/null")).unwrap();
        assert_eq!(device.capability().unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(device.formats().unwrap(), []);
    }
}
