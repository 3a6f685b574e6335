//! A raw CAN socket bound to one interface. [`Socket::receive`] and [`Socket::send`] are for the hot thread: they do not allocate.

use super::frame::{Frame, Id, Received, understood};
use crate::sys::{from_minus_one, invalid};
use crate::time::{Instant, NANOS_PER_SECOND};
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most frames per system call.
pub(crate) const BATCH: usize = 32;

/// The receive buffer size requested from the kernel, in bytes; `net.core.rmem_max` limits it.
const ROOM: libc::c_int = 1 << 20;

/// More than the kernel charges for one frame in a receive queue, in bytes.
const LARGEST: u32 = 4096;

/// Room for one control message with a timestamp, aligned as the kernel wants it.
type Control = [u64; 4];

const RCVBUF: usize = 1; // SK_MEMINFO_RCVBUF
const DROPS: usize = 8; // SK_MEMINFO_DROPS

/// A network interface and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its number. The kernel gives it to no other interface until it reboots, whatever their names.
    pub(crate) index: libc::c_int,
    /// Its own name, even if it was found by an alternative one.
    pub(crate) name: String,
    /// It accepts CAN FD frames.
    pub(crate) fd: bool,
    pub(crate) is_up: bool,
    /// The controller is on the bus. Without a carrier, everything sent is dropped at once.
    pub(crate) has_carrier: bool,
}

/// What a socket receives and sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Receive frames with these ids, but no remote requests.
    pub(crate) ids: &'a [Id],
    /// Receive error reports of the interface.
    pub(crate) errors: bool,
    /// Receive a confirmation of each own frame that has left.
    pub(crate) own: bool,
    /// Send and receive CAN FD frames too.
    pub(crate) fd: bool,
}

// The kernel's layouts; some depend on the width of a pointer.
const _: () = {
    let is_wide = size_of::<*mut u8>() == 8;
    assert!(size_of::<libc::sockaddr_can>() == 24 && offset_of!(libc::sockaddr_can, can_ifindex) == 4);
    assert!(size_of::<libc::can_filter>() == 8);
    assert!(size_of::<libc::ifreq>() == if is_wide { 40 } else { 32 } && offset_of!(libc::ifreq, ifr_ifru) == 16);
    assert!(size_of::<libc::iovec>() == if is_wide { 16 } else { 8 });
    assert!(size_of::<libc::mmsghdr>() == if is_wide { 64 } else { 32 });
    assert!(offset_of!(libc::mmsghdr, msg_len) == if is_wide { 56 } else { 28 });
    assert!(size_of::<libc::cmsghdr>() + size_of::<libc::timespec>() <= size_of::<Control>());
};

