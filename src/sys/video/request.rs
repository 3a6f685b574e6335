//! Requests to a driver: the structs that go there and back, and the one place that calls `ioctl`.

use crate::sys::{from_minus_one, invalid};
use moq_v4l::sys as v4l2;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::{io, ptr};

/// The type of buffers of everything here.
pub(super) const CAPTURE: u32 = v4l2::v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE;

/// The memory of buffers of everything here.
pub(super) const MAPPED: u32 = v4l2::v4l2_memory_V4L2_MEMORY_MMAP;

/// Makes a request of the device. Does not allocate.
pub(super) fn ask<T: Argument>(file: &File, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // The size of the argument is part of the number: another struct than the request's would not be written whole.
    let size = usize::try_from(request >> 16 & 0x3fff).unwrap_or_default();
    if size != size_of::<T>() {
        return Err(invalid());
    }
    loop {
        // SAFETY: the kernel writes as many bytes as the number says, which is the size of the struct; any bytes are
        // valid in it.
        let returned = unsafe { libc::ioctl(file.as_raw_fd(), request, ptr::from_mut(argument)) };
        match from_minus_one(returned) {
            // A signal came while it waited for the driver's lock.
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

// The kernel's sizes, where `long` has 64 bits: what the request numbers are made of.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<v4l2::v4l2_capability>() == 104);
    assert!(size_of::<v4l2::v4l2_format>() == 208);
    assert!(size_of::<v4l2::v4l2_streamparm>() == 204);
    assert!(size_of::<v4l2::v4l2_fmtdesc>() == 64);
    assert!(size_of::<v4l2::v4l2_frmsizeenum>() == 44);
    assert!(size_of::<v4l2::v4l2_frmivalenum>() == 52);
    assert!(size_of::<v4l2::v4l2_requestbuffers>() == 20);
    assert!(size_of::<v4l2::v4l2_buffer>() == 88);
};

/// A struct to fill in.
pub(super) fn zeroed<T: Argument>() -> T {
    // SAFETY: all-zero bytes are valid, as the trait promises.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moq_v4l::v4l2::vidioc;

    #[test]
    fn the_numbers_are_those_of_the_header() {
        assert_eq!(vidioc::VIDIOC_QUERYCAP, 0x8068_5600);
        assert_eq!(vidioc::VIDIOC_STREAMON, 0x4004_5612);
        #[cfg(target_pointer_width = "64")]
        {
            assert_eq!(vidioc::VIDIOC_S_FMT, 0xc0d0_5605);
            assert_eq!(vidioc::VIDIOC_QBUF, 0xc058_560f);
            assert_eq!(vidioc::VIDIOC_DQBUF, 0xc058_5611);
            assert_eq!(vidioc::VIDIOC_S_PARM, 0xc0cc_5616);
        }
    }

    #[test]
    fn another_struct_than_the_request_s_does_not_reach_the_kernel() {
        let file = File::open("/dev/null").unwrap();
        let mut buffer: v4l2::v4l2_buffer = zeroed();
        let refused = ask(&file, vidioc::VIDIOC_QUERYCAP, &mut buffer).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        let refused = ask(&file, vidioc::VIDIOC_DQBUF, &mut buffer).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY));
    }
}
