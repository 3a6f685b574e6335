//! A running stream and its buffers: the part for the hot thread.

use super::request::{CAPTURE, MAPPED, ask, zeroed};
use crate::sys::invalid;
use crate::time::{Instant, NANOS_PER_SECOND};
use moq_v4l::sys as v4l2;
use moq_v4l::v4l2::vidioc;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::{io, slice};

/// The most buffers that the kernel gives one device.
pub(crate) const MOST_BUFFERS: u32 = 32;

/// The format of the frames that a device delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelFormat {
    pub four_cc: [u8; 4],  // V4L2's four characters
    pub width: u32,        // in pixels
    pub height: u32,       // in pixels
    pub stride: u32,       // bytes between row starts in the first plane; zero where that has no meaning
    pub largest: u32,      // size limit of a frame, in bytes
    pub alternating: bool, // the two fields of a frame come in separate buffers
}

/// A buffer that the device has filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub buffer: u32,         // number of the buffer
    pub sequence: u32,       // the driver's frame number
    pub length: usize,       // bytes of data
    pub damaged: bool,       // the driver reports it as damaged
    pub at: Option<Instant>, // when it was taken, on the monotonic clock; `None`: the driver uses another clock
}

/// A camera as a tick sees it. Nothing here waits or allocates. After any error only reopening the device helps.
pub(crate) trait FrameSource {
    /// The format of its frames.
    fn format(&self) -> &PixelFormat;

    /// How many frames can be ready at once.
    fn buffers(&self) -> usize;

    /// Takes the oldest frame that is ready, if any. One system call. ENODEV: the device is gone. EIO: it failed,
    /// perhaps for this time only; the driver may have lost a buffer.
    fn dequeue(&mut self) -> io::Result<Option<Frame>>;

    /// The bytes of a frame; empty once its buffer has been returned.
    fn bytes(&self, frame: &Frame) -> &[u8];

    /// Returns a buffer to the driver. One system call. ENODEV: the device is gone. EINVAL: the driver already has it.
    fn queue(&mut self, buffer: u32) -> io::Result<()>;
}

/// A device that streams into mapped buffers.
#[derive(Debug)]
pub(crate) struct CaptureStream {
    buffers: Box<[Mapping]>, // unmapped before the device is closed
    taken: Box<[bool]>,      // buffers that the driver does not have
    file: File,
    format: PixelFormat,
}

impl CaptureStream {
    /// Maps buffers, queues all of them to the driver, and starts the stream.
    pub(super) fn start(file: File, buffers: u32, format: PixelFormat) -> Result<Self, (&'static str, io::Error)> {
        let mut request: v4l2::v4l2_requestbuffers = zeroed();
        (request.count, request.type_, request.memory) = (buffers.min(MOST_BUFFERS), CAPTURE, MAPPED);
        ask(&file, vidioc::VIDIOC_REQBUFS, &mut request).map_err(|error| ("asking for buffers", error))?;
        let mut mapped = Vec::new();
        for index in 0..request.count {
            mapped.push(Mapping::of(&file, index).map_err(|error| ("mapping a buffer", error))?);
        }
        let taken = vec![true; mapped.len()].into_boxed_slice();
        let mut stream = Self { buffers: mapped.into_boxed_slice(), taken, file, format };
        for buffer in 0..request.count {
            stream.queue(buffer).map_err(|error| ("handing over a buffer", error))?;
        }
        let mut kind = libc::c_int::try_from(CAPTURE).unwrap_or_default();
        ask(&stream.file, vidioc::VIDIOC_STREAMON, &mut kind).map_err(|error| ("starting the stream", error))?;
        Ok(stream)
    }
}

impl FrameSource for CaptureStream {
    fn format(&self) -> &PixelFormat {
        &self.format
    }

    fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn dequeue(&mut self) -> io::Result<Option<Frame>> {
        let mut buffer: v4l2::v4l2_buffer = zeroed();
        (buffer.type_, buffer.memory) = (CAPTURE, MAPPED);
        match ask(&self.file, vidioc::VIDIOC_DQBUF, &mut buffer) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let index = usize::try_from(buffer.index).map_err(|_| invalid())?;
        let (taken, mapping) = self.taken.get_mut(index).zip(self.buffers.get(index)).ok_or_else(invalid)?;
        *taken = true;
        let by_clock = buffer.flags & v4l2::V4L2_BUF_FLAG_TIMESTAMP_MASK;
        Ok(Some(Frame {
            buffer: buffer.index,
            sequence: buffer.sequence,
            length: usize::try_from(buffer.bytesused).unwrap_or(usize::MAX).min(mapping.length),
            damaged: buffer.flags & v4l2::V4L2_BUF_FLAG_ERROR != 0,
            at: (by_clock == v4l2::V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC).then(|| instant(buffer.timestamp)),
        }))
    }

    fn bytes(&self, frame: &Frame) -> &[u8] {
        let index = usize::try_from(frame.buffer).unwrap_or(usize::MAX);
        match (self.taken.get(index), self.buffers.get(index)) {
            (Some(true), Some(mapping)) => mapping.bytes(frame.length),
            _ => &[],
        }
    }

    fn queue(&mut self, buffer: u32) -> io::Result<()> {
        let index = usize::try_from(buffer).map_err(|_| invalid())?;
        let taken = self.taken.get_mut(index).filter(|taken| **taken).ok_or_else(invalid)?;
        let mut argument: v4l2::v4l2_buffer = zeroed();
        (argument.index, argument.type_, argument.memory) = (buffer, CAPTURE, MAPPED);
        // Also if the call fails: it is then unknown whether the driver has the buffer.
        *taken = false;
        ask(&self.file, vidioc::VIDIOC_QBUF, &mut argument)
    }
}

/// A buffer of the driver, mapped for reading.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is owned, belongs to no thread, and is only read.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(file: &File, index: u32) -> io::Result<Self> {
        let mut buffer: v4l2::v4l2_buffer = zeroed();
        (buffer.index, buffer.type_, buffer.memory) = (index, CAPTURE, MAPPED);
        ask(file, vidioc::VIDIOC_QUERYBUF, &mut buffer)?;
        // SAFETY: the kernel filled in the offset, because the buffer is one to be mapped.
        let offset = unsafe { buffer.m.offset };
        let offset = libc::off64_t::from(offset);
        let length = usize::try_from(buffer.length).map_err(|_| invalid())?;
        let (nowhere, descriptor) = (ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping at an address that the kernel chooses affects no existing memory.
        let start = unsafe { libc::mmap64(nowhere, length, libc::PROT_READ, libc::MAP_SHARED, descriptor, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(|start| Self { start, length }).ok_or_else(invalid)
    }

    /// The first `length` bytes. Only call this while the driver does not have the buffer.
    fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: the mapping has at least that many bytes, lives as long as `self`, and is not written to: the driver writes only while it
        // has the buffer, and giving it the buffer takes a `&mut CaptureStream`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), length.min(self.length)) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and no reference to it is left.
        let returned = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert_eq!(returned, 0, "munmap of a mapping of our own");
    }
}

fn instant(time: libc::timeval) -> Instant {
    Instant::from_nanos(i128::from(time.tv_sec) * i128::from(NANOS_PER_SECOND) + i128::from(time.tv_usec) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_drivers() {
        let time = libc::timeval { tv_sec: 3, tv_usec: 250_000 };
        assert_eq!(instant(time), Instant::from_nanos(3_250_000_000));
    }
}
