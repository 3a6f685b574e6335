//! SocketCAN: raw sockets that receive and send frames of one interface without waiting. Up to [`BATCH`] frames take one system call. No
//! capability is needed. Only [`send_once`] waits.

mod frame;
mod socket;

use super::clock::KernelClock;
use super::fd::is_readable;
use crate::time::{Clock, Span};
pub(crate) use frame::{Frame, Id, LONGEST, Received};
pub(crate) use socket::{BATCH, Interface, Socket, Wanted};
use std::io;

/// The most ids that a socket can filter for.
pub(crate) const MOST_IDS: usize = 512; // CAN_RAW_FILTER_MAX

/// How long [`send_once`] waits for the confirmation of its frame in all, and for how long at a time.
pub(crate) const PATIENCE: Span = Span::from_millis(100);
const LOOK: Span = Span::from_millis(5);

/// Whether the kernel accepts the name for an interface. Names with control characters are excluded too: no one uses them on purpose.
pub(crate) fn is_interface(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && ![".", ".."].contains(&name)
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control())
}

/// Sends one frame through a socket of its own, to the interface that `find` returns. May be called from any thread, at any time. Waits up
/// to `patience` for the confirmation that the frame has left; a failed wait uses `patience` up. The kernel accepts even a frame that it
/// drops at once, or that no one on the bus acknowledges.
///
/// # Errors
/// The interface does not exist, is down, or its queue is full. `TimedOut`: no confirmation came; the frame may still leave later.
pub(crate) fn send_once(
    find: impl FnOnce(&Socket) -> io::Result<Interface>,
    frame: &Frame,
    patience: &mut Span,
) -> io::Result<()> {
    let socket = Socket::new()?;
    let found = find(&socket)?;
    if frame.fd && !found.fd {
        return Err(io::Error::other(format!("{} takes no frames of CAN FD", found.name)));
    }
    socket.bind(&found, Wanted { ids: &[frame.id], errors: false, own: true, fd: frame.fd })?;
    socket.send(&[*frame])?;
    match found.has_carrier && has_left(&socket, frame.id, patience)? {
        true => Ok(()),
        false => {
            let why = "no word has come that the frame left: the controller is off the bus, or no one on it acknowledges frames";
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        }
    }
}

fn has_left(socket: &Socket, id: Id, patience: &mut Span) -> io::Result<bool> {
    let clock = KernelClock::monotonic();
    let end = clock.now() + *patience;
    loop {
        let is_last = clock.now() >= end;
        let mut left = false;
        socket.receive(|received| left |= received == Received::Sent(id))?;
        if left {
            return Ok(true);
        }
        if is_last {
            *patience = Span::ZERO;
            return Ok(false);
        }
        is_readable(socket, LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_which_no_word_comes_has_not_left() {
        let (one, other) = Socket::pair(); // which never confirm anything
        let id = Id { number: 1, extended: false };
        one.send(&[Frame::new(id, false, false, &[]).unwrap()]).unwrap();
        for socket in [&one, &other] {
            let mut patience = PATIENCE;
            assert!(!has_left(socket, id, &mut patience).unwrap(), "a frame of another is no word");
            assert!(patience <= Span::ZERO, "it has waited, and a next one does not");
        }
    }
}
