//! Notices when a path may lead somewhere else: after a rename, a deletion, or a changed link, of the path itself or of a folder on the
//! way. The kernel reports these changes (inotify), so no one has to poll.
//!
//! The kernel does not report everything, for example a file system that is mounted there, so the path is also checked now and then. Where
//! the kernel reports nothing, the path is checked as often as without watches. That is the case for a network file system, when no watches
//! are left, or without permission to read a folder.

use crate::sys::inotify::{Event, Inotify};
use crate::time::{Instant, Span};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How often a path is checked although the kernel reports its changes, and how often the kernel is asked again to report them.
const SELDOM: Span = Span::from_seconds(1);

/// The most links followed on one path, as in the kernel.
const MOST_LINKS: usize = 40;

/// All paths that a daemon watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    inotify: OnceLock<Option<Inotify>>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    watched: BTreeMap<i32, Vec<Name>>, // by the number of the folder's watch
    removed: u64,                      // watches removed so far
}

/// A name in a folder, and the flag that is set when something happens to that name.
type Name = (OsString, Arc<AtomicBool>);

impl Watches {
    /// Sets the flags for everything that the kernel has reported since the last call. Does not block.
    pub(crate) fn look(&self) {
        let Some(Some(inotify)) = self.inotify.get() else { return };
        let table = self.table();
        let set = |(_, changed): &Name| changed.store(true, Ordering::Release);
        inotify.read(|event| match event {
            Event::In(watch, name) => {
                table.watched.get(&watch).into_iter().flatten().filter(|(wanted, _)| wanted == name).for_each(set);
            }
            Event::Over(watch) => table.watched.get(&watch).into_iter().flatten().for_each(set),
            Event::Lost => table.watched.values().flatten().for_each(set),
        });
    }

