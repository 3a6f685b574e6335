//! The process at the other end of a Unix socket, as the kernel knows it, not as the other end claims.
//!
//! For the command line and the log: it may allocate, reads no clock, and does not block.

use super::from_minus_one;
use signal_hook::consts::SIGHUP;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::{fs, io, mem};

/// Whether somebody may listen at this socket: somebody does, or this process has no right to know.
pub(crate) fn may_listen(path: &Path) -> bool {
    // A datagram socket cannot connect to a stream socket, and learns at once that there is one.
    let tried = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    tried.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EPROTOTYPE | libc::EACCES)))
}

/// From now on the kernel writes down this process as the sender of every message of this Unix socket, whether or not the receiver
/// has asked for that when the message is sent. Errors: what the kernel refuses.
pub(crate) fn sign_messages(socket: impl AsFd) -> io::Result<()> {
    let (level, option, fd, on) = (libc::SOL_SOCKET, libc::SO_PASSCRED, socket.as_fd().as_raw_fd(), 1 as libc::c_int);
    let size = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or_default();
    // SAFETY: `on` is as long as is said, and outlives the call, which reads it.
    from_minus_one(unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), size) })?;
    Ok(())
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

    /// The sender of the next message, as the kernel has written it down. 0 if it has not.
    fn sender(socket: &UnixDatagram) -> libc::pid_t {
        let mut byte = [0_u8];
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
        let mut room = [0_u64; 16];
        // SAFETY: msghdr is made of integers and pointers, for which all-zero bytes are valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), size_of_val(&room) as _);
        // SAFETY: every pointer in `message` leads to memory of the said length that outlives the call.
        assert_eq!(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) }, 1);
        // SAFETY: the kernel has filled in `message`.
        let control = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: null, or in `room`, which nothing else reads or writes.
        let control = unsafe { control.as_ref() }.expect("a sender");
        assert_eq!((control.cmsg_level, control.cmsg_type), (libc::SOL_SOCKET, libc::SCM_CREDENTIALS));
        // SAFETY: the header lies in `room`, and its data behind it.
        let written = unsafe { libc::CMSG_DATA(control) }.cast::<libc::ucred>();
        // SAFETY: data of this type is a ucred, at any address.
        unsafe { written.read_unaligned() }.pid
    }

    #[test]
    fn a_message_sent_before_the_receiver_asks_for_its_sender_has_one_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        socket.send_to(b"a", &path).unwrap();
        sign_messages(&socket).unwrap();
        socket.send_to(b"b", &path).unwrap();
        // As systemd makes the journal's socket: first it is there, then the kernel is asked for the senders.
        sign_messages(&receiver).unwrap();
        assert_eq!(sender(&receiver), 0);
        assert_eq!(sender(&receiver), std::process::id().cast_signed());
    }
}
