//! The process at the other end of a Unix socket, as the kernel knows it, not as the other end claims.
//!
//! For the command line: it may allocate, reads no clock, and does not block.

use super::from_minus_one;
use signal_hook::consts::SIGHUP;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::{fs, io, mem};

/// Whether somebody may listen at this socket: somebody does, or this process has no right to know.
pub(crate) fn may_listen(path: &Path) -> bool {
    // A datagram socket cannot connect to a stream socket, and learns at once that there is one.
    let tried = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    tried.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EPROTOTYPE | libc::EACCES)))
}

/// A process that listens at a socket. It is held by a descriptor, so that a signal can never reach another process that
/// was later given the same id.
#[derive(Debug)]
pub(crate) struct Peer {
    id: u32,
    process: OwnedFd,
}

impl Peer {
    /// The process that listens at the socket that `stream` is connected to.
    ///
    /// The id is the one from when it began to listen. Read an answer from `stream` afterwards: it proves that the
    /// process was still alive, and so that it is the one that is held.
    /// Errors: ESRCH when it has ended, or is not visible in this PID namespace; otherwise the kernel's reason.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        // SAFETY: ucred is made of integers, for which all-zero bytes are valid.
        let mut peer: libc::ucred = unsafe { mem::zeroed() };
        let mut size = libc::socklen_t::try_from(size_of_val(&peer)).unwrap_or_default();
        let (level, option, fd) = (libc::SOL_SOCKET, libc::SO_PEERCRED, stream.as_raw_fd());
        // SAFETY: `peer` is owned, `size` is its size, and both outlive the call.
        from_minus_one(unsafe { libc::getsockopt(fd, level, option, (&raw mut peer).cast(), &raw mut size) })?;
        let id = u32::try_from(peer.pid).ok().filter(|id| *id > 0);
        let id = id.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        // SAFETY: no pointers; the kernel checks the id.
        let process = from_minus_one(unsafe { libc::syscall(libc::SYS_pidfd_open, peer.pid, 0) })?;
        let process = libc::c_int::try_from(process).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor, for this process alone.
        Ok(Self { id, process: unsafe { OwnedFd::from_raw_fd(process) } })
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Whether it calls itself process `id`. In a container that is another number than here.
    pub(crate) fn calls_itself(&self, id: u32) -> io::Result<bool> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        Ok(ids.split_whitespace().next_back() == Some(id.to_string().as_str()))
    }

    /// Asks it to reload: SIGHUP.
    /// Errors: ESRCH when it has ended, EPERM when it is another user's.
    pub(crate) fn ask_for_reload(&self) -> io::Result<()> {
        let (process, info) = (self.process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: the descriptor is open; a null `info` means the same as for kill().
        from_minus_one(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, SIGHUP, info, 0) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_peer_is_the_process_that_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let peer = Peer::of(&UnixStream::connect(&path).unwrap()).unwrap();
        assert_eq!(peer.id(), std::process::id());
        assert!(peer.calls_itself(std::process::id()).unwrap());
        assert!(!peer.calls_itself(1).unwrap());
    }
}
