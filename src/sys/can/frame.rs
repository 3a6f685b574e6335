//! A frame, in the kernel's layout and in text. Pure.

use std::fmt;
use std::mem::{offset_of, zeroed};

/// The most data bytes in a frame, that of CAN FD.
pub(crate) const LONGEST: usize = 64;

/// A frame's id: 11 bits, or 29 in an extended frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) number: u32,
    pub(crate) extended: bool,
}

impl Id {
    /// The id in the kernel's layout.
    pub(super) const fn word(self) -> libc::canid_t {
        match self.extended {
            true => self.number & libc::CAN_EFF_MASK | libc::CAN_EFF_FLAG,
            false => self.number & libc::CAN_SFF_MASK,
        }
    }

    pub(super) const fn of(word: libc::canid_t) -> Self {
        let extended = word & libc::CAN_EFF_FLAG != 0;
        Self { number: word & if extended { libc::CAN_EFF_MASK } else { libc::CAN_SFF_MASK }, extended }
    }
}

/// With enough digits to tell an extended id from a standard one: `0x181`, `0x00000181`.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extended {
            true => write!(f, "0x{:08x}", self.number),
            false => write!(f, "0x{:03x}", self.number),
        }
    }
}

/// A CAN frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Id,
    /// A CAN FD frame; otherwise it has up to 8 data bytes.
    pub(crate) fd: bool,
    /// CAN FD only: the data is sent at the higher bit rate.
    pub(crate) bit_rate_switch: bool,
    pub(crate) length: u8, // of the data
    pub(crate) data: [u8; LONGEST],
}

impl Frame {
    /// A frame with this data. `None`: the data is too long.
    pub(crate) fn new(id: Id, fd: bool, bit_rate_switch: bool, bytes: &[u8]) -> Option<Self> {
        let mut data = [0; LONGEST];
        data.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let length = u8::try_from(bytes.len()).ok().filter(|length| fd || *length <= 8)?;
        Some(Self { id, fd, bit_rate_switch: fd && bit_rate_switch, length, data })
    }

    /// The data bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[..usize::from(self.length).min(LONGEST)]
    }

    /// The frame in the kernel's layout, and its length in bytes.
    pub(super) fn raw(&self) -> (libc::canfd_frame, usize) {
        // SAFETY: a frame is integers and bytes, all of which may be zero.
        let mut raw: libc::canfd_frame = unsafe { zeroed() };
        (raw.can_id, raw.len, raw.data) = (self.id.word(), self.length, self.data);
        if self.bit_rate_switch {
            raw.flags = BRS;
        }
        (raw, if self.fd { libc::CANFD_MTU } else { libc::CAN_MTU })
    }
}

/// In the notation of candump and cansend: `181#0102`, for CAN FD `181##10102`.
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

// The kernel's layouts.
const _: () = {
    assert!(size_of::<libc::can_frame>() == libc::CAN_MTU && libc::CAN_MTU == 16);
    assert!(size_of::<libc::canfd_frame>() == libc::CANFD_MTU && libc::CANFD_MTU == 72);
    assert!(offset_of!(libc::canfd_frame, len) == 4 && offset_of!(libc::canfd_frame, data) == 8);
};

const BRS: u8 = 1; // CANFD_BRS, which is an int in libc

/// What came out of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A frame from another socket or another node.
    Frame(Frame),
    /// A frame sent by this socket has left.
    Sent(Id),
    /// The interface reports an error of the bus or of itself.
    Error,
}

/// Interprets a received message; `None`: not a data frame.
pub(super) fn understood(header: &libc::mmsghdr, raw: &libc::canfd_frame) -> Option<Received> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u32, extended: bool, fd: bool, bytes: &[u8]) -> Frame {
        Frame::new(Id { number, extended }, fd, fd, bytes).unwrap()
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
}
