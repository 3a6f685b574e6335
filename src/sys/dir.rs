//! A directory held by its descriptor. Names in it cannot lead elsewhere: links are not followed, and replacing the directory at its path
//! has no effect.
//!
//! For setup, and for threads that may wait for a disk. Reads no clock.

mod names;

use super::open::open_in;
use super::{from_minus_one, invalid};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};

/// The user whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: no arguments, no memory; it cannot fail.
    unsafe { libc::geteuid() }
}

/// Who may read files that are created in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Only the owner.
    #[default]
    Owner,
    /// The group with this number too. `None`, or if this process is not a member: the process's own group.
    Group(Option<u32>),
}

impl Readers {
    const fn gid(self) -> Option<u32> {
        match self {
            Self::Owner => None,
            Self::Group(gid) => gid,
        }
    }

    const fn mode(self, owner: u32, group: u32) -> u32 {
        match self {
            Self::Owner => owner,
            Self::Group(_) => owner | group,
        }
    }
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    handle: File,
    path: PathBuf, // for messages only
    readers: Readers,
}

impl Dir {
    /// Opens it; the last part of the path must not be a link.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let handle = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path);
        Self::opened(handle, path.into())
    }

    /// Opens a directory in it.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn open_dir(&self, name: &str) -> io::Result<Self> {
        Self::opened(self.open_file(name, libc::O_RDONLY | libc::O_DIRECTORY), self.path.join(name))
    }

    /// Wraps an open handle, perhaps a mere reference (`O_PATH`), that was found at this path.
    pub(super) const fn of(handle: File, path: PathBuf) -> Self {
        Self { handle, path, readers: Readers::Owner }
    }

    fn opened(handle: io::Result<File>, path: PathBuf) -> io::Result<Self> {
        let handle = handle.map_err(|error| match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                io::Error::new(error.kind(), "it is a link, and links are not followed here; remove it")
            }
            _ => error,
        })?;
        Ok(Self { handle, path, readers: Readers::Owner })
    }

    /// Sets who may read what is created in it from now on.
    pub(crate) fn for_readers(self, readers: Readers) -> Self {
        Self { readers, ..self }
    }

    /// Where it was when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its owner, mode and identity.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.handle.metadata()
    }

    /// Refuses a directory in which another user could replace files.
    ///
    /// # Errors
    /// It belongs to another user than this process, or others may write to it.
    pub(crate) fn must_be_own(&self) -> io::Result<()> {
        let (found, own) = (self.metadata()?, effective_user());
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        match found.mode() & 0o022 {
            _ if found.uid() != own => refused(format!(
                "it belongs to user {}, and this process runs as user {own}: another user could exchange its files",
                found.uid()
            )),
            0 => Ok(()),
            _ => refused(format!(
                "others may write to it (mode {:04o}) and could exchange its files; `chmod go-w` it",
                found.mode() & 0o7777
            )),
        }
    }

    /// Creates a directory in it that only this user may enter, or opens an existing one that belongs to this user.
    ///
    /// # Errors
    /// The system's reason; the name belongs to another user's directory, a link or a file.
    pub(crate) fn private_dir(&self, name: &str) -> io::Result<Self> {
        let (at, c_name) = (self.handle.as_raw_fd(), c_name(name)?);
        // SAFETY: the descriptor is open, and the name outlives the call.
        match from_minus_one(unsafe { libc::mkdirat(at, c_name.as_ptr(), 0o700) }) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let made = self.open_dir(name)?;
        if made.metadata()?.uid() == effective_user() {
            made.handle.set_permissions(Permissions::from_mode(0o700))?;
        }
        made.must_be_own()?;
        Ok(made)
    }

    /// Opens a file in it, never through a link, and without waiting for the other end of a pipe. New files are for this user only.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn open_file(&self, name: impl AsRef<OsStr>, flags: libc::c_int) -> io::Result<File> {
        self.open_with(name, flags | libc::O_NOFOLLOW, 0o600)
    }

    /// The same, but follows a link unless the flags forbid it. `mode` applies to a new file.
    pub(super) fn open_with(
        &self,
        name: impl AsRef<OsStr>,
        flags: libc::c_int,
        mode: libc::c_uint,
    ) -> io::Result<File> {
        open_in(self.handle.as_raw_fd(), &c_name(name)?, flags, mode)
    }

    /// Creates a new file for the directory's readers, replacing an existing one.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        self.remove(name)?;
        let file = self.open_file(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)?;
        self.share(&file)?;
        Ok(file)
    }

    /// Lets the directory's readers, and no others, read an existing file of this user.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn share_file(&self, name: &str) -> io::Result<()> {
        let file = self.open_file(name, libc::O_RDONLY)?;
        self.share(&file)
    }

    fn share(&self, file: &File) -> io::Result<()> {
        // The kernel refuses this to a process outside the group. The file then keeps the user's own group.
        let _ = self.readers.gid().map(|gid| fchown(file, None, Some(gid)));
        file.set_permissions(Permissions::from_mode(self.readers.mode(0o600, 0o040)))
    }

    /// Lets these readers, and no others, connect to a socket that this user has just bound here.
    ///
    /// # Errors
    /// The system's reason; something else has that name by now.
    pub(crate) fn share_socket(&self, name: &OsStr, readers: Readers) -> io::Result<()> {
        let socket = self.open_file(name, libc::O_PATH)?;
        let found = socket.metadata()?;
        if !found.file_type().is_socket() || found.uid() != effective_user() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else has taken the socket's place"));
        }
        // An `O_PATH` descriptor can only be changed through its path in /proc.
        let itself = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let _ = readers.gid().map(|gid| chown(&itself, None, Some(gid)));
        fs::set_permissions(itself, Permissions::from_mode(readers.mode(0o600, 0o060)))
    }

    /// A path through the descriptor, for calls that take no descriptor.
    pub(super) fn by_descriptor(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }

    /// The names in it. They are only names: look up what they refer to through the descriptor.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn list(&self) -> io::Result<impl Iterator<Item = OsString> + use<>> {
        Ok(fs::read_dir(self.by_descriptor())?.flatten().map(|entry| entry.file_name()))
    }

    /// The names in it that are valid UTF-8.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + use<> {
        self.list().into_iter().flatten().filter_map(|name| name.into_string().ok())
    }

    /// Locks the directory itself for as long as the returned file is open. Anyone who may read the directory can lock it, so use this only
    /// for private ones. `None`: it could not be locked.
    pub(crate) fn try_flock(&self) -> Option<File> {
        self.flock().ok()
    }

    /// The same, with the reason why it could not be locked.
    ///
    /// # Errors
    /// It is locked already, or locking is not supported here.
    pub(crate) fn flock(&self) -> Result<File, TryLockError> {
        let lock = self.handle.try_clone().map_err(TryLockError::Error)?;
        lock.try_lock().map(|()| lock)
    }

    /// Whether its path still leads to it.
    pub(crate) fn is_at_its_path(&self) -> bool {
        let same = |own: Metadata, there: Metadata| (own.dev(), own.ino()) == (there.dev(), there.ino());
        self.metadata().ok().zip(fs::symlink_metadata(&self.path).ok()).is_some_and(|(own, there)| same(own, there))
    }
}

