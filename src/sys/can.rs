//! SocketCAN: raw sockets that receive and send frames of one interface, and never wait.
//!
//! [`Socket::receive`] and [`Socket::send`] are meant for the hot thread: they allocate nothing. Up to [`BATCH`] frames take one system
//! call. No capability is needed.

use super::{from_minus_one, invalid};
use std::fmt;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The most frames that one system call takes.
pub(crate) const BATCH: usize = 32;

/// The most bytes of data in a frame, of CAN FD.
pub(crate) const LONGEST: usize = 64;

/// The most ids that a socket can ask for.
pub(crate) const MOST_IDS: usize = 512; // CAN_RAW_FILTER_MAX

/// What the kernel is asked for as the room of a receive queue, in bytes; it gives what `net.core.rmem_max` allows.
const ROOM: libc::c_int = 1 << 20;

/// The id of a frame: 11 bits, or 29 of an extended one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) number: u32,
    pub(crate) extended: bool,
}

impl Id {
    /// As the kernel writes it.
    const fn word(self) -> libc::canid_t {
        match self.extended {
            true => self.number & libc::CAN_EFF_MASK | libc::CAN_EFF_FLAG,
            false => self.number & libc::CAN_SFF_MASK,
        }
    }

    const fn of(word: libc::canid_t) -> Self {
        let extended = word & libc::CAN_EFF_FLAG != 0;
        Self { number: word & if extended { libc::CAN_EFF_MASK } else { libc::CAN_SFF_MASK }, extended }
    }
}

/// With as many digits as tell an extended id from another one: `0x181`, `0x00000181`.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extended {
            true => write!(f, "0x{:08x}", self.number),
            false => write!(f, "0x{:03x}", self.number),
        }
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Id,
    /// Of CAN FD; else it has up to 8 bytes.
    pub(crate) fd: bool,
    /// Of CAN FD: the data go at the higher bit rate.
    pub(crate) bit_rate_switch: bool,
    pub(crate) length: u8, // of the data
    pub(crate) data: [u8; LONGEST],
}

impl Frame {
    /// A frame with these data. `None`: they are too long for one.
    pub(crate) fn new(id: Id, fd: bool, bit_rate_switch: bool, bytes: &[u8]) -> Option<Self> {
        let mut data = [0; LONGEST];
        data.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let length = u8::try_from(bytes.len()).ok().filter(|length| fd || *length <= 8)?;
        Some(Self { id, fd, bit_rate_switch: fd && bit_rate_switch, length, data })
    }

    /// Its data.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[..usize::from(self.length).min(LONGEST)]
    }

    /// What the kernel calls it, and how long that is.
    fn raw(&self) -> (libc::canfd_frame, usize) {
        // SAFETY: a frame is integers and bytes, of which all may be zero.
        let mut raw: libc::canfd_frame = unsafe { zeroed() };
        (raw.can_id, raw.len, raw.data) = (self.id.word(), self.length, self.data);
        if self.bit_rate_switch {
            raw.flags = BRS;
        }
        (raw, if self.fd { libc::CANFD_MTU } else { libc::CAN_MTU })
    }
}

/// As candump and cansend write it: `181#0102`, of CAN FD `181##10102`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Id { number, extended } = self.id;
        match extended {
            true => write!(f, "{number:08X}#")?,
            false => write!(f, "{number:03X}#")?,
        }
        if self.fd {
            write!(f, "#{}", u8::from(self.bit_rate_switch))?;
        }
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

const BRS: u8 = 1; // CANFD_BRS, which libc has as an int

/// What came out of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A frame of another socket or another node.
    Frame(Frame),
    /// One that this socket sent has left.
    Sent(Id),
    /// The interface reports an error of the bus or of itself.
    Error,
}

/// What one call of [`Socket::receive`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Nothing was left in the queue.
    pub(crate) emptied: bool,
    /// So many frames found no room in the queue since the socket was opened, modulo 2³²; `None`: not said.
    pub(crate) dropped: Option<u32>,
}

/// What an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    index: libc::c_int,
    /// It takes frames of CAN FD.
    pub(crate) fd: bool,
    pub(crate) is_up: bool,
}

/// What a socket is to receive and send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Frames with these ids, but no remote requests.
    pub(crate) ids: &'a [Id],
    /// What the interface reports about errors.
    pub(crate) errors: bool,
    /// Word of each own frame that has left.
    pub(crate) own: bool,
    /// Frames of CAN FD as well.
    pub(crate) fd: bool,
}

/// A raw socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// Room for what comes beside a frame.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

