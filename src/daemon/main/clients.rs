//! The current readers of the status socket. Their number is limited, in total and per user, so that no one can use up the daemon's
//! descriptors and threads or keep others from their answer. Nothing is read from them; writes have a time limit.

use crate::sys::clock::KernelClock;
use crate::sys::thread::helper;
use crate::sys::{descriptors, peer};
use crate::time::{Clock, Span};
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a reader may accept no data, and how long its whole answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
const SENT_WITHIN: Span = Span::from_seconds(10);

/// Maximum and minimum number of clients at a time: an eighth of the daemon's descriptors, within these limits. Up to `SLOW` slow clients
/// get the rest of their answer from a thread of their own; further ones get a truncated answer. One user gets at most half of each.
const MOST: u64 = 256;
const FEWEST: u64 = 4;
const SLOW: usize = 32;

/// Enough stack for a system call. It counts as locked memory.
const STACK: usize = 128 << 10;

#[derive(Debug)]
pub(crate) struct Clients {
    most: usize,
    by_user: Mutex<HashMap<u32, Counts>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    open: usize,
    slow: usize,
}

/// A connection that was admitted.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    user: u32,
    slow: bool,
    among: Arc<Clients>,
}

impl Clients {
    pub(crate) fn new() -> Self {
        let most = descriptors::limit().map_or(FEWEST, |limit| (limit / 8).clamp(FEWEST, MOST));
        Self::of(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Admits at most `most` clients at a time.
    pub(crate) fn of(most: usize) -> Self {
        Self { most, by_user: Mutex::default() }
    }

    /// Admits the connection. `None`: it is closed, because there is no place left, or none for its user.
    pub(crate) fn take(self: &Arc<Self>, stream: UnixStream) -> Option<Client> {
        let user = peer::user(&stream).ok()?;
        let mut counts = self.counts();
        let all: usize = counts.values().map(|counts| counts.open).sum();
        let own = counts.entry(user).or_default();
        if all >= self.most || own.open >= self.most / 2 {
            return None;
        }
        own.open += 1;
        Some(Client { stream, user, slow: false, among: self.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<u32, Counts>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Sends what the reader accepts at once, and the rest on another thread. Then closes the connection.
    pub(crate) fn send(mut self, text: &Arc<String>) {
        // On an error below, the reader has gone or accepts nothing. Either way the connection ends.
        let now = self.stream.set_nonblocking(true).and_then(|()| self.stream.write(text.as_bytes()));
        let sent = now.unwrap_or(0);
        if sent == text.len() || self.stream.set_nonblocking(false).is_err() || !self.is_let_be_slow() {
            return;
        }
        let text = text.clone();
        // If the thread cannot be made, the connection is dropped.
        let _ =
            helper::spawn_with_stack("hertzd-status", STACK, move || drop(self.send_rest(&text.as_bytes()[sent..])));
    }

    fn is_let_be_slow(&mut self) -> bool {
        let mut counts = self.among.counts();
        let all: usize = counts.values().map(|counts| counts.slow).sum();
        let own = counts.entry(self.user).or_default();
        self.slow = all < SLOW && own.slow < SLOW / 2;
        own.slow += usize::from(self.slow);
        self.slow
    }

    fn send_rest(&mut self, mut rest: &[u8]) -> io::Result<()> {
        let clock = KernelClock::monotonic();
        let end = clock.now() + SENT_WITHIN;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        while !rest.is_empty() && clock.now() < end {
            // Write in small pieces: a reader that takes a byte now and then could keep one large write from ever returning.
            let count = self.stream.write(&rest[..rest.len().min(1 << 16)])?;
            rest = &rest[count..];
        }
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut counts = self.among.counts();
        if let Some(own) = counts.get_mut(&self.user) {
            own.open -= 1;
            own.slow -= usize::from(self.slow);
            if own.open == 0 {
                counts.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_gets_half_of_the_places_and_they_come_back() {
        let readers = Arc::new(Clients { most: 8, by_user: Mutex::default() });
        let (own, _other) = UnixStream::pair().unwrap();
        let take = || readers.take(own.try_clone().unwrap());
        let mut all: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(all.len(), 4);
        // Pretend they belong to another user.
        let moved = readers.counts().remove(&all[0].user).unwrap();
        readers.counts().insert(u32::MAX, moved);
        all.iter_mut().for_each(|reader| reader.user = u32::MAX);
        let more: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(more.len(), 4);
        assert!(take().is_none());
        drop((all, more));
        assert!(readers.counts().is_empty() && take().is_some());
    }
}
