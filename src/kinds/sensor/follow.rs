//! Files that are replaced while they are read: programs publish a value by renaming a new file over the old one, or by
//! pointing a symlink elsewhere.
//!
//! A thread of the task checks each path 40 times a second, opens a replacement and puts it into a wait-free slot, in place
//! of one that no tick has taken yet; the file that a tick no longer needs comes back over a ring, to be closed. So each
//! tick reads the latest file that was opened. A path that leads nowhere for a second is reported. Files of `/proc` and
//! `/sys` are not followed: their reads fail by themselves.

use crate::sys::clock::pause;
use crate::sys::entry;
use crate::sys::fd::FdSlot;
use crate::sys::thread::{helper, with_signals_blocked};
use crate::time::Span;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time between two looks.
const REST: Span = Span::from_millis(25);

/// Looks in a row that find nothing at the path before its file counts as deleted: one second.
const LOOKS: u32 = 40;

/// Files that the hot end may return between two looks: for the one that waited at the first, and the one it puts in.
const RETURNED: usize = 2;

/// The hot end: takes the latest file.
#[derive(Debug)]
pub(super) struct Followed {
    next: Arc<FdSlot>,
    old: rtrb::Producer<File>,
    deleted: Arc<AtomicBool>,
}

impl Followed {
    /// Puts the latest file in place of `file`. False: there is none at the path any more. Wait-free.
    pub(super) fn update(&mut self, file: &mut File) -> bool {
        // First: where it says that there is a file again, that one is there.
        let deleted = self.deleted.load(Ordering::Acquire);
        if !self.old.is_full()
            && let Some(next) = self.next.swap(None)
        {
            // There is room: only this side fills it.
            let _ = self.old.push(mem::replace(file, next.into()));
        }
        !deleted
    }
}

/// The cool end, and the path.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    identity: (u64, u64),
    next: Arc<FdSlot>,
    old: rtrb::Consumer<File>,
    deleted: Arc<AtomicBool>,
    misses: u32, // looks since there was a file
}

/// Opens a file to be read. Does not wait for the other end should the path be a pipe. Root follows only root's links.
pub(super) fn open(path: &Path) -> io::Result<File> {
    entry::open(path, libc::O_RDONLY)
}

/// Both ends for a file that was opened at this path; `None` when it cannot be replaced.
pub(super) fn follow(file: &File, path: &Path) -> io::Result<Option<(Followed, Follower)>> {
    if ["/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel)) {
        return Ok(None);
    }
    let identity = identity(&file.metadata()?);
    let next = Arc::new(FdSlot::new());
    let (old_end, old) = rtrb::RingBuffer::new(RETURNED);
    let deleted = Arc::new(AtomicBool::new(false));
    let followed = Followed { next: next.clone(), old: old_end, deleted: deleted.clone() };
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
    with_signals_blocked(|| helper::spawn("hertzd-files", body))??;
    Ok(())
}

impl Follower {
    /// False: no one reads the file any more.
    fn look(&mut self) -> bool {
        while self.old.pop().is_ok() {}
        self.misses = match self.replacement() {
            Ok(file) => {
                if let Some(file) = file {
                    drop(self.next.swap(Some(file.into())));
                }
                0
            }
            Err(_) => self.misses + 1,
        };
        self.deleted.store(self.misses >= LOOKS, Ordering::Release);
        !self.old.is_abandoned()
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
    fn a_tick_reads_the_latest_of_several_replacements() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("v"), folder.path().join("new"));
        let publish = |number: u32| {
            fs::write(&new, number.to_string()).unwrap();
            fs::rename(&new, &path).unwrap();
        };
        let open_files = || {
            let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
            links.filter(|link| link.starts_with(folder.path())).count()
        };
        publish(0);
        let mut file = open(&path).unwrap();
        let (mut followed, mut follower) = follow(&file, &path).unwrap().unwrap();
        for number in 1..=9 {
            publish(number);
            assert!(follower.look());
            if number % 3 != 0 {
                continue;
            }
            assert!(followed.update(&mut file));
            assert_eq!(io::read_to_string(&file).unwrap(), number.to_string(), "no tick has read those between");
            assert_eq!(open_files(), 2, "the file that was read before waits to be closed; the others are closed");
        }
        drop(followed);
        assert!(!follower.look());
        assert_eq!(open_files(), 1);
    }

    #[test]
    fn files_of_the_kernel_are_not_followed() {
        for (path, is_followed) in [("/proc/loadavg", false), ("/sys/kernel/x", false), ("/etc/passwd", true)] {
            let file = open(Path::new("/proc/self/exe")).unwrap();
            assert_eq!(follow(&file, Path::new(path)).unwrap().is_some(), is_followed, "{path}");
        }
    }
}
