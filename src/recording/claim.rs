//! The file of a recording: found by its path, locked against other processes, and removed if it was never used.
//!
//! A lock belongs to the open file, so the kernel releases it when the process ends. A lock counts only if the file is still at the path.
//! When one file follows another, no other hertzd ever finds the path without a locked file: the next file is locked before it takes the
//! place of the previous one, and the two exchange their names. The folder is kept open from the moment the path was resolved. May block:
//! waits up to 0.2 s for another hertzd's lock on a file, but never for a stranger's lock.

use crate::sys::clock::pause;
use crate::sys::dir::effective_user;
use crate::sys::entry::Entry;
use crate::sys::lock::{self, Holder, Taken};
use crate::sys::trust::may_be_planted;
use crate::time::Span;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// How often to try for a lock before blaming its holder, and the time between attempts. If no holder is found, it tries that often again,
/// because the lock may just have been released.
const ATTEMPTS: u32 = 50;
const BETWEEN: Span = Span::from_millis(2);

/// Identifies a file by its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }

    /// The file that is now at `path`.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::of(&metadata))
    }
}

/// Equal for all paths that lead to the same file, whether the file exists or not.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    File(FileId),
    Name(FileId, OsString), // a name in a folder
    Unknown(PathBuf),       // the folder does not exist
}

impl Identity {
    /// The identity of the file that `path` leads to.
    pub(crate) fn of(path: &Path) -> Self {
        match (FileId::at(path), Target::of(path)) {
            (Ok(file), _) => Self::File(file),
            (Err(_), Ok(Target { folder, path })) => Self::Name(folder, path.file_name().unwrap_or_default().into()),
            (Err(_), Err(_)) => Self::Unknown(path.into()),
        }
    }
}

/// Where a path leads.
#[derive(Clone, Debug)]
pub(super) struct Target {
    folder: FileId,
    /// Absolute and without symbolic links.
    pub(super) path: PathBuf,
}

impl Target {
    /// # Errors
    /// The system's reason why the folder cannot be found, or the link that root refuses to follow. The file itself need not exist.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let entry = Entry::find(path)?;
        Ok(Self { folder: FileId::of(&entry.folder().metadata()?), path: entry.path() })
    }

    /// Whether both have the same name in the same folder.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.folder == other.folder && self.path.file_name() == other.path.file_name()
    }
}

/// An open and locked file. Dropping it unlocks the file, and removes the file if it was created here and never kept.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) file: File,
    pub(super) entry: Entry,
    made: bool,
    asks: bool, // asks for the lock until it is known to hold it
}

/// The result of trying to lock a file. On a file system without locks, the file is used without a lock.
enum Attempt {
    Claimed(Claim),
    /// Another hertzd has locked this file.
    Locked(Option<Holder>),
    /// The file has been renamed or removed meanwhile.
    Moved,
}