/// A raw socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A socket without an interface. EAFNOSUPPORT, EPROTONOSUPPORT: this kernel has no CAN, or this process is not allowed to use it.
    pub(crate) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the arguments are numbers; no memory is involved.
        let fd = from_minus_one(unsafe { libc::socket(libc::AF_CAN, kind, libc::CAN_RAW) })?;
        // SAFETY: it was just opened, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Looks up an interface by its name, or by an alternative one. ENODEV: no interface has this name.
    pub(crate) fn interface(&self, name: &str) -> io::Result<Interface> {
        // SAFETY: the structure is a name and a union of integers, all of which may be zero.
        let mut request: libc::ifreq = unsafe { zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed() as libc::c_char;
        }
        self.ask(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled in this field of the union.
        self.interface_at(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    /// Looks up an interface by its number, which does not change with its name. ENODEV: it is gone.
    pub(crate) fn interface_at(&self, index: libc::c_int) -> io::Result<Interface> {
        // SAFETY: the structure is a name and a union of integers, all of which may be zero.
        let mut request: libc::ifreq = unsafe { zeroed() };
        request.ifr_ifru.ifru_ifindex = index;
        self.ask(libc::SIOCGIFNAME, &mut request)?;
        let name: Vec<u8> = request.ifr_name.iter().take_while(|it| **it != 0).map(|it| it.to_ne_bytes()[0]).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled in this field of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        self.ask(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled in this field of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        let fd = usize::try_from(mtu).is_ok_and(|mtu| mtu >= libc::CANFD_MTU);
        let has = |flag| libc::c_int::from(flags) & flag != 0;
        Ok(Interface { index, name, fd, is_up: has(libc::IFF_UP), has_carrier: has(libc::IFF_RUNNING) })
    }

    #[allow(clippy::cast_possible_truncation, reason = "the numbers have 16 bits; with musl the argument is an int")]
    fn ask(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: each of these requests reads a name in `request` and writes a number into it, or the reverse; it outlives the call.
        from_minus_one(unsafe { libc::ioctl(self.0.as_raw_fd(), what as _, &raw mut *request) })?;
        Ok(())
    }

    /// Binds the socket to this interface. ENODEV: not a CAN interface. EINVAL: too many ids.
    pub(crate) fn bind(&self, interface: &Interface, wanted: Wanted<'_>) -> io::Result<()> {
        let exactly = |id: &Id| libc::can_filter {
            can_id: id.word(),
            can_mask: libc::CAN_EFF_FLAG
                | libc::CAN_RTR_FLAG
                | if id.extended { libc::CAN_EFF_MASK } else { libc::CAN_SFF_MASK },
        };
        let filters: Vec<libc::can_filter> = wanted.ids.iter().map(exactly).collect();
        let errors: libc::can_err_mask_t = if wanted.errors { libc::CAN_ERR_MASK } else { 0 };
        let on = |on: bool| libc::c_int::from(on);
        self.set(libc::SOL_CAN_RAW, libc::CAN_RAW_FILTER, &filters)?;
        self.set(libc::SOL_CAN_RAW, libc::CAN_RAW_ERR_FILTER, &[errors])?;
        self.set(libc::SOL_CAN_RAW, libc::CAN_RAW_RECV_OWN_MSGS, &[on(wanted.own)])?;
        self.set(libc::SOL_CAN_RAW, libc::CAN_RAW_FD_FRAMES, &[on(wanted.fd)])?;
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &[ROOM])?;
        self.stamp()?;
        // SAFETY: the structure is integers and a union of them, all of which may be zero.
        let mut address: libc::sockaddr_can = unsafe { zeroed() };
        address.can_family = libc::sa_family_t::try_from(libc::AF_CAN).unwrap_or_default();
        address.can_ifindex = interface.index;
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_can>()).map_err(|_| invalid())?;
        // SAFETY: the address has the stated length, and outlives the call, which reads it.
        from_minus_one(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(())
    }

    /// Asks for the time at which each frame arrived.
    fn stamp(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &[libc::c_int::from(true)])
    }

    fn set<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: &[T]) -> io::Result<()> {
        let length = libc::socklen_t::try_from(size_of_val(value)).map_err(|_| invalid())?;
        // SAFETY: `value` has the stated length, and outlives the call, which reads it.
        from_minus_one(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value.as_ptr().cast(), length) })?;
        Ok(())
    }

    /// Takes up to [`BATCH`] frames out of the receive queue, the oldest first. Does not wait. Returns how many there were; fewer than
    /// [`BATCH`] means that the queue is empty.
    ///
    /// # Errors
    /// The interface's state: ENETDOWN, ENODEV. An error is reported once, ahead of frames that arrived before it.
    pub(crate) fn receive(&self, mut each: impl FnMut(Received)) -> io::Result<usize> {
        self.receive_dated(|received, _| each(received))
    }

    /// The same, with the time in UTC at which the kernel received each of them, if it told.
    pub(crate) fn receive_dated(&self, mut each: impl FnMut(Received, Option<Instant>)) -> io::Result<usize> {
        // SAFETY: frames are integers and bytes, all of which may be zero.
        let mut frames: [libc::canfd_frame; BATCH] = unsafe { zeroed() };
        // SAFETY: these are lengths and pointers, all of which may be zero; each is set below.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: likewise; a header that is all zero has no address and no data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let mut controls = [Control::default(); BATCH];
        for (((header, part), frame), control) in headers.iter_mut().zip(&mut parts).zip(&mut frames).zip(&mut controls)
        {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            *part = libc::iovec { iov_base: (&raw mut *frame).cast(), iov_len: size_of::<libc::canfd_frame>() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let count = libc::c_uint::try_from(BATCH).map_err(|_| invalid())?;
        // SAFETY: `count` is the number of headers. Each points to one part, and each part to a frame of the stated length; each points to
        // room for control messages of the stated length. All outlive the call, and nothing else refers to them meanwhile.
        let came = from_minus_one(unsafe {
            libc::recvmmsg(
                self.0.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        });
        let count = match came {
            Ok(count) => usize::try_from(count).unwrap_or(0).min(BATCH),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        for (header, frame) in headers[..count].iter().zip(&frames) {
            if let Some(received) = understood(header, frame) {
                each(received, stamp_of(&header.msg_hdr));
            }
        }
        Ok(count)
    }

    /// How many frames were dropped since the socket was opened because the receive queue was full, modulo 2³².
    pub(crate) fn dropped(&self) -> io::Result<u32> {
        self.memory().map(|memory| memory[DROPS])
    }

    /// As long as fewer frames than this are queued, the receive queue is not full.
    pub(crate) fn fewest_that_fill(&self) -> io::Result<usize> {
        let room = self.memory()?[RCVBUF];
        Ok(usize::try_from(room / LARGEST).unwrap_or(usize::MAX).max(1))
    }

    fn memory(&self) -> io::Result<[u32; 9]> {
        let mut memory = [0; 9];
        let mut length = libc::socklen_t::try_from(size_of_val(&memory)).map_err(|_| invalid())?;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
        // SAFETY: `memory` has the stated length, and both outlive the call, which writes them.
        from_minus_one(unsafe {
            libc::getsockopt(self.0.as_raw_fd(), level, option, memory.as_mut_ptr().cast(), &raw mut length)
        })?;
        Ok(memory)
    }

    /// Sends up to [`BATCH`] frames by one system call. Does not wait. Returns how many of them were accepted, counted from the first.
    ///
    /// # Errors
    /// Why the first frame was refused. ENOBUFS, EAGAIN: the interface's queue is full, or the socket's. ENETDOWN: it is down. ENXIO,
    /// ENODEV: it is gone.
    pub(crate) fn send(&self, frames: &[Frame]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(BATCH)];
        // SAFETY: frames are integers and bytes, all of which may be zero.
        let mut raws: [libc::canfd_frame; BATCH] = unsafe { zeroed() };
        // SAFETY: these are lengths and pointers, all of which may be zero; each that is used is set below.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: likewise; a header that is all zero has no address and no data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for (((header, part), raw), frame) in headers.iter_mut().zip(&mut parts).zip(&mut raws).zip(frames) {
            let length;
            (*raw, length) = frame.raw();
            *part = libc::iovec { iov_base: (&raw mut *raw).cast(), iov_len: length };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let count = libc::c_uint::try_from(frames.len()).map_err(|_| invalid())?;
        // The libc function of this name is not used: on 64 bits musl makes a system call for each frame, because the padding beside the
        // header's lengths may hold random bytes. Here everything that is not set is zero.
        // SAFETY: `count` headers point to one part each, and each part to a frame that is at least as long as the part says; the call
        // reads them, and all outlive it.
        let sent = from_minus_one(unsafe {
            libc::syscall(libc::SYS_sendmmsg, self.0.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT)
        })?;
        Ok(usize::try_from(sent).unwrap_or(0))
    }
}

/// The timestamp of a received message.
fn stamp_of(header: &libc::msghdr) -> Option<Instant> {
    // SAFETY: the kernel has filled in the header and the control messages that it points to.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: it is null or points to a control message, which is still there.
    let control = unsafe { first.as_ref() }?;
    if (control.cmsg_level, control.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: it points to a control message.
    let data = unsafe { libc::CMSG_DATA(control) };
    // SAFETY: a message of this type holds a timespec, which may be unaligned.
    let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
    let (seconds, nanos) = (i128::from(time.tv_sec), i128::from(time.tv_nsec));
    Some(Instant::from_nanos(seconds * i128::from(NANOS_PER_SECOND) + nanos))
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
impl Socket {
    /// Two connected sockets: what one sends, the other receives. They are not CAN sockets, so nothing confirms frames that have left.
    pub(crate) fn pair() -> (Self, Self) {
        let (one, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        (Self(one.into()), Self(other.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::KernelClock;
    use crate::time::Clock;

    fn frame(number: u32, extended: bool, fd: bool, bytes: &[u8]) -> Frame {
        Frame::new(Id { number, extended }, fd, fd, bytes).unwrap()
    }

    fn all(socket: &Socket) -> (Vec<Received>, bool) {
        let mut came = Vec::new();
        let count = socket.receive(|received| came.push(received)).unwrap();
        (came, count < BATCH)
    }

    #[test]
    fn frames_come_as_they_were_sent() {
        let (one, other) = Socket::pair();
        assert_eq!(all(&other), (vec![], true), "it does not wait");
        let long: Vec<u8> = (0..64).collect();
        let sent = [
            frame(0x7ff, false, false, &[1, 2, 3]),
            frame(0x7ff, true, false, &[]),
            frame(0x1fff_ffff, true, true, &long),
        ];
        assert_eq!(one.send(&sent).unwrap(), 3);
        assert_eq!(all(&other), (sent.map(Received::Frame).to_vec(), true));
        let many: Vec<Frame> = (0..40).map(|id| frame(id, false, false, &[])).collect();
        assert_eq!(one.send(&many).unwrap(), BATCH, "a call takes so many");
        assert_eq!(one.send(&many[BATCH..]).unwrap(), 8);
        let (came, emptied) = all(&other);
        assert_eq!((came.len(), emptied), (BATCH, false));
        assert_eq!(all(&other), (many[BATCH..].iter().copied().map(Received::Frame).collect(), true));
        assert_eq!(other.dropped().unwrap(), 0);
        assert!(other.fewest_that_fill().unwrap() > 0);
    }

    #[test]
    fn a_frame_has_the_time_at_which_it_came() {
        let (one, other) = Socket::pair();
        let mut stamps = Vec::new();
        let mut receive = |socket: &Socket| socket.receive_dated(|_, stamp| stamps.push(stamp)).unwrap();
        one.send(&[frame(1, false, false, &[])]).unwrap();
        receive(&other);
        other.stamp().unwrap();
        let before = KernelClock::realtime().now();
        one.send(&[frame(2, false, false, &[]), frame(3, false, false, &[])]).unwrap();
        let after = KernelClock::realtime().now();
        receive(&other);
        assert_eq!((stamps.len(), stamps[0]), (3, None), "not asked for");
        let is_between = |stamp: &Option<Instant>| stamp.is_some_and(|stamp| before <= stamp && stamp <= after);
        assert!(stamps[1..].iter().all(is_between) && stamps[1] <= stamps[2], "{before:?} {stamps:?} {after:?}");
    }

    #[test]
    fn errors_are_told_from_frames_and_remote_requests_are_left_out() {
        let (one, other) = Socket::pair();
        let of = |word: u32| {
            let (mut raw, length) = frame(0, false, false, &[]).raw();
            raw.can_id = word;
            // SAFETY: the first `length` bytes of a frame are read, all of which were set.
            let bytes = unsafe { std::slice::from_raw_parts((&raw const raw).cast::<u8>(), length) };
            let socket = std::os::unix::net::UnixDatagram::from(one.0.try_clone().unwrap());
            socket.send(bytes).unwrap();
            socket.send(&bytes[..7]).unwrap(); // no frame
            all(&other).0
        };
        assert_eq!(of(libc::CAN_ERR_FLAG | 4), [Received::Error]);
        assert_eq!(of(libc::CAN_RTR_FLAG | 0x123), []);
        assert_eq!(of(0x123), [Received::Frame(frame(0x123, false, false, &[]))]);
    }

    #[test]
    fn an_interface_is_found_by_its_name_and_by_its_number() {
        // Any kind of socket works here, even if the kernel has no CAN.
        let socket = Socket(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into());
        let found = socket.interface("lo").unwrap();
        assert_eq!((found.name.as_str(), found.fd, found.is_up), ("lo", true, true));
        assert_eq!(socket.interface_at(found.index).unwrap(), found);
        assert_eq!(socket.interface_at(i32::MAX).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        // Without CAN in the kernel no socket can be created.
        let refused = |name: &str| Socket::new().and_then(|socket| socket.interface(name)).unwrap_err().raw_os_error();
        for name in ["no-such-can", "a name that is longer than any"] {
            let errno = refused(name);
            assert!([libc::ENODEV, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT].map(Some).contains(&errno), "{errno:?}");
        }
    }
}
