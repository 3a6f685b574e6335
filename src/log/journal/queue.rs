//! Entries on their way to the journal: sent at once, or kept in order until that is possible.
//!
//! Only [`Journal::finish`] waits for journald, with a limit. Time comes with the entries and from the kernel. This allocates, locks, and
//! makes system calls.

use super::datagram::Datagram;
use crate::log::{Entry, Message};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::peer::sign_messages;
use crate::time::{Clock, Instant, Span};
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::Level;

/// Time between two attempts in [`Journal::finish`].
const REST: Span = Span::from_millis(5);

/// Limits for the waiting entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The number of entries.
    pub entries: usize,
    /// The bytes of all entries together.
    pub bytes: usize,
}

impl Default for Bounds {
    /// 4,096 entries and 4 MiB: at one event per second, an hour without journald.
    fn default() -> Self {
        Self { entries: 4_096, bytes: 4 << 20 }
    }
}

/// A connection to the journal that never waits.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    socket: UnixDatagram,
    bounds: Bounds,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Datagram>,
    pub(super) bytes: usize, // of all waiting entries
    sent: u64,
    lost: u64,
    unreported: u64, // lost entries; above 0, nothing more is kept until half of the room is free
}

enum Fate {
    Sent,
    Later,
    Never,
}

impl Journal {
    /// A connection to the socket at `path`, which need not exist yet.
    pub(crate) fn new(path: impl Into<PathBuf>, bounds: Bounds) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        // When systemd creates the journal's socket again, it asks for senders only a moment later. The waiting entries arrive in just that
        // moment. Without a sender they would belong to no unit, and `journalctl -u` would not show them.
        sign_messages(&socket)?;
        Ok(Self { path: path.into(), socket, bounds, queue: Mutex::default() })
    }

    /// Sends `entry` after the waiting ones, or keeps it if that is not possible now.
    pub(crate) fn submit(&self, entry: &Entry) {
        let mut datagram = Datagram::new(entry);
        let mut queue = self.queue();
        self.drain(&mut queue, entry.time);
        if !queue.waiting.is_empty() || queue.unreported > 0 {
            queue.keep(datagram, self.bounds);
            return;
        }
        match self.send(&mut datagram) {
            Fate::Sent => queue.sent += 1,
            Fate::Later => queue.keep(datagram, self.bounds),
            Fate::Never => queue.lose(),
        }
    }

    /// Sends as many waiting entries as the journal accepts. `now` is UTC since 1970.
    pub(crate) fn flush(&self, now: Instant) {
        self.drain(&mut self.queue(), now);
    }

    /// Sends waiting entries until none is left or `patience` has passed; the rest is lost.
    pub(crate) fn finish(&self, patience: Span) {
        let clock = KernelClock::monotonic();
        let end = clock.now() + patience;
        loop {
            self.flush(KernelClock::realtime().now());
            let mut queue = self.queue();
            if queue.waiting.is_empty() && queue.unreported == 0 {
                return;
            }
            if clock.now() >= end {
                queue.lost += queue.waiting.len() as u64;
                queue.unreported += queue.waiting.len() as u64;
                queue.waiting.clear();
                queue.bytes = 0;
                return;
            }
            drop(queue);
            pause(REST);
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.queue().sent
    }

    pub(crate) fn lost(&self) -> u64 {
        self.queue().lost
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue().waiting.len()
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends waiting entries, then the report of a loss if there was one and there is room for the report.
    fn drain(&self, queue: &mut Queue, now: Instant) {
        self.send_waiting(queue);
        let half = Bounds { entries: self.bounds.entries / 2, bytes: self.bounds.bytes / 2 };
        if queue.unreported > 0 && queue.waiting.len() <= half.entries && queue.bytes <= half.bytes {
            let datagram = Datagram::new(&entries_lost(queue.unreported, now));
            queue.unreported = 0;
            // It belongs between the last entry before the loss and the first after it.
            queue.keep(datagram, self.bounds);
            self.send_waiting(queue);
        }
    }

    fn send_waiting(&self, queue: &mut Queue) {
        while let Some(mut datagram) = queue.waiting.pop_front() {
            queue.bytes -= datagram.bytes.len();
            match self.send(&mut datagram) {
                Fate::Sent => queue.sent += 1,
                Fate::Never => queue.lose(),
                Fate::Later => {
                    queue.bytes += datagram.bytes.len();
                    queue.waiting.push_front(datagram);
                    return;
                }
            }
        }
    }

    fn send(&self, datagram: &mut Datagram) -> Fate {
        let mut result = self.socket.send_to(&datagram.bytes, &self.path);
        if let Err(error) = &result
            && too_large(error)
            && datagram.cut()
        {
            result = self.socket.send_to(&datagram.bytes, &self.path);
        }
        match result {
            Ok(_) => Fate::Sent,
            Err(error) if too_large(&error) => Fate::Never,
            // Full (EAGAIN), missing (ENOENT), without a reader (ECONNREFUSED), refused: all of these can pass.
            Err(_) => Fate::Later,
        }
    }
}

fn too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The entry that reports a loss. It does not go through `tracing`: only the journal has lost something.
fn entries_lost(lost: u64, now: Instant) -> Entry {
    let message_id = Message::EntriesLost.id();
    Entry {
        time: now,
        level: Level::WARN,
        message: format!("{lost} log entries lost: the journal did not accept them in time"),
        fields: vec![("message_id", message_id.into()), ("lost", lost.into())],
        source: None,
    }
}

impl Queue {
    fn keep(&mut self, datagram: Datagram, bounds: Bounds) {
        let bytes = self.bytes + datagram.bytes.len();
        if self.unreported > 0 || self.waiting.len() >= bounds.entries || bytes > bounds.bytes {
            self.lose();
        } else {
            self.bytes = bytes;
            self.waiting.push_back(datagram);
        }
    }

    fn lose(&mut self) {
        self.lost += 1;
        self.unreported += 1;
    }
}