    /// From now on `changed` is set when the path leads elsewhere. False: the kernel does not report that.
    fn watch(&self, path: &Path, changed: &Arc<AtomicBool>) -> bool {
        let Some(inotify) = self.inotify.get_or_init(|| Inotify::new().ok()) else { return false };
        loop {
            let removed = self.table().removed;
            // Without the table's lock: a folder may be on a file system that hangs.
            let steps: Vec<_> = steps(path).into_iter().map(|(folder, name)| (inotify.add(&folder), name)).collect();
            // When a missing folder appears, the folder above reports it.
            let is_away = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            let is_told = steps.iter().all(|(watch, _)| watch.as_ref().err().is_none_or(is_away));
            let mut table = self.table();
            // Meanwhile another path may have been the last to need one of these folders, and its watch was removed.
            if table.removed == removed {
                let new: Vec<_> = steps.into_iter().filter_map(|(watch, name)| Some((watch.ok()?, name))).collect();
                let keep: Vec<_> = new.iter().map(|(watch, _)| *watch).collect();
                table.forget(inotify, changed, &keep);
                for (watch, name) in new {
                    table.watched.entry(watch).or_default().push((name, changed.clone()));
                }
                return is_told;
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Nothing sets `changed` any more. Removes the watches that only it needed, except those to `keep`.
    fn forget(&mut self, inotify: &Inotify, changed: &Arc<AtomicBool>, keep: &[i32]) {
        let removed = self.watched.extract_if(.., |watch, names| {
            names.retain(|(_, other)| !Arc::ptr_eq(other, changed));
            names.is_empty() && !keep.contains(watch)
        });
        for (watch, _) in removed.collect::<Vec<_>>() {
            inotify.remove(watch);
            self.removed += 1;
        }
    }
}

/// One watched path.
#[derive(Debug)]
pub(crate) struct Watch {
    watches: Arc<Watches>,
    path: PathBuf,
    changed: Arc<AtomicBool>,
    often: Span, // between checks, where nothing is reported
    is_told: bool,
    next: Instant,     // when the next check is due
    next_try: Instant, // when to ask the kernel again to report changes
}

impl Watch {
    /// A check is due at once; later ones every `often` where the kernel does not report changes.
    pub(super) fn new(watches: Arc<Watches>, path: &Path, often: Span) -> Self {
        let changed = Arc::new(AtomicBool::new(true));
        Self {
            watches,
            path: path.into(),
            changed,
            often,
            is_told: false,
            next: Instant::ZERO,
            next_try: Instant::ZERO,
        }
    }

    /// Whether the path should be checked now. Does not block.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.changed.load(Ordering::Acquire) || now >= self.next
    }

    /// Call before a check: a change from now on makes the next check due. May block.
    pub(crate) fn begins(&mut self, now: Instant) {
        if self.changed.swap(false, Ordering::AcqRel) || !self.is_told && now >= self.next_try {
            self.is_told = self.watches.watch(&self.path, &self.changed);
            self.next_try = now + SELDOM;
        }
        self.next = now + if self.is_told { SELDOM } else { self.often };
    }

    /// Call after a check that should be repeated soon.
    pub(crate) fn again(&mut self, now: Instant) {
        self.by(now + self.often);
    }

    /// Call after a check that should be repeated by then.
    pub(crate) fn by(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(Some(inotify)) = self.watches.inotify.get() {
            self.watches.table().forget(inotify, &self.changed, &[]);
        }
    }
}

/// The folders that a path leads through, each with the name that is looked up in it.
fn steps(path: &Path) -> Vec<(PathBuf, OsString)> {
    let (mut steps, mut links, mut at) = (Vec::new(), 0, PathBuf::from("."));
    let owned = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<_>>();
    let mut rest = owned(path);
    while let Some(part) = rest.pop_front() {
        let next = at.join(&part);
        if Path::new(&part).components().all(|part| matches!(part, Component::Normal(_))) {
            steps.push((at.clone(), part));
            if let Ok(target) = fs::read_link(&next) {
                links += 1;
                if links > MOST_LINKS {
                    break;
                }
                let mut target = owned(&target);
                target.append(&mut rest);
                rest = target;
                continue;
            }
        }
        at = next;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const OFTEN: Span = Span::from_millis(25);

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_path_is_due_when_it_may_lead_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        // As Kubernetes publishes a file: a link on the way is replaced.
        for name in ["first", "second"] {
            fs::create_dir(place(name)).unwrap();
            fs::write(place(name).join("value"), name).unwrap();
        }
        symlink("first", place("current")).unwrap();
        let watches = Arc::<Watches>::default();
        let mut watch = Watch::new(watches.clone(), &place("current/value"), OFTEN);
        assert!(watch.is_due(at(0)));
        watch.begins(at(0));
        if !watch.is_told {
            println!("skipped: the kernel tells nothing of changes in {}", folder.path().display());
            return;
        }
        let mut is_due = |change: &dyn Fn()| {
            watches.look();
            assert!(!watch.is_due(at(999)));
            change();
            watches.look();
            let is_due = watch.is_due(at(0));
            if is_due {
                watch.begins(at(0));
            }
            is_due
        };
        let renames = |from: &str, to: &str| fs::rename(place(from), place(to)).unwrap();
        assert!(is_due(&|| {
            symlink("second", place("next")).unwrap();
            renames("next", "current");
        }));
        assert!(is_due(&|| {
            fs::write(place("new"), "new").unwrap();
            renames("new", "second/value");
        }));
        assert!(is_due(&|| fs::remove_file(place("second/value")).unwrap()));
        assert!(is_due(&|| fs::write(place("second/value"), "again").unwrap()));
        assert!(is_due(&|| renames("second", "third")));
        assert!(is_due(&|| renames("third", "second")));
        assert!(!is_due(&|| fs::write(place("second/other"), "other").unwrap()), "a name that is not on the way");
        assert!(!is_due(&|| fs::write(place("first/value"), "before").unwrap()), "nor is this one any more");
        assert!(watch.is_due(at(1_000)), "now and then it is looked at in any case");
        drop(watch);
        assert!(watches.table().watched.is_empty());
    }

    #[test]
    fn a_path_is_due_often_where_the_kernel_tells_nothing() {
        let watches = Watches { inotify: OnceLock::from(None), table: Mutex::default() };
        let mut watch = Watch::new(Arc::new(watches), Path::new("/etc/passwd"), OFTEN);
        for times in 0..3 {
            let now = at(25 * times);
            assert!(watch.is_due(now));
            watch.begins(now);
            assert!(!watch.is_due(at(25 * times + 24)));
        }
    }
}
