//! Files that are replaced while they are read: programs publish a value by renaming a new file over the old one, or by pointing a symlink
//! elsewhere. And files that are not written any more, because the program that should has ended.
//!
//! The [keeper](crate::io::Keeper) notices that. A thread of the pool opens the replacement and puts it into a wait-free slot, where it
//! displaces a file that no tick has taken yet. A file that a tick no longer needs comes back over a ring, to be closed. So each tick reads
//! the file that was opened last. A path that leads nowhere for a second is reported. Files in `/proc` and `/sys` are not followed: their
//! reads fail by themselves.
//!
//! The age of a file counts on the monotonic clock from when a look found it changed. Time stamps are read only of a file that is there first,
//! or in the place of another one, so no step of UTC makes anything old.

use crate::io::{Keeper, Kept, Watch};
use crate::sys::clock::KernelClock;
use crate::sys::entry;
use crate::sys::fd::FdSlot;
use crate::sys::filesystem::is_of_the_kernel;
use crate::time::{Clock, Instant, Span};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing::{info, warn};

/// The time between two polls if the kernel reports no changes, and until an extra poll.
const OFTEN: Span = Span::from_millis(25);

/// How long a path must lead nowhere before its file counts as deleted.
const DELETED_AFTER: Span = Span::from_seconds(1);

/// How often a file that is too old is looked at, to notice soon that it is written again.
const WHILE_OLD: Span = Span::from_millis(250);

/// How far in the future a time stamp may be because clocks are set to run evenly.
const A_MOMENT: Span = Span::from_seconds(1);

/// Files that the hot end may return between two polls: the one that was waiting at the first poll, and the one put in then.
const RETURNED: usize = 2;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    There,
    /// Nothing, for a second.
    Deleted,
    /// A file that was not written for too long.
    TooOld,
}

/// The hot end: takes the newest file.
#[derive(Debug)]
pub(super) struct Followed {
    next: Arc<FdSlot>,
    old: rtrb::Producer<File>,
    state: Arc<AtomicU8>,
}

impl Followed {
    /// Replaces `file` with the newest file. Wait-free.
    pub(super) fn update(&mut self, file: &mut File) -> State {
        // Read first: if it says that the file exists again, the file is already in the slot.
        let state = self.state.load(Ordering::Acquire);
        if !self.old.is_full()
            && let Some(next) = self.next.swap(None)
        {
            // There is room, because only this side fills the ring.
            let _ = self.old.push(mem::replace(file, next.into()));
        }
        [State::Deleted, State::TooOld].into_iter().find(|other| *other as u8 == state).unwrap_or(State::There)
    }
}

/// The cool end, and the path.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    task: String,
    identity: (u64, u64),
    next: Arc<FdSlot>,
    old: rtrb::Consumer<File>,
    state: Arc<AtomicU8>,
    missing: Option<Instant>, // since when there is no file
    max_age: Option<Span>,
    age: Option<Age>, // `None`: any age is good
    watch: Watch,
}

/// When a file was written.
#[derive(Debug)]
struct Age {
    seen: Stamp,
    written: Option<Instant>, // at the latest; `None`: only a change will tell
    to_utc: Span,             // from the monotonic clock, when that was seen
}

/// What changes with each write.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(facts: &fs::Metadata) -> Stamp {
    (facts.dev(), facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec())
}

impl Age {
    /// Of a file that was there before. One from the future was written while another time was set, so nothing says when.
    fn found(facts: &fs::Metadata, now: Instant) -> Self {
        let utc = KernelClock::realtime().now();
        let before = utc - (Instant::ZERO + Span::from_seconds(facts.mtime()) + Span::from_nanos(facts.mtime_nsec()));
        let written = (before >= -A_MOMENT).then(|| now - before.max(Span::ZERO));
        Self { seen: stamp(facts), written, to_utc: utc - now }
    }

    /// Of a file in the place of this one. One with an earlier time stamp was not written now but put there, unless a step of UTC explains it.
    fn replaced(&self, facts: &fs::Metadata, now: Instant) -> Self {
        let (seen, to_utc) = (stamp(facts), KernelClock::realtime().now() - now);
        let later = Span::from_seconds(seen.3 - self.seen.3) + Span::from_nanos(seen.4 - self.seen.4);
        let later = later.max(later - (to_utc - self.to_utc)).min(Span::ZERO);
        let written = self.written.map(|written| if later < Span::ZERO { written + later } else { now });
        Self { seen, written: written.or(Some(now)), to_utc }
    }

    fn look(&mut self, facts: &fs::Metadata, now: Instant) {
        let seen = stamp(facts);
        if mem::replace(&mut self.seen, seen) != seen {
            (self.written, self.to_utc) = (Some(now), KernelClock::realtime().now() - now);
        }
    }
}

/// Opens a file for reading. If the path is a pipe, does not wait for its other end. Root follows only root's links.
pub(super) fn open(path: &Path) -> io::Result<File> {
    entry::open(path, libc::O_RDONLY)
}

