//! The process at the other end of a Unix socket, as the kernel knows it rather than as it describes itself.
//!
//! For the command line and the log: it may allocate, reads no clock, and does not block. Before Linux 6.5 the kernel identifies the
//! process behind a socket by its id alone. Such a process is compared with what the daemon reports about itself before it is signalled.

use super::from_minus_one;
use crate::time::{Instant, Span};
use signal_hook::consts::SIGHUP;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::{fs, io, mem, ptr};

/// Whether a process may be listening at this socket: one is, or this process has no permission to find out.
pub(crate) fn may_listen(path: &Path) -> bool {
    // A datagram socket cannot connect to a stream socket, and the error reveals at once whether one exists.
    let tried = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    tried.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EPROTOTYPE | libc::EACCES)))
}

/// From now on the kernel records this process as the sender of every message of this Unix socket, even if the receiver had not yet asked
/// for the sender when the message was sent. Fails with the kernel's reason.
pub(crate) fn sign_messages(socket: impl AsFd) -> io::Result<()> {
    let (level, option, fd, on) = (libc::SOL_SOCKET, libc::SO_PASSCRED, socket.as_fd().as_raw_fd(), 1 as libc::c_int);
    let size = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or_default();
    // SAFETY: `on` has the stated length, and outlives the call, which reads it.
    from_minus_one(unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), size) })?;
    Ok(())
}

/// The user whose process connected to a socket or listens at it.
///
/// # Errors
/// The kernel's reason.
pub(crate) fn user(stream: &UnixStream) -> io::Result<u32> {
    credentials(stream).map(|peer| peer.uid)
}

/// A process that listens at a socket. It is held by a descriptor, so a signal can never reach another process that later got the same id.
#[derive(Debug)]
pub(crate) struct Peer {
    id: u32,
    user: u32,
    process: OwnedFd,
    /// The kernel gave the descriptor for the socket. Before Linux 6.5 it is opened by process id, which another process may have by then.
    is_certain: bool,
}

/// Not in libc for every architecture and C library.
const SO_PEERPIDFD: libc::c_int = if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) { 0x56 } else { 77 };

impl Peer {
    /// The process that listens at the socket that `stream` is connected to.
    ///
    /// # Errors
    /// ESRCH if it has ended or is not visible in this PID namespace; otherwise the kernel's reason.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let peer = credentials(stream)?;
        let id = u32::try_from(peer.pid).ok().filter(|id| *id > 0);
        let (id, user) = (id.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?, peer.uid);
        let mut process: libc::c_int = -1;
        match socket_option(stream, SO_PEERPIDFD, &mut process) {
            Ok(()) => {
                // SAFETY: the kernel has just made this descriptor, for this process alone.
                let process = unsafe { OwnedFd::from_raw_fd(process) };
                let peer = Self { id, user, process, is_certain: true };
                peer.must_live()?;
                Ok(peer)
            }
            // This kernel lacks the option.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::by_id(id, user),
            Err(error) => Err(error),
        }
    }

    fn by_id(id: u32, user: u32) -> io::Result<Self> {
        let id_of_kernel = libc::pid_t::try_from(id).map_err(io::Error::other)?;
        // SAFETY: no pointers; the kernel checks the id.
        let process = from_minus_one(unsafe { libc::syscall(libc::SYS_pidfd_open, id_of_kernel, 0) })?;
        let process = libc::c_int::try_from(process).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor, for this process alone.
        Ok(Self { id, user, process: unsafe { OwnedFd::from_raw_fd(process) }, is_certain: false })
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Whether the process knows itself by the id `id`. In a container its own id differs from the one visible here.
    pub(crate) fn calls_itself(&self, id: u32) -> io::Result<bool> {
        let ids = self.status("NSpid:")?;
        Ok(ids.split_whitespace().next_back() == Some(id.to_string().as_str()))
    }

    /// Why the peer cannot be the daemon that says it has run since `begun`, on the clock of [`KernelClock::boottime`]: it took over the id
    /// of the process that listened. `None`: it is that daemon, as far as owner, start time and program show.
    ///
    /// # Errors
    /// It has ended, or its entries in `/proc` cannot be read.
    pub(crate) fn is_another(&self, begun: Instant) -> io::Result<Option<String>> {
        if self.is_certain {
            return Ok(None);
        }
        let user = self.status("Uid:")?;
        let (program, own) = (self.status("Name:")?, fs::read_to_string("/proc/self/comm")?);
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id))?;
        // The 20th field after the name, which may contain any characters.
        let ticks =
            stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(19)?.parse::<i64>().ok());
        let started = Instant::ZERO + Span::from_millis(ticks.unwrap_or(i64::MAX / 20_000_000) * 10);
        // The peer still lives, so everything read above was about it.
        self.must_live()?;
        Ok(match () {
            () if user.split_whitespace().nth(1) != Some(self.user.to_string().as_str()) => {
                Some(format!("it belongs to another user than the one that listened ({})", self.user))
            }
            () if program != own.trim_end() => Some(format!("it is the program {program}")),
            () if started > begun => Some("it started after the daemon".into()),
            () => None,
        })
    }

    /// A field of the process's status in `/proc`.
    fn status(&self, name: &str) -> io::Result<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        Ok(value.trim().to_owned())
    }

    fn must_live(&self) -> io::Result<()> {
        match self.send(0) {
            Err(error) if error.raw_os_error() != Some(libc::EPERM) => Err(error),
            _ => Ok(()),
        }
    }

    /// Asks it to reload: SIGHUP.
    ///
    /// # Errors
    /// ESRCH if it has ended, EPERM if it belongs to another user.
    pub(crate) fn ask_for_reload(&self) -> io::Result<()> {
        self.send(SIGHUP)
    }

    fn send(&self, signal: libc::c_int) -> io::Result<()> {
        let (process, info) = (self.process.as_raw_fd(), ptr::null::<libc::siginfo_t>());
        // SAFETY: the descriptor is open; a null `info` means the same as for kill().
        from_minus_one(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, info, 0) }).map(drop)
    }
}

