//! Changes to names in a directory held by its descriptor: renaming, linking, removing.

use super::{Dir, c_name};
use crate::sys::from_minus_one;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;

impl Dir {
    /// Renames a file of this directory, within it or into another one. Replaces anything with the new name.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn rename(&self, name: impl AsRef<OsStr>, to: &Self, new_name: impl AsRef<OsStr>) -> io::Result<()> {
        let (old, new) = (c_name(name)?, c_name(new_name)?);
        let (at, new_at) = (self.handle.as_raw_fd(), to.handle.as_raw_fd());
        // SAFETY: both descriptors are open, and the names outlive the call.
        from_minus_one(unsafe { libc::renameat(at, old.as_ptr(), new_at, new.as_ptr()) }).map(drop)
    }

    /// Renames with the flags of `renameat2`.
    ///
    /// # Errors
    /// The system's reason; some file systems support none of the flags.
    pub(in crate::sys) fn rename_as(
        &self,
        name: &OsStr,
        of: &Self,
        other: &OsStr,
        how: libc::c_uint,
    ) -> io::Result<()> {
        let (one, other) = (c_name(name)?, c_name(other)?);
        let (at, other_at) = (self.handle.as_raw_fd(), of.handle.as_raw_fd());
        // Called by its number, because not every libc has the function.
        // SAFETY: both descriptors are open, and the names outlive the call.
        let done = unsafe { libc::syscall(libc::SYS_renameat2, at, one.as_ptr(), other_at, other.as_ptr(), how) };
        from_minus_one(done).map(drop)
    }

    /// Adds a hard link to a file of this directory, unless the new name exists.
    ///
    /// # Errors
    /// The system's reason.
    pub(in crate::sys) fn link(&self, name: &OsStr, to: &Self, new_name: &OsStr) -> io::Result<()> {
        let (old, new) = (c_name(name)?, c_name(new_name)?);
        let (at, new_at) = (self.handle.as_raw_fd(), to.handle.as_raw_fd());
        // SAFETY: both descriptors are open, and the names outlive the call.
        from_minus_one(unsafe { libc::linkat(at, old.as_ptr(), new_at, new.as_ptr(), 0) }).map(drop)
    }

    /// Removes a file, a link or a socket; a missing one is no error.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.unlink(name, 0)
    }

    /// Removes a directory in this one with the files in it, but nothing deeper.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn remove_dir(&self, name: &str) -> io::Result<()> {
        let inner = self.open_dir(name)?;
        inner.names().try_for_each(|file| inner.remove(&file))?;
        self.unlink(name, libc::AT_REMOVEDIR)
    }

    fn unlink(&self, name: impl AsRef<OsStr>, flags: libc::c_int) -> io::Result<()> {
        let (at, c_name) = (self.handle.as_raw_fd(), c_name(name)?);
        // SAFETY: the descriptor is open, and the name outlives the call.
        match from_minus_one(unsafe { libc::unlinkat(at, c_name.as_ptr(), flags) }) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
