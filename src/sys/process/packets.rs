//! One end of a socket pair that carries whole frames (`SOCK_SEQPACKET`). Nothing here waits except [`Packets::wait`], and nothing
//! allocates.

use super::super::{Seconds, from_minus_one};
use crate::time::{NANOS_PER_SECOND, Span};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// What a socket has to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    Nothing,
    Frames,
    /// The other end is closed or will send nothing more; frames may be left.
    Closed,
}

/// This process's end.
#[derive(Debug)]
pub(crate) struct Packets(OwnedFd);

impl Packets {
    /// Both ends. Both close on exec; the second one blocks.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: `ends` has room for the two descriptors and outlives the call.
        from_minus_one(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: the kernel has just created it, and nothing else owns it.
        let ours = unsafe { OwnedFd::from_raw_fd(ends[0]) };
        // SAFETY: as above.
        let theirs = unsafe { OwnedFd::from_raw_fd(ends[1]) };
        Ok((Self(ours), theirs))
    }

    /// Lets up to this many bytes of frames wait for the other end, or as many as the kernel allows.
    pub(crate) fn make_room(&self, bytes: i32) {
        let at = (&raw const bytes).cast();
        let length: libc::socklen_t = 4; // of an i32
        // SAFETY: `bytes` outlives the call, and the length passed is its own.
        let _ = unsafe { libc::setsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, at, length) };
    }

    /// Sends one frame, whole or not at all.
    ///
    /// # Errors
    /// `WouldBlock`: the other end has not read enough; others: it is closed.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the frame is borrowed for the call, and its length is passed with it.
        from_minus_one(unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), flags) }).map(drop)
    }

    /// Copies the next frame into `room` and returns its length, which is greater than that of `room` if it did not fit. 0: an empty frame,
    /// or the other end is closed.
    ///
    /// # Errors
    /// `WouldBlock`: no frame is there.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: `room` is borrowed for the call, and its length is passed with it.
        let came =
            from_minus_one(unsafe { libc::recv(self.0.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), flags) })?;
        Ok(usize::try_from(came).unwrap_or(0))
    }

    /// Makes the other end read end-of-file; frames that it sends still arrive.
    pub(crate) fn finish(&self) {
        // SAFETY: no memory is involved.
        let _ = unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_WR) };
    }

    /// Waits for a frame, for `within` at most.
    pub(crate) fn wait(&self, within: Span) -> Ready {
        let mut asked = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
        let nanos = within.nanos().max(0);
        let limit = libc::timespec {
            tv_sec: Seconds::try_from(nanos / NANOS_PER_SECOND).unwrap_or(Seconds::MAX),
            tv_nsec: libc::c_long::try_from(nanos % NANOS_PER_SECOND).unwrap_or(0),
        };
        // SAFETY: `asked` is one owned pollfd, as the count says; it and `limit` outlive the call, and no mask is passed.
        let ready = unsafe { libc::ppoll(&raw mut asked, 1, &raw const limit, ptr::null()) };
        match asked.revents {
            _ if ready <= 0 => Ready::Nothing,
            came if came & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Ready::Closed,
            _ => Ready::Frames,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn frames_go_whole_and_nobody_waits() {
        let (ours, theirs) = Packets::pair().unwrap();
        let mut theirs = File::from(theirs);
        let mut room = [0; 4];
        assert_eq!(ours.receive(&mut room).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(ours.wait(Span::ZERO), Ready::Nothing);
        theirs.write_all(b"abc").unwrap();
        theirs.write_all(b"longer").unwrap();
        assert_eq!(ours.wait(Span::ZERO), Ready::Frames);
        assert_eq!((ours.receive(&mut room).unwrap(), &room[..3]), (3, &b"abc"[..]));
        assert_eq!((ours.receive(&mut room).unwrap(), &room), (6, b"long"));
        let mut sent = 0_usize;
        while ours.send(&[7; 100]).is_ok() {
            sent += 1;
        }
        assert_eq!(ours.send(&[7; 100]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        ours.finish();
        let mut frame = [0; 200];
        for _ in 0..sent {
            assert_eq!(theirs.read(&mut frame).unwrap(), 100);
        }
        assert_eq!(theirs.read(&mut frame).unwrap(), 0);
        drop(theirs);
        // A program that another test is starting may hold a copy until it is executed.
        assert_eq!(ours.wait(Span::from_seconds(60)), Ready::Closed);
        assert_ne!(ours.send(b"x").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