/// The process that listens or has connected, and its user, as of that moment. The id is 0 if it is not visible in this PID namespace.
fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    // SAFETY: ucred is made of integers, for which all-zero bytes are valid.
    let mut peer: libc::ucred = unsafe { mem::zeroed() };
    socket_option(stream, libc::SO_PEERCRED, &mut peer)?;
    Ok(peer)
}

/// Reads a socket-level option into `value`, which must be made of integers.
fn socket_option<T>(stream: &UnixStream, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut size = libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default();
    let (level, fd) = (libc::SOL_SOCKET, stream.as_raw_fd());
    // SAFETY: `value` is borrowed for writing, `size` is its size, and both outlive the call.
    from_minus_one(unsafe { libc::getsockopt(fd, level, option, ptr::from_mut(value).cast(), &raw mut size) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn the_peer_is_the_process_that_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let peer = Peer::of(&UnixStream::connect(&path).unwrap()).unwrap();
        assert_eq!(peer.id(), std::process::id());
        assert!(peer.calls_itself(std::process::id()).unwrap());
        assert!(!peer.calls_itself(1).unwrap());
        assert_eq!(peer.is_another(Instant::ZERO).unwrap(), None, "the kernel is certain");
    }

    #[test]
    fn by_its_id_a_peer_is_compared_with_what_is_known_of_the_daemon() {
        let now = crate::sys::clock::KernelClock::boottime().now();
        let own = Peer::by_id(std::process::id(), crate::sys::dir::effective_user()).unwrap();
        assert_eq!(own.is_another(now).unwrap(), None);
        let another = own.is_another(Instant::ZERO).unwrap().unwrap();
        assert!(another.contains("started after"), "{another}");
        let of_another_user = Peer { user: own.user + 1, ..own };
        assert!(of_another_user.is_another(now).unwrap().unwrap().contains("another user"));
        if crate::sys::emulation::cannot_be_emulated("every program there has the name of the emulator") {
            return;
        }
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        // Between fork and exec its name is this program's.
        while fs::read_to_string(format!("/proc/{}/comm", other.id())).unwrap() != "sleep\n" {
            crate::sys::clock::pause(Span::from_millis(1));
        }
        let peer = Peer::by_id(other.id(), crate::sys::dir::effective_user()).unwrap();
        let another = peer.is_another(crate::sys::clock::KernelClock::boottime().now()).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(another.unwrap().contains("it is the program sleep"));
        assert_eq!(peer.ask_for_reload().unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    /// The listener has ended while another process holds its socket open; then a third process gets its id.
    #[test]
    fn a_process_with_the_id_of_the_listener_is_not_signalled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let fd = listener.as_raw_fd();
        let mut ended = Command::new("true");
        // SAFETY: the descriptor is open; no memory is involved.
        let listen = move || from_minus_one(unsafe { libc::listen(fd, 8) }).map(drop);
        // SAFETY: between fork and exec it makes one system call, which is allowed there.
        unsafe { ended.pre_exec(listen) };
        let mut ended = ended.spawn().unwrap();
        let id = ended.id();
        ended.wait().unwrap();
        // Only root may choose the next id, and other processes may take it first.
        let taken = (0..200).find_map(|_| {
            fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string()).ok()?;
            let mut next = Command::new("sleep").arg("1000").spawn().ok()?;
            if next.id() == id {
                return Some(next);
            }
            let _ = next.kill();
            let _ = next.wait();
            None
        });
        let stream = UnixStream::connect(&path).unwrap();
        assert_eq!(
            u32::try_from(credentials(&stream).unwrap().pid),
            Ok(id),
            "what an earlier hertzd would have signalled"
        );
        let refused = Peer::of(&stream);
        if let Ok(peer) = &refused {
            assert!(!peer.is_certain && peer.is_another(Instant::ZERO).unwrap().is_some(), "{refused:?}");
        }
        match taken {
            Some(mut other) => {
                assert!(other.try_wait().unwrap().is_none());
                other.kill().unwrap();
                other.wait().unwrap();
            }
            None => crate::sys::emulation::say_skipped(&format!("no process was given the id {id} again")),
        }
    }

    /// The sender of the next message as the kernel recorded it; 0 if it did not.
    fn sender(socket: &UnixDatagram) -> libc::pid_t {
        let mut byte = [0_u8];
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
        let mut room = [0_u64; 16];
        // SAFETY: msghdr is made of integers and pointers, for which all-zero bytes are valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), size_of_val(&room) as _);
        // SAFETY: every pointer in `message` leads to memory of the stated length that outlives the call.
        assert_eq!(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) }, 1);
        // SAFETY: the kernel has filled in `message`.
        let control = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: null, or in `room`, which nothing else reads or writes.
        let control = unsafe { control.as_ref() }.expect("a sender");
        assert_eq!((control.cmsg_level, control.cmsg_type), (libc::SOL_SOCKET, libc::SCM_CREDENTIALS));
        // SAFETY: the header lies in `room`, and its data after it.
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
        // As systemd makes the journal's socket: it exists first, and asks the kernel for senders afterwards.
        sign_messages(&receiver).unwrap();
        assert_eq!(sender(&receiver), 0);
        assert_eq!(sender(&receiver), std::process::id().cast_signed());
    }
}