impl Socket {
    /// A socket without an interface. EAFNOSUPPORT, EPROTONOSUPPORT: this kernel has no CAN, or this process may not use it.
    pub(crate) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the arguments are numbers; no memory is involved.
        let fd = from_minus_one(unsafe { libc::socket(libc::AF_CAN, kind, libc::CAN_RAW) })?;
        // SAFETY: it was just opened, and nothing else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Looks an interface up. ENODEV: there is none of this name.
    pub(crate) fn interface(&self, name: &str) -> io::Result<Interface> {
        // SAFETY: the structure is a name and a union of integers, of which all may be zero.
        let mut request: libc::ifreq = unsafe { zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed() as libc::c_char;
        }
        self.ask(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX has filled in this field of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has filled in this field of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        self.ask(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled in this field of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        let fd = usize::try_from(mtu).is_ok_and(|mtu| mtu >= libc::CANFD_MTU);
        Ok(Interface { index, fd, is_up: libc::c_int::from(flags) & libc::IFF_UP != 0 })
    }

    fn ask(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: each of these requests reads the name in `request` and writes a number into it; it outlives the call.
        from_minus_one(unsafe { libc::ioctl(self.0.as_raw_fd(), what as _, &raw mut *request) })?;
        Ok(())
    }

    /// Receives from and sends to this interface from now on. ENODEV: it is no CAN interface. EINVAL: too many ids.
    pub(crate) fn bind(&self, interface: Interface, wanted: Wanted<'_>) -> io::Result<()> {
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
        self.set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &[on(true)])?;
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &[ROOM])?;
        // SAFETY: the structure is integers and a union of them, of which all may be zero.
        let mut address: libc::sockaddr_can = unsafe { zeroed() };
        address.can_family = libc::sa_family_t::try_from(libc::AF_CAN).unwrap_or_default();
        address.can_ifindex = interface.index;
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_can>()).map_err(|_| invalid())?;
        // SAFETY: the address is as long as is said, and outlives the call, which reads it.
        from_minus_one(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(())
    }

    fn set<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: &[T]) -> io::Result<()> {
        let length = libc::socklen_t::try_from(size_of_val(value)).map_err(|_| invalid())?;
        // SAFETY: `value` is as long as is said, and outlives the call, which reads it.
        from_minus_one(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value.as_ptr().cast(), length) })?;
        Ok(())
    }

    /// Takes up to [`BATCH`] frames out of the receive queue, the oldest first. Does not wait.
    ///
    /// # Errors
    /// What the interface has come to: ENETDOWN, ENODEV. An error is reported once.
    pub(crate) fn receive(&self, mut each: impl FnMut(Received)) -> io::Result<Round> {
        // SAFETY: frames are integers and bytes, of which all may be zero.
        let mut frames: [libc::canfd_frame; BATCH] = unsafe { zeroed() };
        let mut controls = [Control([0; 64]); BATCH];
        // SAFETY: these are lengths and pointers, of which all may be zero; each is set below.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: likewise; a header that is all zero has no address and no data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for (((header, part), frame), control) in headers.iter_mut().zip(&mut parts).zip(&mut frames).zip(&mut controls)
        {
            *part = libc::iovec { iov_base: (&raw mut *frame).cast(), iov_len: size_of::<libc::canfd_frame>() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut *control).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        let count = libc::c_uint::try_from(BATCH).map_err(|_| invalid())?;
        // SAFETY: each of the headers, whose number is said, points to one part and to room for control data of the length that it says,
        // and the part to a frame of the length that it says; all outlive the call, and nothing else refers to them meanwhile.
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
        let mut dropped = None;
        for (header, frame) in headers[..count].iter().zip(&frames) {
            dropped = overflow(&header.msg_hdr).or(dropped);
            if let Some(received) = understood(header, frame) {
                each(received);
            }
        }
        Ok(Round { emptied: count < BATCH, dropped })
    }

    /// Sends frames, up to [`BATCH`] of them by one system call. Does not wait. Returns how many of them were taken, from the first on.
    ///
    /// # Errors
    /// Why the first was not. ENOBUFS, EAGAIN: the interface's queue is full, or the socket's. ENETDOWN: it is down. ENXIO, ENODEV: it is gone.
    pub(crate) fn send(&self, frames: &[Frame]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(BATCH)];
        // SAFETY: frames are integers and bytes, of which all may be zero.
        let mut raws: [libc::canfd_frame; BATCH] = unsafe { zeroed() };
        // SAFETY: these are lengths and pointers, of which all may be zero; each that is used is set below.
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
        // SAFETY: as many headers as are said point to one part each, and that to a frame which is at least as long as the part says;
        // the call reads them, and all outlive it.
        let sent = from_minus_one(unsafe {
            libc::sendmmsg(self.0.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
        })?;
        Ok(usize::try_from(sent).unwrap_or(0))
    }
}

