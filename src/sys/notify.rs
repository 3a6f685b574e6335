//! Messages to the service manager (sd_notify): ready, status, reloading, stopping, alive.
//!
//! Without `NOTIFY_SOCKET` nothing is sent and nothing fails. A message is one datagram. Where the manager's socket is full
//! it waits for a second at most, and is then lost.

use crate::time::Span;
use sd_notify::NotifyState;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long a message waits for room in the manager's socket.
const PATIENCE: Duration = Duration::from_secs(1);

/// Notifies the service manager that the service is up, with a line on how it is.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(crate) fn status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// Notifies the service manager that the start or the stop goes on, and asks it to wait for `longer` from now before it
/// gives up.
pub(crate) fn extend_timeout(status: &str, longer: Span) {
    let micros = u32::try_from(longer.nanos() / 1_000).unwrap_or(u32::MAX);
    send(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status(status)]);
}

/// Notifies the service manager that a reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    // In one datagram, as the manager wants it: the time must belong to this message.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

pub(crate) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// How often the service manager wants to hear [`alive`]; `None`: it does not watch.
pub(crate) fn watchdog_interval() -> Option<Span> {
    let interval = sd_notify::watchdog_enabled()?;
    Some(Span::from_wide(i128::try_from(interval.as_nanos()).unwrap_or(i128::MAX)))
}

fn send(states: &[NotifyState<'_>]) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let message: String = states.iter().map(|state| format!("{state}\n")).collect();
    // A manager that takes nothing cannot be notified of that.
    let _ = send_to(&socket, &message, PATIENCE);
}

fn send_to(socket: &OsStr, message: &str, patience: Duration) -> io::Result<usize> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(patience))?;
    sender.send_to_addr(message.as_bytes(), &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_takes_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let send = || send_to(path.as_os_str(), "WATCHDOG=1\n", Duration::from_millis(1));
        let full = std::iter::repeat_with(send).find_map(Result::err).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let mut message = [0; 32];
        let length = manager.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"WATCHDOG=1\n");
        send().unwrap();
    }
}
