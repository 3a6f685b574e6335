//! Asks a daemon once a second, on its own thread: connecting and reading may each block on a daemon that hangs.
//!
//! All viewers on one machine ask at the same instants: whole seconds of the monotonic clock. So one snapshot of the daemon can serve many
//! of them. There is never more than one connection.

use super::super::Stop;
use super::super::socket::{SocketArg, ask};
use crate::snapshot::Summary;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::with_signals_blocked;
use crate::time::{Clock, Instant, NANOS_PER_SECOND, Span};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

/// After this long without an answer, the connection is dropped and a new one made.
pub(super) const PATIENCE: Span = Span::from_seconds(10);

/// Messages from the asking thread.
pub(super) enum Heard {
    /// It is asking now.
    Asks,
    Answer(Result<Box<Summary>, Stop>),
    /// It has ended, which happens only by a panic.
    Nothing,
}

/// The receiving end for the asking thread's messages.
pub(super) struct Asker {
    said: Receiver<Heard>,
}

impl Asker {
    pub(super) fn spawn(socket: SocketArg) -> Result<Self, Stop> {
        let (say, said) = channel();
        let body = move || asking(&socket, &say);
        // Signals go to the drawing thread: after a stop it then knows about SIGCONT before it draws.
        let spawned = with_signals_blocked(|| std::thread::Builder::new().name("asking".into()).spawn(body)).flatten();
        spawned.map_err(|reason| Stop::Fault(format!("cannot start a thread: {reason}")))?;
        Ok(Self { said })
    }

    /// The next message not yet received.
    pub(super) fn heard(&self) -> Option<Heard> {
        match self.said.try_recv() {
            Ok(heard) => Some(heard),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Heard::Nothing),
        }
    }

    /// Waits for the next message, at most this long.
    pub(super) fn wait(&self, patience: Span) -> Option<Heard> {
        match self.said.recv_timeout(Duration::from_nanos(patience.nanos().unsigned_abs())) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Heard::Nothing),
        }
    }
}

/// The thread's body: runs until no one listens any more.
fn asking(socket: &SocketArg, say: &Sender<Heard>) {
    let clock = KernelClock::monotonic();
    loop {
        if say.send(Heard::Asks).is_err() {
            return;
        }
        let answer = ask(socket, Duration::from_nanos(PATIENCE.nanos().unsigned_abs()));
        if say.send(Heard::Answer(answer)).is_err() {
            return;
        }
        let now = clock.now();
        pause(next(now) - now);
    }
}

/// The next whole second.
fn next(now: Instant) -> Instant {
    let second = i128::from(NANOS_PER_SECOND);
    Instant::from_nanos((now.nanos().div_euclid(second) + 1) * second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ask_at_whole_seconds_and_never_twice_in_one() {
        for (now, then) in
            [(0, 1_000_000_000), (1, 1_000_000_000), (999_999_999, 1_000_000_000), (5_000_000_000, 6_000_000_000)]
        {
            assert_eq!(next(Instant::from_nanos(now)), Instant::from_nanos(then));
        }
    }
}
