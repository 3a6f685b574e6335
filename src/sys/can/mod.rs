//! SocketCAN: raw sockets that receive and send frames of one interface, and never wait. Up to [`BATCH`] frames take one system call. No
//! capability is needed.

mod frame;
mod socket;

pub(crate) use frame::{Frame, Id, LONGEST, Received};
pub(crate) use socket::{BATCH, Socket, Wanted};
use std::io;

/// The most ids that a socket can ask for.
pub(crate) const MOST_IDS: usize = 512; // CAN_RAW_FILTER_MAX

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