/// What the kernel says of frames that found no room in the queue before this one.
fn overflow(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: the kernel has filled in the control data and their length, which lie in memory that is still there.
    let beside = unsafe { libc::CMSG_FIRSTHDR(header) };
    if beside.is_null() {
        return None;
    }
    // SAFETY: it is not null, so a whole header is there.
    let facts = unsafe { beside.read_unaligned() };
    if facts.cmsg_level != libc::SOL_SOCKET || facts.cmsg_type != libc::SO_RXQ_OVFL {
        return None;
    }
    // SAFETY: it points to a whole header, whose data follow it.
    let count = unsafe { libc::CMSG_DATA(beside) }.cast::<u32>();
    // SAFETY: data of this type are 32 bits, which the kernel has written there.
    Some(unsafe { count.read_unaligned() })
}

/// What a message is; `None`: no frame.
fn understood(header: &libc::mmsghdr, raw: &libc::canfd_frame) -> Option<Received> {
    let size = usize::try_from(header.msg_len).ok()?;
    let fd = size == libc::CANFD_MTU;
    if !fd && size != libc::CAN_MTU {
        return None;
    }
    let id = Id::of(raw.can_id);
    if raw.can_id & libc::CAN_ERR_FLAG != 0 {
        return Some(Received::Error);
    }
    if raw.can_id & libc::CAN_RTR_FLAG != 0 {
        return None;
    }
    if header.msg_hdr.msg_flags & libc::MSG_CONFIRM != 0 {
        return Some(Received::Sent(id));
    }
    let length = raw.len.min(if fd { 64 } else { 8 });
    Some(Received::Frame(Frame { id, fd, bit_rate_switch: fd && raw.flags & BRS != 0, length, data: raw.data }))
}

/// Sends one frame by a socket of its own: from any thread, at any time.
///
/// # Errors
/// There is no such interface, it is down, or its queue is full.
pub(crate) fn send_once(interface: &str, frame: &Frame) -> io::Result<()> {
    let socket = Socket::new()?;
    let found = socket.interface(interface)?;
    if frame.fd && !found.fd {
        return Err(io::Error::other(format!("{interface} takes no frames of CAN FD")));
    }
    socket.bind(found, Wanted { ids: &[], errors: false, own: false, fd: frame.fd })?;
    socket.send(&[*frame]).map(drop)
}

#[cfg(test)]
impl Socket {
    /// Two ends of one: what goes in here comes out there. Not of CAN, so no word comes of what has left.
    pub(crate) fn pair() -> (Self, Self) {
        let (one, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        (Self(one.into()), Self(other.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u32, extended: bool, fd: bool, bytes: &[u8]) -> Frame {
        Frame::new(Id { number, extended }, fd, fd, bytes).unwrap()
    }

    fn all(socket: &Socket) -> (Vec<Received>, bool) {
        let mut came = Vec::new();
        let round = socket.receive(|received| came.push(received)).unwrap();
        (came, round.emptied)
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
    }

    #[test]
    fn errors_are_told_from_frames_and_remote_requests_are_left_out() {
        let (one, other) = Socket::pair();
        let of = |word: u32| {
            let (mut raw, length) = frame(0, false, false, &[]).raw();
            raw.can_id = word;
            // SAFETY: of a frame the first `length` bytes are read, all of which were set.
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
    fn frames_are_written_as_cansend_takes_them() {
        assert_eq!(frame(0x81, false, false, &[1, 0xab]).to_string(), "081#01AB");
        assert_eq!(frame(0x81, true, true, &[1]).to_string(), "00000081##101");
        let id = Id { number: 1, extended: false };
        assert_eq!([Frame::new(id, false, false, &[0; 9]), Frame::new(id, true, false, &[0; 65])], [None, None]);
    }

    #[test]
    fn ids_are_written_as_the_kernel_does() {
        for (number, extended, word, text) in [
            (0x181, false, 0x181, "0x181"),
            (0x181, true, 0x8000_0181, "0x00000181"),
            (0x1abc_def0, true, 0x9abc_def0, "0x1abcdef0"),
        ] {
            let id = Id { number, extended };
            assert_eq!((id.word(), Id::of(word), id.to_string()), (word, id, text.to_owned()));
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        // Where the kernel has no CAN there is no socket.
        let refused = |name: &str| Socket::new().and_then(|socket| socket.interface(name)).unwrap_err().raw_os_error();
        for name in ["no-such-can", "a name that is longer than any"] {
            let errno = refused(name);
            assert!([libc::ENODEV, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT].map(Some).contains(&errno), "{errno:?}");
        }
    }
}
