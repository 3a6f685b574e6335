//! The status socket: sends one JSON snapshot per connection, and never reads anything.
//!
//! Its thread waits in `accept`, asks main for a snapshot, writes it as JSON and closes the connection. All readers that are connected by
//! then get the same one. A slow reader gets the rest from a separate thread, so that it cannot delay others. [`Clients`] limits the number
//! of readers.

use super::clients::{Client, Clients};
use crate::sys::clock::pause;
use crate::sys::dir::{Readers, effective_user};
use crate::sys::entry::Entry;
use crate::sys::lock;
use crate::sys::thread::helper;
use crate::sys::trust;
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde::Serialize;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long main may take for its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Connections accepted at once. Those without a [place](Clients::take) are closed as fast as a flood of them arrives.
const AT_ONCE: usize = 64;

/// Maximum rounds of accepting before the admitted readers are answered: in a flood there are always more.
const ROUNDS: usize = 8;

/// The status socket and its thread. Dropping it removes the socket. Snapshots are of type `S`.
#[derive(Debug)]
pub(crate) struct StatusSocket<S> {
    entry: Entry,
    own: (u64, u64), // device and inode of the socket that was bound
    ending: Arc<AtomicBool>,
    /// Requests for a snapshot, to be sent into the enclosed channel.
    pub(super) queries: Receiver<Sender<S>>,
}

impl<S: Serialize + Send + 'static> StatusSocket<S> {
    /// Listens at `path`, for these readers. Replaces a socket that no one listens on.
    ///
    /// # Errors
    /// The path and the system's reason, or that another process listens there.
    pub(super) fn listen(path: &Path, readers: Readers) -> io::Result<Self> {
        Self::bind(path, readers).map_err(|reason| {
            let text = format!("{}: {reason}; choose another path with --status-socket", path.display());
            io::Error::new(reason.kind(), text)
        })
    }

    fn bind(path: &Path, readers: Readers) -> io::Result<Self> {
        let entry = Entry::find(path)?;
        // If another user could replace a folder on the path, bind through the folder that was opened. Otherwise bind by path, which others
        // can see.
        let is_roots = effective_user() != 0 || trust::lasting(path).is_ok();
        let address = if is_roots { path.to_owned() } else { entry.by_descriptor() };
        let path = &*address;
        // Connecting a datagram socket to a stream socket fails, but shows at once whether one is there. A real connection would wait if
        // the daemon's queue is full.
        let found = UnixDatagram::unbound()?.connect(path).map_err(|error| error.raw_os_error());
        let listens = |who| io::Error::new(io::ErrorKind::AddrInUse, format!("{who} listens there"));
        match found {
            Err(Some(libc::EPROTOTYPE)) if !lock::is_abandoned(path) => return Err(listens("another daemon")),
            Ok(()) => return Err(listens("a program that takes datagrams")),
            _ => {}
        }
        match entry.metadata() {
            Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something else, not a socket"));
            }
            Ok(_) => entry.remove()?, // left by a daemon that was killed
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        let own = device_and_inode(&entry)?;
        entry.folder().share_socket(entry.name(), readers)?;
        let (ask, queries) = unbounded::<Sender<S>>();
        let ending = Arc::new(AtomicBool::new(false));
        let (asked_to_end, places) = (ending.clone(), Arc::new(Clients::new()));
        let body = move || {
            for stream in listener.incoming() {
                if asked_to_end.load(Ordering::Acquire) {
                    return;
                }
                let Ok(first) = stream else {
                    // Probably out of file descriptors. Retrying at once would only burn CPU time.
                    pause(Span::from_millis(100));
                    continue;
                };
                let readers = gathered(&places, first, || waiting(&listener));
                if readers.is_empty() {
                    continue;
                }
                // Don't log here: a log on a slow disk would delay the answer.
                let (reply, answer) = bounded(1);
                if ask.send(reply).is_err() {
                    return;
                }
                let Ok(snapshot) = answer.recv_timeout(ANSWERED_WITHIN) else {
                    continue;
                };
                // Don't do this on main: with thousands of tasks it takes a while.
                let text = serde_json::to_string(&snapshot);
                let text = Arc::new(text.unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}")) + "\n");
                readers.into_iter().for_each(|reader| reader.send(&text));
            }
        };
        helper::spawn("hertzd-status", body)?;
        Ok(Self { entry, own, ending, queries })
    }
}

/// All readers who get the same answer: the first, and others that wait, accepted in batches.
fn gathered(places: &Arc<Clients>, first: UnixStream, mut waiting: impl FnMut() -> Vec<UnixStream>) -> Vec<Client> {
    let mut readers: Vec<_> = places.take(first).into_iter().collect();
    for _ in 0..ROUNDS {
        let more = waiting();
        let all = more.len() < AT_ONCE;
        readers.extend(more.into_iter().filter_map(|stream| places.take(stream)));
        if all || readers.len() >= AT_ONCE {
            break;
        }
    }
    readers
}

/// Other connections that are waiting.
fn waiting(listener: &UnixListener) -> Vec<UnixStream> {
    if listener.set_nonblocking(true).is_err() {
        return Vec::new();
    }
    let streams = listener.incoming().map_while(Result::ok).take(AT_ONCE).collect();
    // If this fails, the next wait returns at once. The pause after an error then limits the CPU use.
    let _ = listener.set_nonblocking(false);
    streams
}

/// Distinguishes this socket from another one at the same path.
fn device_and_inode(entry: &Entry) -> io::Result<(u64, u64)> {
    entry.metadata().map(|found| (found.dev(), found.ino()))
}

