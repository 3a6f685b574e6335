//! The status socket: one JSON snapshot per connection, and nothing is ever read from it.
//!
//! Its thread waits in `accept`, asks main for the snapshot, writes it as JSON and closes. All who have connected by then get the
//! same. A reader that is slow gets the rest from a thread of its own, so that it holds up no other. [`Clients`] limits how many there are.

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

/// Connections that are taken at once: those without a [place](Clients::take) are closed as fast as a flood of them comes.
const AT_ONCE: usize = 64;

/// How often as many are taken before those are answered that have a place: in a flood there are always more.
const ROUNDS: usize = 8;

/// The status socket and its thread; dropped, it is gone. Snapshots are of type `S`.
#[derive(Debug)]
pub(crate) struct StatusSocket<S> {
    entry: Entry,
    own: (u64, u64), // device and inode of the socket that was bound
    ending: Arc<AtomicBool>,
    /// Requests for a snapshot; it goes into the channel.
    pub(super) queries: Receiver<Sender<S>>,
}

impl<S: Serialize + Send + 'static> StatusSocket<S> {
    /// Listens at `path`, for these. A socket without a listener is replaced.
    ///
    /// # Errors
    /// The path and the system's reason; or that another process listens there.
    pub(super) fn listen(path: &Path, readers: Readers) -> io::Result<Self> {
        Self::bind(path, readers).map_err(|reason| {
            let text = format!("{}: {reason}; choose another path with --status-socket", path.display());
            io::Error::new(reason.kind(), text)
        })
    }

    fn bind(path: &Path, readers: Readers) -> io::Result<Self> {
        let entry = Entry::find(path)?;
        // Where another user could exchange a folder, the kernel uses the one that was found. Elsewhere others see the path.
        let is_roots = effective_user() != 0 || trust::lasting(path).is_ok();
        let address = if is_roots { path.to_owned() } else { entry.by_descriptor() };
        let path = &*address;
        // A datagram socket cannot connect to a stream socket, and learns at once that there is one: a connection would wait
        // for a daemon whose queue of connections is full.
        let found = UnixDatagram::unbound()?.connect(path).map_err(|error| error.raw_os_error());
        if found == Err(Some(libc::EPROTOTYPE)) && !lock::is_abandoned(path) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another daemon listens there"));
        }
        match entry.metadata() {
            Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something else, not a socket"));
            }
            Ok(_) => entry.remove()?, // left by one that was killed
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
                    // Out of file descriptors, most likely: trying again at once would only burn the processor.
                    pause(Span::from_millis(100));
                    continue;
                };
                let readers = gathered(&places, first, || waiting(&listener));
                if readers.is_empty() {
                    continue;
                }
                // Nothing is logged here: a log on a slow disk would hold up the answer.
                let (reply, answer) = bounded(1);
                if ask.send(reply).is_err() {
                    return;
                }
                let Ok(snapshot) = answer.recv_timeout(ANSWERED_WITHIN) else {
                    continue;
                };
                // Thousands of tasks take a while: that is not for main to do.
                let text = serde_json::to_string(&snapshot);
                let text = Arc::new(text.unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}")) + "\n");
                readers.into_iter().for_each(|reader| reader.send(&text));
            }
        };
        helper::spawn("hertzd-status", body)?;
        Ok(Self { entry, own, ending, queries })
    }
}

/// All who get the same answer: the first, and who waits beside it, of whom a part at a time is taken.
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

/// Who has connected as well, and waits.
fn waiting(listener: &UnixListener) -> Vec<UnixStream> {
    if listener.set_nonblocking(true).is_err() {
        return Vec::new();
    }
    let streams = listener.incoming().map_while(Result::ok).take(AT_ONCE).collect();
    // Else the next wait is none; then the pause after an error keeps that from burning the processor.
    let _ = listener.set_nonblocking(false);
    streams
}

/// What distinguishes this socket from another one at the same path.
fn device_and_inode(entry: &Entry) -> io::Result<(u64, u64)> {
    entry.metadata().map(|found| (found.dev(), found.ino()))
}

impl<S> Drop for StatusSocket<S> {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // Someone may have removed this socket, and another daemon may listen there since.
        if device_and_inode(&self.entry).is_ok_and(|found| found == self.own) {
            // Wakes the thread, which ends by itself: it may be busy with a slow reader, and is not waited for.
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

    /// Readers of one user that may be slow at a time.
    const SLOW: usize = 16;
    /// Places for clients.
    const FEW: usize = 8;

    #[test]
    fn each_connection_gets_one_snapshot_and_a_stale_socket_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.sock");
        drop(UnixListener::bind(&path).unwrap()); // as one that was killed leaves it
        // While another test starts a program, that one holds the dead socket too, until it runs.
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

    /// A user who has all of its places, and connects without a pause, keeps no one from an answer for ever.
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
        // More than a socket holds.
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
        // Moved and not removed: a file system may give the next socket the inode of one that is gone.
        fs::rename(&path, folder.path().join("moved.sock")).unwrap();
        let second = StatusSocket::<()>::listen(&path, Readers::Owner).unwrap();
        drop(first);
        assert!(path.exists(), "the second one's");
        drop(second);
        assert!(!path.exists());
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
        // The one that it removes at its end is its own, whatever its path leads to by then.
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