impl Claim {
    /// Opens and locks the file at `path`; creates the file if it does not exist.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Self::take_at(&Entry::find(path)?)
    }

    /// The same for an entry in an open folder.
    pub(super) fn take_at(entry: &Entry) -> io::Result<Self> {
        for attempt in 1..=2 * ATTEMPTS {
            match Self::attempt(entry)? {
                Attempt::Claimed(claim) => return Ok(claim),
                Attempt::Locked(Some(holder)) if attempt >= ATTEMPTS => return Err(in_use(Some(&holder))),
                Attempt::Locked(_) | Attempt::Moved => pause(BETWEEN),
            }
        }
        Err(in_use(None))
    }

    fn attempt(entry: &Entry) -> io::Result<Attempt> {
        let found = entry.metadata();
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            return Err(no_file());
        }
        // If the entry has been replaced meanwhile, the open neither follows a link nor waits.
        let file = entry.open(libc::O_RDWR | libc::O_CREAT)?;
        is_for_us(entry, &file)?;
        if let Some(holder) = locked(entry, &file)? {
            return Ok(Attempt::Locked(holder));
        }
        // The previous holder may have renamed the file and then closed it.
        let claim = Self { file, entry: entry.clone(), made: found.is_err(), asks: true };
        Ok(if claim.has_its_name() { Attempt::Claimed(claim) } else { Attempt::Moved })
    }

    /// Creates and locks a new file at `entry`. Fails if anything is there already.
    pub(super) fn make(entry: &Entry) -> io::Result<Self> {
        let file = entry.open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
        let made = Self { file, entry: entry.clone(), made: true, asks: true };
        match locked(entry, &made.file)? {
            Some(holder) => Err(in_use(holder.as_ref())),
            None => Ok(made),
        }
    }

    /// Puts this newly created file in the place of the file at `place`, which gets this file's name.
    ///
    /// # Errors
    /// The system's reason; the only change then is that this file is gone.
    pub(super) fn follows(mut self, place: &Entry) -> io::Result<Self> {
        match self.entry.exchange(place) {
            Ok(()) => {
                self.entry = place.clone();
                Ok(self)
            }
            Err(error) if cannot_exchange(&error) => self.follows_in_two_steps(place),
            Err(error) => Err(error),
        }
    }

    /// The same on a file system that cannot exchange names. For an instant the path has no file: another hertzd may take the path, which
    /// is then in use.
    fn follows_in_two_steps(mut self, place: &Entry) -> io::Result<Self> {
        place.rename(&self.entry)?;
        self.keep();
        Self::take_at(place)
    }

    /// Keeps the file when this is dropped.
    pub(super) const fn keep(&mut self) {
        self.made = false;
    }

    /// Asks for the lock again if a stranger held it. Otherwise, a hertzd that starts after the stranger has released it would find the
    /// file unlocked.
    pub(super) fn ask_again(&mut self) {
        if !self.asks {
            return;
        }
        let taken = lock::take(&self.file);
        // A holder that cannot be seen may still be the stranger.
        self.asks = matches!(taken, Ok(Taken::Stranger(_) | Taken::Peer(None)));
        if let Ok(Taken::Peer(Some(holder))) = taken {
            let path = self.entry.path();
            error!(
                "{} is also recorded to by {holder}, which began while hertzd had no lock of it: stop one of the two",
                path.display()
            );
        }
    }

    /// Whether its path still leads to the file.
    pub(super) fn is_there(&self) -> bool {
        self.is(FileId::at(&self.entry.path()))
    }

    /// Whether the file still has its name in the open folder.
    pub(super) fn has_its_name(&self) -> bool {
        self.is(self.entry.metadata().map(|found| FileId::of(&found)))
    }

    fn is(&self, found: io::Result<FileId>) -> bool {
        found.is_ok_and(|found| self.file.metadata().is_ok_and(|own| FileId::of(&own) == found))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.made && self.file.metadata().is_ok_and(|own| own.len() == 0) && self.has_its_name() {
            let _ = self.entry.remove();
        }
    }
}

/// Locks a file against other hertzd processes. `Some`: another one has locked it; its holder may be unknown.
fn locked(entry: &Entry, file: &File) -> io::Result<Option<Option<Holder>>> {
    match lock::take(file)? {
        Taken::Locked | Taken::Unsupported => Ok(None),
        Taken::Peer(holder) => Ok(Some(holder)),
        // The stranger may also have kept another hertzd from getting a lock, so that no lock of it can be seen.
        Taken::Stranger(holder) => match lock::writer(file) {
            Some(writer) => Ok(Some(Some(writer))),
            None => {
                let path = entry.path();
                lock::stranger(file, None, holder)
                    .name(move |holder| warn!("{}", not_kept_out(&path, holder.as_ref())));
                Ok(None)
            }
        },
    }
}

/// Refuses anything but a regular file. For root, in a folder that others may write to, also refuses a file with a second name: under that
/// name, it may be a file that only root may write.
fn is_for_us(entry: &Entry, file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(no_file());
    }
    if effective_user() != 0 || !may_be_planted(&found, &entry.folder().metadata()?, 0) {
        return Ok(());
    }
    let text = "it has another name too (a hard link), in a folder that other users may write to, and root does not write to such a file; move it \
                away";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Whether the error means that this file system cannot exchange names.
