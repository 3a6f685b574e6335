//! Files that are replaced while they are read: programs publish a value by renaming a new file over the old one, or by pointing a symlink
//! elsewhere.
//!
//! The [keeper](crate::io::Keeper) notices that. A thread of the pool opens the replacement and puts it into a wait-free slot, where it
//! displaces a file that no tick has taken yet. A file that a tick no longer needs comes back over a ring, to be closed. So each tick reads
//! the file that was opened last. A path that leads nowhere for a second is reported. Files in `/proc` and `/sys` are not followed: their
//! reads fail by themselves.

use crate::io::{Keeper, Kept, Watch};
use crate::sys::clock::KernelClock;
use crate::sys::entry;
use crate::sys::fd::FdSlot;
use crate::time::{Clock, Instant, Span};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The time between two polls if the kernel reports no changes, and until an extra poll.
const OFTEN: Span = Span::from_millis(25);

/// How long a path must lead nowhere before its file counts as deleted.
const DELETED_AFTER: Span = Span::from_seconds(1);

/// Files that the hot end may return between two polls: the one that was waiting at the first poll, and the one put in then.
const RETURNED: usize = 2;

/// The hot end: takes the newest file.
#[derive(Debug)]
pub(super) struct Followed {
    next: Arc<FdSlot>,
    old: rtrb::Producer<File>,
    deleted: Arc<AtomicBool>,
}

impl Followed {
    /// Replaces `file` with the newest file. Returns false if the path no longer has a file. Wait-free.
    pub(super) fn update(&mut self, file: &mut File) -> bool {
        // Read first: if it says that the file exists again, the file is already in the slot.
        let deleted = self.deleted.load(Ordering::Acquire);
        if !self.old.is_full()
            && let Some(next) = self.next.swap(None)
        {
            // There is room, because only this side fills the ring.
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
    missing: Option<Instant>, // since when there is no file
    watch: Watch,
}

/// Opens a file for reading. If the path is a pipe, does not wait for its other end. Root follows only root's links.
pub(super) fn open(path: &Path) -> io::Result<File> {
    entry::open(path, libc::O_RDONLY)
}

/// Both ends for a file that was opened at this path; `None` if the file cannot be replaced.
pub(super) fn follow(keeper: &Keeper, file: &File, path: &Path) -> io::Result<Option<(Followed, Follower)>> {
    if ["/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel)) {
        return Ok(None);
    }
    let identity = identity(&file.metadata()?);
    let next = Arc::new(FdSlot::new());
    let (old_end, old) = rtrb::RingBuffer::new(RETURNED);
    let deleted = Arc::new(AtomicBool::new(false));
    let followed = Followed { next: next.clone(), old: old_end, deleted: deleted.clone() };
    let watch = keeper.watch(path, OFTEN);
    Ok(Some((followed, Follower { path: path.into(), identity, next, old, deleted, missing: None, watch })))
}

/// Follows the files of a task until the hot ends are dropped.
pub(super) fn start(keeper: &Keeper, followers: Vec<Follower>) -> io::Result<()> {
    if followers.is_empty() { Ok(()) } else { keeper.keep(Followers(followers)) }
}

struct Followers(Vec<Follower>);

impl Kept for Followers {
    fn is_over(&self) -> bool {
        self.0.iter().all(|follower| follower.old.is_abandoned())
    }

    fn is_due(&mut self, now: Instant) -> bool {
        self.0.iter().any(|follower| follower.watch.is_due(now))
    }

    fn work(&mut self) {
        let now = KernelClock::monotonic().now();
        self.0.iter_mut().filter(|follower| follower.watch.is_due(now)).for_each(|follower| follower.look(now));
    }
}

impl Follower {
    fn look(&mut self, now: Instant) {
        self.watch.begins(now);
        while self.old.pop().is_ok() {}
        let found = self.replacement();
        self.missing = found.is_err().then(|| self.missing.unwrap_or(now));
        self.deleted.store(self.missing.is_some_and(|since| now - since >= DELETED_AFTER), Ordering::Release);
        let replacement = found.ok().flatten();
        // Another look is needed to close the previous file, or because a file may appear.
        if replacement.is_some() || self.missing.is_some() {
            self.watch.again(now);
        }
        if let Some(file) = replacement {
            drop(self.next.swap(Some(file.into())));
        }
    }

    /// The file at the path, if it is a different one.
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
        let (keeper, now) = (Keeper::default(), Instant::ZERO);
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
        let (mut followed, mut follower) = follow(&keeper, &file, &path).unwrap().unwrap();
        for number in 1..=9 {
            publish(number);
            follower.look(now);
            if number % 3 != 0 {
                continue;
            }
            assert!(followed.update(&mut file));
            assert_eq!(io::read_to_string(&file).unwrap(), number.to_string(), "no tick has read those between");
            assert_eq!(open_files(), 2, "the file that was read before waits to be closed; the others are closed");
        }
        drop(followed);
        follower.look(now);
        assert_eq!((follower.old.is_abandoned(), open_files()), (true, 1));
    }

    #[test]
    fn a_path_without_a_file_counts_as_deleted_after_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let (path, at) = (folder.path().join("v"), |millis| Instant::ZERO + Span::from_millis(millis));
        fs::write(&path, "1").unwrap();
        let mut file = open(&path).unwrap();
        let (mut followed, mut follower) = follow(&Keeper::default(), &file, &path).unwrap().unwrap();
        let mut is_there = |millis| {
            follower.look(at(millis));
            followed.update(&mut file)
        };
        assert!(is_there(0));
        fs::remove_file(&path).unwrap();
        assert!(is_there(500) && is_there(1_499) && !is_there(1_500));
        fs::write(&path, "2").unwrap();
        assert!(is_there(1_525));
        assert_eq!(io::read_to_string(&file).unwrap(), "2");
    }

    #[test]
    fn files_of_the_kernel_are_not_followed() {
        for (path, is_followed) in [("/proc/loadavg", false), ("/sys/kernel/x", false), ("/etc/passwd", true)] {
            let file = open(Path::new("/proc/self/exe")).unwrap();
            assert_eq!(follow(&Keeper::default(), &file, Path::new(path)).unwrap().is_some(), is_followed, "{path}");
        }
    }
}
