//! Requests to a driver: their argument structs, and the only call to `ioctl`.

use crate::sys::{Seconds, from_minus_one, invalid};
use moq_v4l::sys as v4l2;
use moq_v4l::v4l2::vidioc;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::{io, ptr};

/// The buffer type used throughout.
pub(super) const CAPTURE: u32 = v4l2::v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE;

/// The buffer memory used throughout.
pub(super) const MAPPED: u32 = v4l2::v4l2_memory_V4L2_MEMORY_MMAP;

/// Sends a request to the device. Does not allocate.
pub(super) fn ask<T: Argument>(file: &File, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // The argument's size is part of the request number; a struct of another size would not be written completely.
    let size = usize::try_from(request >> 16 & 0x3fff).unwrap_or_default();
    if size != size_of::<T>() {
        return Err(invalid());
    }
    loop {
        // SAFETY: the kernel writes as many bytes as the number says, which is the size of the struct; any bytes are valid in it.
        let returned = unsafe { libc::ioctl(file.as_raw_fd(), request, ptr::from_mut(argument)) };
        match from_minus_one(returned) {
            // A signal came during the wait for the driver's lock.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}

/// The argument of a request.
///
/// # Safety
/// Any bytes, zeros included, must be valid in it.
pub(super) unsafe trait Argument {}

macro_rules! arguments {
    ($($argument:ty),+) => {
        // SAFETY: these are made of integers, unions of them, and raw pointers.
        $(unsafe impl Argument for $argument {})+
    };
}
arguments!(v4l2::v4l2_capability, v4l2::v4l2_format, v4l2::v4l2_pix_format, v4l2::v4l2_streamparm);
arguments!(v4l2::v4l2_captureparm, v4l2::v4l2_fmtdesc, v4l2::v4l2_frmsizeenum, v4l2::v4l2_frmivalenum);
arguments!(v4l2::v4l2_requestbuffers, v4l2::v4l2_buffer, libc::c_int);

// The kernel's sizes, and the request numbers derived from them. On 32 bits the kernel accepts a buffer with either width of `time_t`.
const _: () = {
    let is_wide = size_of::<*mut u8>() == 8;
    assert!(size_of::<v4l2::v4l2_capability>() == 104);
    assert!(size_of::<v4l2::v4l2_format>() == if is_wide { 208 } else { 204 });
    assert!(size_of::<v4l2::v4l2_streamparm>() == 204);
    assert!(size_of::<v4l2::v4l2_fmtdesc>() == 64);
    assert!(size_of::<v4l2::v4l2_frmsizeenum>() == 44);
    assert!(size_of::<v4l2::v4l2_frmivalenum>() == 52);
    assert!(size_of::<v4l2::v4l2_requestbuffers>() == 20);
    let buffer = match (is_wide, size_of::<Seconds>()) {
        (true, _) => 88_u8,
        (false, 8) => 80,
        (false, _) => 68,
    };
    assert!(size_of::<v4l2::v4l2_buffer>() == buffer as usize);
    let buffer = buffer as u32;
    assert!(has_number(vidioc::VIDIOC_QUERYCAP, 0x8068_5600));
    assert!(has_number(vidioc::VIDIOC_ENUM_FMT, 0xc040_5602));
    assert!(has_number(vidioc::VIDIOC_S_FMT, if is_wide { 0xc0d0_5605 } else { 0xc0cc_5605 }));
    assert!(has_number(vidioc::VIDIOC_REQBUFS, 0xc014_5608));
    assert!(has_number(vidioc::VIDIOC_QUERYBUF, 0xc000_5609 | buffer << 16));
    assert!(has_number(vidioc::VIDIOC_QBUF, 0xc000_560f | buffer << 16));
    assert!(has_number(vidioc::VIDIOC_DQBUF, 0xc000_5611 | buffer << 16));
    assert!(has_number(vidioc::VIDIOC_STREAMON, 0x4004_5612));
    assert!(has_number(vidioc::VIDIOC_G_PARM, 0xc0cc_5615));
    assert!(has_number(vidioc::VIDIOC_S_PARM, 0xc0cc_5616));
    assert!(has_number(vidioc::VIDIOC_TRY_FMT, if is_wide { 0xc0d0_5640 } else { 0xc0cc_5640 }));
    assert!(has_number(vidioc::VIDIOC_ENUM_FRAMESIZES, 0xc02c_564a));
    assert!(has_number(vidioc::VIDIOC_ENUM_FRAMEINTERVALS, 0xc034_564b));
};

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an unsigned long, or with musl an int, of 32 bits"
)]
const fn has_number(request: libc::Ioctl, number: u32) -> bool {
    request as u32 == number
}

/// A zeroed struct to fill in.
pub(super) fn zeroed<T: Argument>() -> T {
    // SAFETY: all-zero bytes are valid, as the trait promises.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};

    #[test]
    fn another_struct_than_the_request_s_does_not_reach_the_kernel() {
        let file = File::open("/dev/null").unwrap();
        let mut buffer: v4l2::v4l2_buffer = zeroed();
        let refused = ask(&file, vidioc::VIDIOC_QUERYCAP, &mut buffer).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        let refused = ask(&file, vidioc::VIDIOC_DQBUF, &mut buffer).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY));
    }
}