fn cannot_exchange(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

/// The warning about a lock that keeps no one out.
fn not_kept_out(path: &Path, holder: Option<&Holder>) -> String {
    let holder = holder.map_or_else(|| "another process".to_owned(), Holder::to_string);
    format!(
        "{} is locked by {holder}, in a way that keeps hertzd from its own lock but not from the file; recording there without the lock, and asking for it \
         again every second",
        path.display()
    )
}

/// The error that another process has locked the file.
pub(crate) fn in_use(holder: Option<&Holder>) -> io::Error {
    let holder = holder.map_or_else(|| "another process".to_owned(), Holder::to_string);
    let text = format!("in use by {holder}; stop that process, or record to another file");
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

/// The error that what is at the path is not a regular file.
pub(super) fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// The folder that contains the path.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::dir::effective_user;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    use std::thread;

    #[test]
    fn who_may_only_read_a_file_keeps_no_recording_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        fs::write(&path, "").unwrap();
        let reader = File::open(&path).unwrap();
        reader.try_lock().unwrap();
        lock::lock_as_stranger(&reader, false, (0, 0));
        let claim = Claim::take(&path).unwrap();
        assert!(claim.is_there());
        drop((claim, reader));
        let _own = Claim::take(&path).unwrap();
        assert!(Claim::take(&path).unwrap_err().to_string().contains(&format!("(pid {})", std::process::id())));
    }

    #[test]
    fn a_folder_that_a_stranger_has_locked_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let reader = File::open(folder.path()).unwrap();
        reader.try_lock().unwrap();
        let mut claim = Claim::take(&folder.path().join("x.csv")).unwrap();
        claim.keep();
        let next = Claim::make(&claim.entry.beside("x.1.csv")).unwrap().follows(&claim.entry).unwrap();
        assert!(next.is_there() && !claim.is_there());
        drop((claim, next));
        assert!(!folder.path().join("x.csv").exists(), "one that never begins goes");
        // The same holds if names cannot be exchanged.
        let mut claim = Claim::take(&folder.path().join("x.csv")).unwrap();
        claim.keep();
        let next = Claim::make(&claim.entry.beside("x.2.csv")).unwrap().follows_in_two_steps(&claim.entry).unwrap();
        assert!(next.is_there() && !claim.is_there());
        assert!(folder.path().join("x.2.csv").exists());
        assert!(reader.try_lock().is_ok() && folder.path().join("x.1.csv").exists());
    }

    #[test]
    fn root_writes_to_no_file_that_another_user_may_have_given_its_name() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make files of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("theirs/x.csv"), folder.path().join("victim"));
        fs::create_dir(folder.path().join("theirs")).unwrap();
        fs::write(&victim, "").unwrap();
        fs::hard_link(&victim, &path).unwrap();
        drop(Claim::take(&path).unwrap());
        let theirs = folder.path().join("theirs");
        for (owner, mode) in [(0, 0o1777), (65_534, 0o755)] {
            fs::set_permissions(&theirs, fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(&theirs, Some(owner), None).unwrap();
            let error = Claim::take(&path).unwrap_err().to_string();
            assert!(error.contains("it has another name too (a hard link)"), "{error}");
        }
    }

    #[test]
    fn what_takes_the_place_of_the_file_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("x.csv"), folder.path().join("victim"));
        symlink(&victim, &path).unwrap();
        // As found by a process that resolved the path before the link was placed.
        Claim::take_at(&Entry::find(&folder.path().join("y")).unwrap().beside("x.csv")).unwrap_err();
        assert!(!victim.exists(), "nothing is made at the end of a link");
    }

    #[test]
    fn root_records_through_no_link_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, victim) = (folder.path().join("x.mcap"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &theirs).unwrap();
        assert_eq!(Target::of(&theirs).unwrap().path, victim.canonicalize().unwrap());
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make links of others");
        }
        lchown(&theirs, Some(65_534), None).unwrap();
        let error = Target::of(&theirs).unwrap_err().to_string();
        assert!(error.contains("x.mcap is a symbolic link of user 65534"), "{error}");
    }

    /// Several threads try to get in while one file follows another, as a slow machine might cause it: each waits for the lock longer than
    /// a file lasts.
    #[test]
    fn nobody_gets_a_path_whose_files_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut own = Claim::take(&path).unwrap();
        own.keep();
        thread::scope(|scope| {
            let refused = || (0..2).map(|_| Claim::take(&path).unwrap_err().to_string()).collect::<Vec<_>>();
            let others: Vec<_> = (0..2).map(|_| scope.spawn(refused)).collect();
            let mut files = 0;
            while !others.iter().all(thread::ScopedJoinHandle::is_finished) {
                let finished = own.entry.beside(format!("x.{files}.csv"));
                own = Claim::make(&finished).unwrap().follows(&own.entry).unwrap();
                own.keep();
                assert!(own.is_there());
                files += 1;
                pause(BETWEEN);
            }
            for refused in others.into_iter().flat_map(|other| other.join().unwrap()) {
                // The holder is not always known: it may have begun the next file before it could be identified.
                assert!(refused.starts_with("in use by "), "{refused}");
            }
        });
    }
}
