//! Opens files that another user may have put there. No link is followed on the way, opening never waits, and the folders on the way are
//! returned as they were when passed. For cool threads.

use super::from_minus_one;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The flags that every descriptor here is opened with.
const ALWAYS: libc::c_int = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    ReadWrite,
}

/// A file and the folders that lead to it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    /// From the root on.
    pub(crate) folders: Vec<(PathBuf, Metadata)>,
}

/// Opens a file by its absolute path, of which no part may be a symbolic link. A pipe or a device is opened without waiting for its other
/// end.
///
/// # Errors
/// The kernel's reason, or that a part of the path is a link or not a folder.
pub(crate) fn without_links(path: &Path, mode: Mode) -> io::Result<Opened> {
    let mut names = path.components();
    if names.next() != Some(Component::RootDir) {
        return Err(io::Error::other("the path is not absolute"));
    }
    let names = names.map(|name| match name {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::other("the path has \"..\" in it")),
    });
    let mut names = names.collect::<io::Result<Vec<&OsStr>>>()?;
    let Some(last) = names.pop() else { return Err(io::ErrorKind::IsADirectory.into()) };
    let folder = libc::O_PATH | libc::O_DIRECTORY;
    let mut at = open_at(libc::AT_FDCWD, OsStr::new("/"), folder)?;
    let mut so_far = PathBuf::from("/");
    let mut folders = vec![(so_far.clone(), at.metadata()?)];
    for name in names {
        so_far.push(name);
        at = open_at(at.as_raw_fd(), name, folder).map_err(|error| is_link(&so_far, error))?;
        folders.push((so_far.clone(), at.metadata()?));
    }
    let how = match mode {
        Mode::Read => libc::O_RDONLY,
        Mode::Write => libc::O_WRONLY,
        Mode::ReadWrite => libc::O_RDWR,
    };
    let file = open_at(at.as_raw_fd(), last, how).map_err(|error| is_link(path, error))?;
    Ok(Opened { file, folders })
}

fn is_link(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other(format!("{} is a symbolic link", path.display())),
        Some(libc::ENOTDIR) => io::Error::other(format!("{} is a symbolic link, or no folder", path.display())),
        _ => error,
    }
}

/// Opens the file with this name in a folder, without following a link.
pub(super) fn open_at(folder: RawFd, name: &OsStr, how: libc::c_int) -> io::Result<File> {
    open_in(folder, &CString::new(name.as_bytes())?, how | libc::O_NOFOLLOW, 0)
}

/// The same, but follows a link unless the flags forbid it. `mode` applies to a new file.
pub(super) fn open_in(folder: RawFd, name: &CStr, how: libc::c_int, mode: libc::c_uint) -> io::Result<File> {
    // SAFETY: the name ends with a zero and outlives the call.
    let opened = from_minus_one(unsafe { libc::openat(folder, name.as_ptr(), how | ALWAYS, mode) })?;
    // SAFETY: the kernel has just created it, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(opened) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_is_followed_and_the_folders_are_shown() {
        if crate::sys::emulation::cannot_be_emulated(crate::sys::emulation::OTHER_ROOT) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("a")).unwrap();
        fs::write(real.join("a/file"), "1").unwrap();
        symlink(real.join("a"), real.join("b")).unwrap();
        symlink(real.join("a/file"), real.join("link")).unwrap();
        let opened = without_links(&real.join("a/file"), Mode::Read).unwrap();
        assert_eq!(opened.folders.last().unwrap().0, real.join("a"));
        assert_eq!(opened.folders[0].0, Path::new("/"));
        for (path, why) in [
            ("b/file", "/b is a symbolic link, or no folder"),
            ("link", "/link is a symbolic link"),
            ("a/../a/file", "\"..\""),
        ] {
            let error = without_links(&real.join(path), Mode::Write).unwrap_err().to_string();
            assert!(error.contains(why), "{path}: {error}");
        }
        assert_eq!(without_links(&real.join("c/file"), Mode::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(without_links(Path::new("a/file"), Mode::Read).is_err());
    }

    #[test]
    fn a_pipe_without_a_reader_is_not_waited_for() {
        if crate::sys::emulation::cannot_be_emulated(crate::sys::emulation::OTHER_ROOT) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().canonicalize().unwrap().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(without_links(&pipe, Mode::Write).unwrap_err().raw_os_error(), Some(libc::ENXIO));
        assert!(!without_links(&pipe, Mode::Read).unwrap().file.metadata().unwrap().is_file());
    }
}