impl<S> Drop for StatusSocket<S> {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // Someone may have removed this socket, and another daemon may be listening there now.
        if device_and_inode(&self.entry).is_ok_and(|found| found == self.own) {
            // Wake the thread, which ends by itself. It may be busy with a slow reader, so don't wait for it.
            let _ = UnixStream::connect(self.entry.by_descriptor());
            let _ = self.entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;

    /// The number of slow readers allowed per user.
    const SLOW: usize = 16;
    /// Places for clients.
    const FEW: usize = 8;

    #[test]
    fn each_connection_gets_one_snapshot_and_a_stale_socket_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        drop(UnixListener::bind(&path).unwrap()); // as left by a daemon that was killed
        // If another test is just starting a program, that program also holds the dead socket until it runs.
        let listen = || {
            StatusSocket::<serde_json::Value>::listen(&path, Readers::Owner)
                .inspect_err(|_| pause(Span::from_millis(5)))
                .ok()
        };
        let socket = std::iter::repeat_with(listen).take(1_000).flatten().next().unwrap();
        assert_eq!(StatusSocket::<()>::listen(&path, Readers::Owner).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let queries = socket.queries.clone();
        let answering = std::thread::spawn(move || {
            for (count, query) in queries.iter().take(2).enumerate() {
                let _ = query.send(serde_json::json!({ "count": count }));
            }
        });
        let read = || {
            let mut text = String::new();
            UnixStream::connect(&path).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!([read(), read()], ["{\"count\":0}\n", "{\"count\":1}\n"]);
        answering.join().unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn all_who_wait_get_the_same_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        let socket = StatusSocket::listen(&path, Readers::Owner).unwrap();
        let first = UnixStream::connect(&path).unwrap();
        let query = socket.queries.recv().unwrap();
        let others: Vec<_> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let answers = ["one", "two"];
        query.send(answers[0]).unwrap();
        socket.queries.recv().unwrap().send(answers[1]).unwrap();
        for (reader, answer) in std::iter::once((first, "one")).chain(others.into_iter().map(|other| (other, "two"))) {
            let mut text = String::new();
            { reader }.read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("\"{answer}\"\n"));
        }
    }

    /// A user who holds all their places and keeps connecting cannot keep others from an answer forever.
    #[test]
    fn a_flood_without_places_does_not_keep_those_who_have_one_waiting() {
        let stream = || UnixStream::pair().unwrap().0;
        let places = Arc::new(Clients::of(FEW));
        let readers = gathered(&places, stream(), || std::iter::repeat_with(stream).take(AT_ONCE).collect());
        assert_eq!(readers.len(), FEW / 2);
    }

    #[test]
    fn more_than_a_socket_holds_is_delivered_beside_readers_that_take_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        let socket = StatusSocket::listen(&path, Readers::Owner).unwrap();
        let queries = socket.queries.clone();
        // More than a socket buffer holds.
        let text = "x".repeat(1 << 20);
        std::thread::spawn(move || queries.iter().for_each(|query| _ = query.send(text.clone())));
        let idle: Vec<_> = (0..SLOW - 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut read = Vec::new();
        UnixStream::connect(&path).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), (1 << 20) + "\"\"\n".len());
        drop(idle);
    }

    #[test]
    fn the_socket_of_another_daemon_at_that_path_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        let first = StatusSocket::<()>::listen(&path, Readers::Owner).unwrap();
        // Move it instead of removing it: a file system may reuse the inode of a removed socket.
        fs::rename(&path, folder.path().join("moved.sock")).unwrap();
        let second = StatusSocket::<()>::listen(&path, Readers::Owner).unwrap();
        drop(first);
        assert!(path.exists(), "the second one's");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_program_that_takes_datagrams_there_keeps_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _log = UnixDatagram::bind(&path).unwrap();
        let error = StatusSocket::<()>::listen(&path, Readers::Owner).unwrap_err();
        assert!(error.to_string().contains("a program that takes datagrams listens there"), "{error}");
        assert!(UnixDatagram::unbound().unwrap().connect(&path).is_ok(), "it is still reached there");
    }

    #[test]
    fn another_file_at_that_path_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis.txt");
        fs::write(&path, "years of work").unwrap();
        assert_eq!(StatusSocket::<()>::listen(&path, Readers::Owner).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "years of work");
    }

    #[test]
    fn root_listens_below_another_users_folder_where_its_path_led() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make folders of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
        let path = theirs.join("status.sock");
        let socket = StatusSocket::listen(&path, Readers::Owner).unwrap();
        let queries = socket.queries.clone();
        std::thread::spawn(move || queries.iter().for_each(|query| _ = query.send("here")));
        let mut text = String::new();
        UnixStream::connect(&path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "\"here\"\n");
        assert_eq!(StatusSocket::<()>::listen(&path, Readers::Owner).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // At the end it removes its own socket, wherever the path leads by then.
        let moved = folder.path().join("moved");
        fs::rename(&theirs, &moved).unwrap();
        fs::create_dir(&theirs).unwrap();
        fs::write(&path, "years of work").unwrap();
        drop(socket);
        assert!(path.exists() && !moved.join("status.sock").exists());
        std::os::unix::fs::symlink(&moved, folder.path().join("link")).unwrap();
        std::os::unix::fs::lchown(folder.path().join("link"), Some(65_534), None).unwrap();
        let refused = StatusSocket::<()>::listen(&folder.path().join("link/status.sock"), Readers::Owner).unwrap_err();
        assert!(refused.to_string().contains("is a symbolic link of user 65534"), "{refused}");
    }
}
