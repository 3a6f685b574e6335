//! Files that are replaced while they are read: programs publish a value by renaming a new file over the old one, or by
//! pointing a symlink elsewhere.
//!
//! A thread of the task checks each path 40 times a second, opens a replacement and passes it to the hot thread through a
//! wait-free ring; the old file comes back the same way, to be closed. Until then ticks read the old file. A path that
//! leads nowhere for a second is reported. Files of `/proc` and `/sys` are not followed: their reads fail by themselves.

use crate::sys::clock::pause;
use crate::sys::thread::with_signals_blocked;
use crate::time::Span;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

/// Time between two looks.
const REST: Span = Span::from_millis(25);

/// Looks in a row that find nothing at the path before its file counts as deleted: one second.
const LOOKS: u32 = 40;

/// The hot end: receives the files that replaced one.
#[derive(Debug)]
pub(super) struct Followed {
    next: rtrb::Consumer<File>,
    old: rtrb::Producer<File>,
    deleted: Arc<AtomicBool>,
}

impl Followed {
    /// Puts the latest file in place of `file`. False: there is none at the path any more. Wait-free.
    pub(super) fn update(&mut self, file: &mut File) -> bool {
        while !self.old.is_full()
            && let Ok(next) = self.next.pop()
        {
            // There is room: only this side fills it.
            let _ = self.old.push(mem::replace(file, next));
        }
        !self.deleted.load(Ordering::Relaxed)
    }
}

/// The cool end, and the path.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    identity: (u64, u64),
    next: rtrb::Producer<File>,
    old: rtrb::Consumer<File>,
    deleted: Arc<AtomicBool>,
    misses: u32, // looks since there was a file
}

/// Opens a file to be read. Does not wait for the other end should the path be a pipe.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Both ends for a file that was opened at this path; `None` when it cannot be replaced.
pub(super) fn follow(file: &File, path: &Path) -> io::Result<Option<(Followed, Follower)>> {
    if ["/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel)) {
        return Ok(None);
    }
    let identity = identity(&file.metadata()?);
    let (next, next_end) = rtrb::RingBuffer::new(1);
    let (old_end, old) = rtrb::RingBuffer::new(1);
    let deleted = Arc::new(AtomicBool::new(false));
    let followed = Followed { next: next_end, old: old_end, deleted: deleted.clone() };
    Ok(Some((followed, Follower { path: path.into(), identity, next, old, deleted, misses: 0 })))
}

/// Starts the thread that follows these files, until the hot ends are dropped.
pub(super) fn start(mut followers: Vec<Follower>) -> io::Result<()> {
    if followers.is_empty() {
        return Ok(());
    }
    let body = move || {
        while !followers.is_empty() {
            pause(REST);
            followers.retain_mut(Follower::look);
        }
    };
    with_signals_blocked(|| Builder::new().name("hertzd-files".into()).spawn(body))??;
    Ok(())
}

impl Follower {
    /// False: no one reads the file any more.
    fn look(&mut self) -> bool {
        let _ = self.old.pop();
        if !self.next.is_full() {
            match self.replacement() {
                Ok(None) => self.found(),
                Ok(Some(file)) => {
                    let _ = self.next.push(file);
                    self.found();
                }
                Err(_) => {
                    self.misses += 1;
                    self.deleted.store(self.misses >= LOOKS, Ordering::Relaxed);
                }
            }
        }
        !self.next.is_abandoned()
    }

    fn found(&mut self) {
        self.misses = 0;
        self.deleted.store(false, Ordering::Relaxed);
    }

    /// The file at the path, if it is another one.
    fn replacement(&mut self) -> io::Result<Option<File>> {
        if identity(&fs::metadata(&self.path)?) == self.identity {
            return Ok(None);
        }
        let file = open(&self.path)?;
        self.identity = identity(&file.metadata()?);
        Ok(Some(file))
    }
}

fn identity(facts: &fs::Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_not_followed() {
        for (path, is_followed) in [("/proc/loadavg", false), ("/sys/kernel/x", false), ("/etc/passwd", true)] {
            let file = open(Path::new("/proc/self/exe")).unwrap();
            assert_eq!(follow(&file, Path::new(path)).unwrap().is_some(), is_followed, "{path}");
        }
    }
}
