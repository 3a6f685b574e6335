//! Writes with a time limit on waiting for a reader, reads that fail instead of waiting, and open files that threads exchange.
//!
//! Nothing here allocates or reads a clock.

use super::from_minus_one;
use crate::time::Span;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Whether a write of up to a page would succeed or fail at once; waits for that up to `within` (whole milliseconds).
///
/// A pipe whose reader has stopped, or a terminal held by Ctrl-S, would make a write wait forever.
pub(crate) fn writable(stream: impl AsFd, within: Span) -> bool {
    // A failed poll (a signal, no memory) reveals nothing about the stream; the write will.
    wait_for(stream, libc::POLLOUT, within).0 != 0
}

/// Whether a read would return at once; waits for that up to `within` (whole milliseconds).
pub(crate) fn is_readable(stream: impl AsFd, within: Span) -> bool {
    wait_for(stream, libc::POLLIN, within).0 != 0
}

/// The return value of `poll`, and the events it found.
fn wait_for(stream: impl AsFd, events: libc::c_short, within: Span) -> (libc::c_int, libc::c_short) {
    let mut asked = libc::pollfd { fd: stream.as_fd().as_raw_fd(), events, revents: 0 };
    let millis = libc::c_int::try_from(within.nanos().max(0) / 1_000_000).unwrap_or(libc::c_int::MAX);
    // SAFETY: `asked` is one owned pollfd, as the count says, and outlives the call.
    let ready = unsafe { libc::poll(&raw mut asked, 1, millis) };
    (ready, asked.revents)
}

/// A writable pipe accepts this many bytes at once.
pub(crate) const PAGE: usize = 4_096;

/// Writes all of `bytes`, waiting up to `within` for each page. False: the reader accepted nothing for that long, and the rest is not
/// written.
///
/// # Errors
/// The write's error.
pub(crate) fn write_within(mut stream: impl Write + AsFd, bytes: &[u8], within: Span) -> io::Result<bool> {
    for part in bytes.chunks(PAGE) {
        if !writable(&stream, within) {
            return Ok(false);
        }
        stream.write_all(part)?;
        stream.flush()?;
    }
    Ok(true)
}

/// How a read from a terminal would behave.
#[cfg(feature = "top")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Waits,
    Returns,
    /// The other end has gone, and nothing will ever come.
    HungUp,
}

/// Waits up to `within` (whole milliseconds) for something to read.
#[cfg(feature = "top")]
pub(crate) fn reading(stream: impl AsFd, within: Span) -> Reading {
    let (ready, came) = wait_for(stream, libc::POLLIN, within);
    match came {
        _ if ready <= 0 => Reading::Waits,
        came if came & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Reading::HungUp,
        _ => Reading::Returns,
    }
}

/// The width of a terminal in characters; `None`: not a terminal, or the width is unknown.
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is owned, outlives the call, and is of the type that this request fills.
    let asked = unsafe { libc::ioctl(stream.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// From now on a read of this file fails with EAGAIN where it would wait, also through every copy of its open description.
#[cfg_attr(not(feature = "gpio"), allow(dead_code, reason = "only the kind gpio gets its descriptor from elsewhere"))]
pub(crate) fn set_nonblocking(file: impl AsFd) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for as long as `file` is borrowed; no memory is involved.
    let flags = from_minus_one(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    from_minus_one(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Redirects the descriptor of `old` to the file that `new` has open, in one step. All users of `old`, including other threads, continue
/// with the new file; a call already in progress finishes on the old one. The old file is closed when nothing else has it open.
pub(crate) fn replace(old: &File, new: &File) -> io::Result<()> {
    loop {
        // SAFETY: both files are borrowed, so their descriptors are open. `old` keeps its number and its owner, and stays open.
        match from_minus_one(unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) }) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Room for one open file that threads exchange.
#[derive(Debug)]
pub(crate) struct FdSlot(AtomicI32);

impl FdSlot {
    const EMPTY: RawFd = -1;

    pub(crate) const fn new() -> Self {
        Self(AtomicI32::new(Self::EMPTY))
    }

    /// Stores `new` and returns the previous content. Wait-free.
    pub(crate) fn swap(&self, new: Option<OwnedFd>) -> Option<OwnedFd> {
        let old = self.0.swap(new.map_or(Self::EMPTY, OwnedFd::into_raw_fd), Ordering::AcqRel);
        // SAFETY: it was put in as an OwnedFd, and only this call takes it out.
        (old != Self::EMPTY).then(|| unsafe { OwnedFd::from_raw_fd(old) })
    }
}

impl Drop for FdSlot {
    fn drop(&mut self) {
        drop(self.swap(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_full_pipe_is_not_writable_until_somebody_reads() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let page = [0; 4_096];
        let mut pages = 0;
        while writable(&writer, Span::ZERO) {
            writer.write_all(&page).unwrap();
            pages += 1;
        }
        assert!(pages > 0);
        assert!(!writable(&writer, Span::from_millis(1)));
        reader.read_exact(&mut vec![0; page.len() * pages]).unwrap();
        assert!(writable(&writer, Span::ZERO));
        drop(reader);
        assert!(writable(&writer, Span::ZERO), "a write fails at once");
    }

    #[test]
    fn who_shares_a_file_goes_on_with_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let shared = File::create(&first).unwrap();
        let also = &shared;
        (&shared).write_all(b"1").unwrap();
        replace(&shared, &File::create(&second).unwrap()).unwrap();
        { also }.write_all(b"2").unwrap();
        assert_eq!([first, second].map(|path| std::fs::read_to_string(path).unwrap()), ["1", "2"]);
    }

    #[test]
    fn a_read_that_would_wait_fails() {
        let (mut reader, _writer) = io::pipe().unwrap();
        set_nonblocking(&reader).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
