//! Entries on their way to the journal: sent at once, or kept in order until they can be.
//!
//! Nothing here waits for journald but [`Journal::finish`], with a limit. Time comes with the entries and from the kernel;
//! it allocates, takes a lock, and makes system calls.

use super::datagram::Datagram;
use crate::log::{Entry, Message};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::Level;

/// Between two offers in [`Journal::finish`].
const REST: Span = Span::from_millis(5);

/// How much may wait in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// This many entries.
    pub entries: usize,
    /// And this many bytes in all of them together.
    pub bytes: usize,
}

impl Default for Bounds {
    /// 4,096 entries and 4 MiB: at one event a second, an hour of a journal that stands still.
    fn default() -> Self {
        Self { entries: 4_096, bytes: 4 << 20 }
    }
}

/// A way into the journal that never waits.
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
    pub(super) bytes: usize, // of all that wait
    sent: u64,
    lost: u64,
    untold: u64, // of those lost; above 0, nothing more is kept until half of the room is free again
}

enum Fate {
    Sent,
    Later,
    Never,
}

impl Journal {
    /// A way to the socket at `path`, which need not be there yet.
    ///
    /// # Errors
    /// Those of making a socket: too many open files, or a sandbox without AF_UNIX.
    pub(crate) fn new(path: impl Into<PathBuf>, bounds: Bounds) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { path: path.into(), socket, bounds, queue: Mutex::default() })
    }

    /// Sends `entry` after all that wait; keeps it if that cannot be done now.
    pub(crate) fn submit(&self, entry: &Entry) {
        let mut datagram = Datagram::new(entry);
        let mut queue = self.queue();
        self.drain(&mut queue, entry.time);
        if !queue.waiting.is_empty() || queue.untold > 0 {
            queue.keep(datagram, self.bounds);
            return;
        }
        match self.send(&mut datagram) {
            Fate::Sent => queue.sent += 1,
            Fate::Later => queue.keep(datagram, self.bounds),
            Fate::Never => queue.lose(),
        }
    }

    /// Offers again what waits, as far as the journal takes it. `now` is UTC since 1970.
    pub(crate) fn flush(&self, now: Instant) {
        self.drain(&mut self.queue(), now);
    }

    /// Goes on offering what waits until it is gone, or `patience` has passed; what is left then is lost.
    pub(crate) fn finish(&self, patience: Span) {
        let clock = KernelClock::monotonic();
        let end = clock.now() + patience;
        loop {
            self.flush(KernelClock::realtime().now());
            let mut queue = self.queue();
            if queue.waiting.is_empty() && queue.untold == 0 {
                return;
            }
            if clock.now() >= end {
                queue.lost += queue.waiting.len() as u64;
                queue.untold += queue.waiting.len() as u64;
                queue.waiting.clear();
                queue.bytes = 0;
                return;
            }
            drop(queue);
            pause(REST);
        }
    }

    /// Entries the journal has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.queue().sent
    }

    /// Entries it will never get.
    pub(crate) fn lost(&self) -> u64 {
        self.queue().lost
    }

    /// Entries kept in memory.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue().waiting.len()
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what waits, then the word of a loss if there is one to tell and room to keep it.
    fn drain(&self, queue: &mut Queue, now: Instant) {
        self.send_waiting(queue);
        let half = Bounds { entries: self.bounds.entries / 2, bytes: self.bounds.bytes / 2 };
        if queue.untold > 0 && queue.waiting.len() <= half.entries && queue.bytes <= half.bytes {
            let datagram = Datagram::new(&entries_lost(queue.untold, now));
            queue.untold = 0;
            // It takes its place between the last entry before the loss and the first after it.
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
        let mut offered = self.socket.send_to(&datagram.bytes, &self.path);
        if let Err(error) = &offered
            && too_large(error)
            && datagram.cut()
        {
            offered = self.socket.send_to(&datagram.bytes, &self.path);
        }
        match offered {
            Ok(_) => Fate::Sent,
            Err(error) if too_large(&error) => Fate::Never,
            // Full (EAGAIN), not there (ENOENT), nobody behind it (ECONNREFUSED), refused: all of that can pass.
            Err(_) => Fate::Later,
        }
    }
}

fn too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The entry that tells of a loss. It does not go through `tracing`: only the journal has lost something.
fn entries_lost(lost: u64, now: Instant) -> Entry {
    let message_id = Message::EntriesLost.id();
    Entry {
        time: now,
        level: Level::WARN,
        message: format!("{lost} entries lost: the journal did not take them in time"),
        fields: vec![("message_id", message_id.into()), ("lost", lost.into())],
        place: None,
    }
}

impl Queue {
    fn keep(&mut self, datagram: Datagram, bounds: Bounds) {
        let bytes = self.bytes + datagram.bytes.len();
        if self.untold > 0 || self.waiting.len() >= bounds.entries || bytes > bounds.bytes {
            self.lose();
        } else {
            self.bytes = bytes;
            self.waiting.push_back(datagram);
        }
    }

    fn lose(&mut self) {
        self.lost += 1;
        self.untold += 1;
    }
}
