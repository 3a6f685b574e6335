//! The file of a recording: found by its path, locked against other processes, and removed if nothing came of it.
//!
//! A lock belongs to the open file, so the kernel releases it when the process ends. It is tried with the file's folder
//! locked for that moment: no other hertzd finds the path without a locked file while one file follows another. A lock
//! counts only if the file is still at the path. May block, and waits up to 0.2 s for a file's lock, 0.5 s for a folder's.

use crate::sys::clock::pause;
use crate::sys::lock::{self, Holder, Taken};
use crate::sys::open::resolve;
use crate::time::Span;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tracing::warn;

/// How often a lock is tried before its holder is to blame, and the time between. It is tried as often again while no holder
/// is found: the lock may have been released a moment ago.
const ATTEMPTS: u32 = 50;
const BETWEEN: Span = Span::from_millis(2);

/// The same of a folder, which every hertzd locks for an instant only; but that may get no processor time meanwhile.
const ATTEMPTS_AT_FOLDER: u32 = 250;

/// What tells files apart: device and inode.
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

/// Equal for all paths that lead to the same file, whether it exists or not.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    File(FileId),
    Name(FileId, OsString), // in a folder
    Unknown(PathBuf),       // there is no such folder
}

impl Identity {
    /// The file that `path` leads to.
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
    /// The system's reason why there is no such folder, or which link root does not follow; the file itself need not exist.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let path = resolve(path)?;
        let folder = path.parent().ok_or(io::ErrorKind::IsADirectory)?;
        Ok(Self { folder: FileId::at(folder)?, path })
    }

    /// Whether both have the same name in the same folder.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.folder == other.folder && self.path.file_name() == other.path.file_name()
    }
}

/// A file that is open and locked. Dropping it unlocks it, and removes it if it was made here and never kept.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) file: File,
    path: PathBuf,
    made: bool,
}

/// What came of trying to lock a file. A file system that knows no locks is used without.
enum Attempt {
    Claimed(Claim),
    /// Another hertzd has locked this file.
    Locked(Option<Holder>),
    /// It has another name by now, or none.
    Moved,
}

impl Claim {
    /// Opens and locks the file at `path`, which has no symbolic links; makes it if there is none.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Self::after(path, || Ok(()))
    }

    /// The same after `put_aside` has moved away what is there. Nobody else gets the path in between.
    pub(super) fn after(path: &Path, put_aside: impl FnOnce() -> io::Result<()>) -> io::Result<Self> {
        let mut folder = lock_folder(path);
        put_aside()?;
        for attempt in 1..=2 * ATTEMPTS {
            let holder = match Self::attempt(path)? {
                Attempt::Claimed(claim) => return Ok(claim),
                Attempt::Locked(holder) => holder,
                Attempt::Moved => None,
            };
            // The holder needs the folder when its next file begins: it is not locked while this waits.
            let again = folder.take().is_some();
            if let Some(holder) = holder.filter(|_| attempt >= ATTEMPTS) {
                return Err(in_use(Some(&holder)));
            }
            pause(BETWEEN);
            folder = again.then(|| lock_folder(path)).flatten();
        }
        Err(in_use(None))
    }

    fn attempt(path: &Path) -> io::Result<Attempt> {
        let found = fs::symlink_metadata(path);
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            return Err(no_file());
        }
        // What has come there meanwhile is neither followed nor waited for.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)?;
        match lock::take(&file)? {
            Taken::Locked | Taken::Unsupported => {}
            Taken::Peer(holder) => return Ok(Attempt::Locked(holder)),
            // Another hertzd that it has kept from its lock has none to be seen.
            Taken::Stranger(holder) => match lock::writer(&file) {
                Some(writer) => return Ok(Attempt::Locked(Some(writer))),
                None => warn!("{}", not_kept_out(path, holder.as_ref())),
            },
        }
        // Its holder may have given the file another name, and then have closed it.
        let claim = Self { file, path: path.into(), made: found.is_err() };
        Ok(if claim.is_there() { Attempt::Claimed(claim) } else { Attempt::Moved })
    }

    /// The file stays when this is dropped.
    pub(super) const fn keep(&mut self) {
        self.made = false;
    }

    /// Whether the file is still at its path.
    pub(super) fn is_there(&self) -> bool {
        let own = self.file.metadata().map(|own| FileId::of(&own));
        own.and_then(|own| Ok(own == FileId::at(&self.path)?)).unwrap_or(false)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.made && self.file.metadata().is_ok_and(|own| own.len() == 0) && self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks the folder of a file for as long as the result lives. `None`: a program of another kind keeps it locked.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = File::open(folder_of(path)).ok()?;
    let is_free = |attempt| {
        if attempt > 0 {
            pause(BETWEEN);
        }
        !matches!(folder.try_lock(), Err(TryLockError::WouldBlock))
    };
    (0..ATTEMPTS_AT_FOLDER).any(is_free).then_some(folder)
}

/// What is said where a lock keeps nobody out.
fn not_kept_out(path: &Path, holder: Option<&Holder>) -> String {
    let holder = holder.map_or_else(|| "another process".to_owned(), Holder::to_string);
    format!(
        "{} is locked by {holder}, in a way that keeps hertzd from its own lock but not from the file; recording there without the lock",
        path.display()
    )
}

/// Another process has locked the file.
pub(crate) fn in_use(holder: Option<&Holder>) -> io::Error {
    let holder = holder.map_or_else(|| "another process".to_owned(), Holder::to_string);
    let text = format!("in use by {holder}; stop that process, or record to another file");
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

/// What is at the path cannot be written to.
pub(super) fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// The folder that a path is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::dir::effective_user;
    use std::os::unix::fs::{lchown, symlink};
    use std::thread;

    #[test]
    fn who_may_only_read_a_file_keeps_no_recording_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        fs::write(&path, "").unwrap();
        let reader = File::open(&path).unwrap();
        reader.try_lock().unwrap();
        lock::stranger(&reader, false, (0, 0));
        let claim = Claim::take(&path).unwrap();
        assert!(claim.is_there());
        drop((claim, reader));
        let _own = Claim::take(&path).unwrap();
        assert!(Claim::take(&path).unwrap_err().to_string().contains(&format!("(pid {})", std::process::id())));
    }

    #[test]
    fn what_takes_the_place_of_the_file_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("x.csv"), folder.path().join("victim"));
        symlink(&victim, &path).unwrap();
        Claim::take(&path).unwrap_err();
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

    /// Several try to get in while one file follows another, as a slow machine makes them: each waits for the lock longer
    /// than a file lasts.
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
                let finished = folder.path().join(format!("x.{files}.csv"));
                own = Claim::after(&path, || fs::rename(&path, finished)).unwrap();
                own.keep();
                assert!(own.is_there());
                files += 1;
                pause(BETWEEN);
            }
            for refused in others.into_iter().flat_map(|other| other.join().unwrap()) {
                assert!(refused.contains(&format!("(pid {})", std::process::id())), "{refused}");
            }
        });
    }
}