/// Whether a program writes the file at this path; else the kernel makes it when it is read, also where a link leads there.
pub(super) fn has_age(path: &Path) -> bool {
    can_be_replaced(path) && open(path).map_or(true, |file| !is_of_the_kernel(&file))
}

/// Whether the path is none of the kernel's own.
pub(super) fn can_be_replaced(path: &Path) -> bool {
    !["/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel))
}

/// Both ends for a file that `task` opened at this path; `None` if the file cannot be replaced. `max_age`: how long ago it may have been
/// written.
pub(super) fn follow(
    keeper: &Keeper,
    task: &str,
    file: &File,
    path: &Path,
    max_age: Option<Span>,
) -> io::Result<Option<(Followed, Follower)>> {
    if !can_be_replaced(path) {
        return Ok(None);
    }
    let (facts, now) = (file.metadata()?, KernelClock::monotonic().now());
    let age = is_written(file, &facts, max_age).then(|| Age::found(&facts, now));
    let identity = identity(&facts);
    let next = Arc::new(FdSlot::new());
    let (old_end, old) = rtrb::RingBuffer::new(RETURNED);
    let state = Arc::new(AtomicU8::new(State::There as u8));
    let followed = Followed { next: next.clone(), old: old_end, state: state.clone() };
    let watch = keeper.watch(path, OFTEN);
    let (task, path) = (task.to_owned(), path.to_path_buf());
    let mut follower = Follower { path, task, identity, next, old, state, missing: None, max_age, age, watch };
    follower.publish(now);
    Ok(Some((followed, follower)))
}

/// An empty file in the place of one that does not exist yet, and both ends that put it there once it does.
pub(super) fn absent(
    keeper: &Keeper,
    task: &str,
    path: &Path,
    max_age: Option<Span>,
) -> io::Result<(File, (Followed, Follower))> {
    let file = File::open("/dev/null")?;
    let next = Arc::new(FdSlot::new());
    let (old_end, old) = rtrb::RingBuffer::new(RETURNED);
    let state = Arc::new(AtomicU8::new(State::Deleted as u8));
    let followed = Followed { next: next.clone(), old: old_end, state: state.clone() };
    let (watch, task, path) = (keeper.watch(path, OFTEN), task.to_owned(), path.to_path_buf());
    let missing = Some(KernelClock::monotonic().now() - DELETED_AFTER);
    let follower = Follower { path, task, identity: (0, 0), next, old, state, missing, max_age, age: None, watch };
    Ok((file, (followed, follower)))
}

/// Whether this file may become too old.
fn is_written(file: &File, facts: &fs::Metadata, max_age: Option<Span>) -> bool {
    max_age.is_some() && facts.is_file() && !is_of_the_kernel(file)
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
        let found = self.replacement(now);
        self.missing = found.is_err().then(|| self.missing.unwrap_or(now));
        let replacement = found.ok().flatten();
        // Another look is needed to close the previous file, or because a file may appear.
        if replacement.is_some() || self.missing.is_some() {
            self.watch.again(now);
        }
        if let Some(file) = replacement {
            drop(self.next.swap(Some(file.into())));
        }
        self.publish(now);
    }

    /// Publishes the state, after the file that it is about. The kernel does not report when a file is written, so it is looked at once more
    /// when it would be too old.
    fn publish(&mut self, now: Instant) {
        let is_deleted = self.missing.is_some_and(|since| now - since >= DELETED_AFTER);
        let end = self.age.as_ref().zip(self.max_age).map(|(age, most)| age.written.map(|written| written + most));
        let is_too_old = end.is_some_and(|end| end.is_none_or(|end| now > end));
        let state = match (is_deleted, is_too_old) {
            (true, _) => State::Deleted,
            (false, true) => State::TooOld,
            (false, false) => State::There,
        };
        match end.flatten() {
            _ if is_too_old => self.watch.by(now + WHILE_OLD),
            Some(end) => self.watch.by(end),
            None => {}
        }
        let before = self.state.swap(state as u8, Ordering::AcqRel);
        let (task, path) = (&self.task, self.path.display());
        match state {
            State::TooOld if before != state as u8 => {
                warn!(
                    task,
                    "{task}: {path} was not written for longer than max-file-age; its values are not used until it is"
                );
            }
            State::There if before == State::TooOld as u8 => {
                info!(task, "{task}: {path} is written again, and used");
            }
            _ => {}
        }
    }

    /// The file at the path, if it is a different one.
    fn replacement(&mut self, now: Instant) -> io::Result<Option<File>> {
        let facts = fs::metadata(&self.path)?;
        if identity(&facts) == self.identity {
            self.age.iter_mut().for_each(|age| age.look(&facts, now));
            return Ok(None);
        }
        let file = open(&self.path)?;
        let facts = file.metadata()?;
        self.identity = identity(&facts);
        let of_next = || match self.age.as_ref().filter(|_| self.missing.is_none()) {
            Some(age) => age.replaced(&facts, now),
            None => Age::found(&facts, now),
        };
        self.age = is_written(&file, &facts, self.max_age).then(of_next);
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
        let (mut followed, mut follower) = follow(&keeper, "t", &file, &path, None).unwrap().unwrap();
        for number in 1..=9 {
            publish(number);
            follower.look(now);
            if number % 3 != 0 {
                continue;
            }
            assert_eq!(followed.update(&mut file), State::There);
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
        let (mut followed, mut follower) = follow(&Keeper::default(), "t", &file, &path, None).unwrap().unwrap();
        let mut is_there = |millis| {
            follower.look(at(millis));
            followed.update(&mut file) == State::There
        };
        assert!(is_there(0));
        fs::remove_file(&path).unwrap();
        assert!(is_there(500) && is_there(1_499) && !is_there(1_500));
        fs::write(&path, "2").unwrap();
        assert!(is_there(1_525));
        assert_eq!(io::read_to_string(&file).unwrap(), "2");
    }

    #[test]
    fn a_file_whose_writer_has_ended_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("v"), folder.path().join("new"));
        fs::write(&path, "1").unwrap();
        let backdate = || {
            let file = File::options().write(true).open(&path).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - std::time::Duration::from_secs(2 * 86_400)).unwrap();
        };
        backdate();
        let mut file = open(&path).unwrap();
        let now = KernelClock::monotonic().now();
        let after = |millis| now + Span::from_millis(millis);
        let keeper = Keeper::default();
        let (mut followed, mut follower) =
            follow(&keeper, "t", &file, &path, Some(Span::from_millis(600))).unwrap().unwrap();
        assert_eq!(followed.update(&mut file), State::TooOld, "it was written two days ago");
        // The state, and when it is looked at again: kernels that report changes leave it alone for a second.
        let mut look = |millis| {
            follower.look(after(millis));
            let next = (0..=1_000).find(|wait| follower.watch.is_due(after(millis + wait)));
            (followed.update(&mut file), next.unwrap())
        };
        let (state, next) = look(50);
        assert!(state == State::TooOld && next <= 250);
        // It is written in place, to a time that is long ago by UTC: the clock was set.
        backdate();
        let (state, next) = look(100);
        assert!(state == State::There && next <= 600);
        assert_eq!((look(700).0, look(701).0), (State::There, State::TooOld));
        fs::write(&new, "2").unwrap();
        fs::rename(&new, &path).unwrap();
        assert_eq!(look(800).0, State::There);
        // An old file is put in its place, and a new one again.
        fs::write(&new, "1").unwrap();
        let two_days = std::time::Duration::from_secs(2 * 86_400);
        let written = fs::metadata(&new).unwrap().modified().unwrap();
        File::options().write(true).open(&new).unwrap().set_modified(written - two_days).unwrap();
        fs::rename(&new, &path).unwrap();
        assert_eq!(look(801).0, State::TooOld);
        fs::write(&new, "2").unwrap();
        fs::rename(&new, &path).unwrap();
        assert_eq!(look(802).0, State::There);
        // What is in its place and cannot be opened, such as a socket, makes the old one no fresher.
        assert_eq!(look(1_403).0, State::TooOld);
        fs::remove_file(&path).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!((look(1_500).0, look(2_499).0, look(2_500).0), (State::TooOld, State::TooOld, State::Deleted));
        fs::remove_file(&path).unwrap();
        // A time stamp from the future says nothing.
        fs::write(&path, "3").unwrap();
        let coming = file.metadata().unwrap().modified().unwrap() + std::time::Duration::from_secs(4 * 86_400);
        File::options().write(true).open(&path).unwrap().set_modified(coming).unwrap();
        let mut file = open(&path).unwrap();
        let (mut followed, _) = follow(&keeper, "t", &file, &path, Some(Span::from_seconds(60))).unwrap().unwrap();
        assert_eq!(followed.update(&mut file), State::TooOld);
        // The kernel makes it, where a link leads to.
        let link = folder.path().join("load");
        std::os::unix::fs::symlink("/proc/loadavg", &link).unwrap();
        let (mut linked, mut follower) =
            follow(&keeper, "t", &open(&link).unwrap(), &link, Some(Span::from_seconds(60))).unwrap().unwrap();
        follower.look(after(1 << 40));
        assert_eq!(linked.update(&mut file), State::There);
        // A person edits it.
        fs::write(&path, "3").unwrap();
        let (mut edited, mut follower) = follow(&keeper, "t", &file, &path, None).unwrap().unwrap();
        follower.look(after(1 << 40));
        assert_eq!(edited.update(&mut file), State::There);
    }

    #[test]
    fn files_of_the_kernel_are_not_followed() {
        for (path, is_followed) in [("/proc/loadavg", false), ("/sys/kernel/x", false), ("/etc/passwd", true)] {
            let file = open(Path::new("/proc/self/exe")).unwrap();
            assert_eq!(
                follow(&Keeper::default(), "t", &file, Path::new(path), None).unwrap().is_some(),
                is_followed,
                "{path}"
            );
        }
    }
}
