//! What the service manager is told (sd_notify): ready, status, reloading, stopping, alive.
//!
//! Without `NOTIFY_SOCKET` nothing is sent and nothing fails. A message is one datagram to the service manager; sending may
//! block for as long as its socket is full, so this is for main.

use crate::time::Span;
use sd_notify::NotifyState;

/// Tells the service manager that the service is up, with a line on how it is.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells the service manager how the service is, in one line.
pub(crate) fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// Tells the service manager that the start goes on, and to wait for `longer` from now before it gives up.
pub(crate) fn still_starting(status: &str, longer: Span) {
    let micros = u32::try_from(longer.nanos() / 1_000).unwrap_or(u32::MAX);
    tell(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status(status)]);
}

/// Tells the service manager that a reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    // In one datagram, as the manager wants it: the time must belong to this message.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// Tells the service manager that the service is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the service manager's watchdog that the service is alive.
pub(crate) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often the service manager wants to hear [`alive`]; `None`: it does not watch.
pub(crate) fn watchdog_interval() -> Option<Span> {
    let interval = sd_notify::watchdog_enabled()?;
    Some(Span::from_wide(i128::try_from(interval.as_nanos()).unwrap_or(i128::MAX)))
}

fn tell(states: &[NotifyState<'_>]) {
    // There is nobody else to tell that the manager could not be told.
    let _ = sd_notify::notify(states);
}
