//! The file of a recording: found by its path, locked against other processes, and removed if nothing came of it.
//!
//! A lock belongs to the open file, so the kernel releases it when the process ends. It is taken with the file's folder
//! locked for that moment: no other hertzd finds the path without a locked file while one file follows another. May block,
//! and waits up to 0.2 s for a lock.

use crate::sys::clock::pause;
use crate::sys::lock::{self, Holder};
use crate::time::Span;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often a lock is tried before its holder is to blame, and the time between. It is tried as often again while no holder
/// is found: the lock may have been released a moment ago.
const ATTEMPTS: u32 = 50;
const BETWEEN: Span = Span::from_millis(2);

/// Symbolic links that are followed, as many as the kernel does.
const MOST_LINKS: u32 = 40;

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
    /// The system's reason why there is no such folder; the file itself need not exist.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let Ok(to) = fs::read_link(&path) else { break };
            path = folder_of(&path).join(to);
        }
        let folder = folder_of(&path).canonicalize()?;
        let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        Ok(Self { folder: FileId::at(&folder)?, path: folder.join(name) })
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

impl Claim {
    /// Opens and locks the file at `path`, which has no symbolic links; makes it if there is none.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        Self::after(path, || Ok(()))
    }

    /// The same after `put_aside` has moved away what is there. Nobody else gets the path in between.
    pub(super) fn after(path: &Path, put_aside: impl FnOnce() -> io::Result<()>) -> io::Result<Self> {
        let _folder = File::open(folder_of(path)).ok().filter(|folder| locked(folder).is_ok());
        put_aside()?;
        let found = fs::metadata(path);
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            return Err(no_file());
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        locked(&file)?;
        Ok(Self { file, path: path.into(), made: found.is_err() })
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

/// Locks a file or folder. A file system that knows no locks is used without.
fn locked(file: &File) -> io::Result<()> {
    let mut holder = None;
    for attempt in 1..=2 * ATTEMPTS {
        match file.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
            Err(TryLockError::WouldBlock) if attempt >= ATTEMPTS => holder = lock::holder(&file.metadata()?),
            Err(TryLockError::WouldBlock) => {}
        }
        if holder.is_some() {
            break;
        }
        pause(BETWEEN);
    }
    Err(in_use(holder.as_ref()))
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