/// Checks that a name is a single part of a path.
fn c_name(name: impl AsRef<OsStr>) -> io::Result<CString> {
    match name.as_ref().as_bytes() {
        b"" | b"." | b".." => Err(invalid()),
        name if name.contains(&b'/') => Err(invalid()),
        name => CString::new(name).map_err(|_| invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn links_are_not_followed() {
        let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = target.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(target.path(), folder.path().join("place")).unwrap();
        symlink(&victim, folder.path().join("flight")).unwrap();
        let before = fs::metadata(target.path()).unwrap().mode();
        let dir = Dir::open(folder.path()).unwrap();
        for opened in [dir.private_dir("place"), dir.open_dir("place"), Dir::open(&folder.path().join("place"))] {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("it is a link"), "{error}");
        }
        dir.open_file("flight", libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC).unwrap_err();
        dir.create("flight").unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("flight")).unwrap(), "new");
        assert!(dir.share_socket("flight".as_ref(), Readers::Owner).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::metadata(target.path()).unwrap().mode(), before);
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(dir.create(name).is_err() && dir.open_dir(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path()).unwrap();
        dir.must_be_own().unwrap();
        for bits in [0o720, 0o702, 0o1777] {
            fs::set_permissions(folder.path(), Permissions::from_mode(bits)).unwrap();
            let error = dir.must_be_own().unwrap_err().to_string();
            assert!(error.contains("others may write to it"), "{error}");
        }
        // One of this user's, from an earlier version or an open umask, becomes private.
        fs::create_dir(folder.path().join("own")).unwrap();
        fs::set_permissions(folder.path().join("own"), Permissions::from_mode(0o777)).unwrap();
        dir.private_dir("own").unwrap();
        assert_eq!(mode(&folder.path().join("own")), 0o700);
        if effective_user() == 0 {
            fs::create_dir(folder.path().join("theirs")).unwrap();
            chown(folder.path().join("theirs"), Some(65_534), None).unwrap();
            let error = dir.private_dir("theirs").unwrap_err().to_string();
            assert!(error.contains("it belongs to user 65534"), "{error}");
        }
    }

    #[test]
    fn what_is_made_is_for_its_readers() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let groups = match effective_user() {
            0 => vec![None, Some(65_534)],
            _ => vec![None],
        };
        for readers in groups.into_iter().map(Readers::Group).chain([Readers::Owner]) {
            let dir = Dir::open(folder.path()).unwrap().for_readers(readers);
            drop(dir.create("file").unwrap());
            drop(UnixListener::bind(at("socket")).unwrap());
            dir.share_socket("socket".as_ref(), readers).unwrap();
            let wanted = if readers == Readers::Owner { [0o600, 0o600] } else { [0o640, 0o660] };
            assert_eq!([mode(&at("file")), mode(&at("socket"))], wanted, "{readers:?}");
            if let Readers::Group(Some(gid)) = readers {
                assert_eq!(["file", "socket"].map(|name| fs::metadata(at(name)).unwrap().gid()), [gid; 2]);
            }
            dir.remove("socket").unwrap();
        }
    }

    #[test]
    fn a_directory_keeps_its_meaning_when_its_path_changes() {
        let folder = tempfile::tempdir().unwrap();
        let place = Dir::open(folder.path()).unwrap();
        let (one, other) = (place.private_dir("one").unwrap(), place.private_dir("other").unwrap());
        drop(one.create("file").unwrap());
        fs::rename(folder.path().join("one"), folder.path().join("moved")).unwrap();
        assert!(!one.is_at_its_path() && other.is_at_its_path());
        one.rename("file", &other, "kept").unwrap();
        assert!(folder.path().join("other/kept").exists());
        place.remove_dir("other").unwrap();
        assert_eq!(place.names().collect::<Vec<_>>(), ["moved"]);
        place.remove("never").unwrap();
    }
}
