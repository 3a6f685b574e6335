//! Messages to the service manager (sd_notify): ready, status, reloading, stopping, alive.
//!
//! Without `NOTIFY_SOCKET` nothing is sent and nothing fails. A message is one datagram, and sending never waits. If the manager's socket
//! is full, a change of state is kept until [`retry`] or the next message. A status line or a sign of life is dropped instead, because a
//! newer one follows.

use super::clock::KernelClock;
use crate::time::{Clock, Span};
use sd_notify::NotifyState;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// Changes of state that the manager has not accepted yet, the oldest first. One list per process: the manager sees one service, whose
/// messages must arrive in order whichever of its daemons sends them.
static UNSENT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tells the service manager that the service is up, with a status line.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(crate) fn status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// Whether a service manager listens.
pub(crate) fn is_heard() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Tells the service manager that the start or the stop is still in progress, and asks it to wait `longer` from now before it gives up.
pub(crate) fn extend_timeout(status: &str, longer: Span) {
    let micros = u32::try_from(longer.nanos() / 1_000).unwrap_or(u32::MAX);
    send(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status(status)]);
}

/// Tells the service manager that a reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    // In one datagram, as the manager requires: the time must belong to this message. The crate's own time is not used: on 32 bits it
    // overflows 36 minutes after boot.
    let now = KernelClock::monotonic().now().nanos() / 1_000;
    send(&[NotifyState::Reloading, NotifyState::MonotonicUsec(now)]);
}

pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

pub(crate) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// How often the service manager expects [`alive`]; `None`: it has no watchdog.
pub(crate) fn watchdog_interval() -> Option<Span> {
    let interval = sd_notify::watchdog_enabled()?;
    Some(Span::from_wide(i128::try_from(interval.as_nanos()).unwrap_or(i128::MAX)))
}

/// Sends the messages that the manager has not accepted yet.
pub(crate) fn retry() {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        flush(&socket, &mut UNSENT.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn send(states: &[NotifyState<'_>]) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let message: String = states.iter().map(|state| format!("{state}\n")).collect();
    let keep =
        states.iter().any(|state| matches!(state, NotifyState::Ready | NotifyState::Reloading | NotifyState::Stopping));
    offer(&socket, message, keep, &mut UNSENT.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Sends `message` after the waiting ones. If that fails, keeps it if `keep` is set.
fn offer(socket: &OsStr, message: String, keep: bool, unsent: &mut Vec<String>) {
    flush(socket, unsent);
    if keep {
        // Only the newest of each kind matters: successive reloads do not pile up.
        unsent.retain(|waiting| waiting.lines().next() != message.lines().next());
        unsent.push(message);
        flush(socket, unsent);
    } else if unsent.is_empty() {
        let _ = send_to(socket, &message);
    }
}

fn flush(socket: &OsStr, unsent: &mut Vec<String>) {
    // Only a full socket is worth another try: a manager that has gone does not come back.
    let full =
        |message: &String| send_to(socket, message).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    let sent = unsent.iter().position(full).unwrap_or(unsent.len());
    unsent.drain(..sent);
}

fn send_to(socket: &OsStr, message: &str) -> io::Result<usize> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(message.as_bytes(), &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_socket_delays_changes_of_state_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = path.as_os_str();
        let mut filled = 0;
        while send_to(socket, "WATCHDOG=1\n").is_ok() {
            filled += 1;
        }
        let mut unsent = Vec::new();
        offer(socket, "READY=1\nSTATUS=old\n".into(), true, &mut unsent);
        offer(socket, "READY=1\n".into(), true, &mut unsent);
        offer(socket, "STATUS=dropped\n".into(), false, &mut unsent);
        offer(socket, "STOPPING=1\n".into(), true, &mut unsent);
        assert_eq!(unsent, ["READY=1\n", "STOPPING=1\n"]);
        let next = || {
            let mut message = [0; 32];
            let length = manager.recv(&mut message).unwrap();
            String::from_utf8_lossy(&message[..length]).into_owned()
        };
        assert!((0..filled).all(|_| next() == "WATCHDOG=1\n"));
        flush(socket, &mut unsent);
        assert!(unsent.is_empty());
        assert_eq!([next(), next()], ["READY=1\n", "STOPPING=1\n"]);
        offer(socket, "STATUS=well\n".into(), false, &mut unsent);
        assert_eq!(next(), "STATUS=well\n");
    }
}
