//! Opening files that another user may have put there: no link is followed on the way, opening waits for nothing, and the folders on the way are
//! shown as they were passed. For cool threads.

use super::dir::effective_user;
use super::from_minus_one;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf, absolute};

/// What every descriptor here is opened with.
const ALWAYS: libc::c_int = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// Symbolic links that are followed, as many as the kernel does.
const MOST_LINKS: u32 = 40;

/// Where a path leads: absolute and without links. Its last part need not be there. Root follows only root's links: where another user's lead is
/// that user's choice, and the file at their end might be one that only root may write.
///
/// # Errors
/// The system's reason, or which link is not followed.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    resolve_for(effective_user(), path)
}

fn resolve_for(user: u32, path: &Path) -> io::Result<PathBuf> {
    let (mut so_far, mut left, mut links) = (PathBuf::from("/"), parts(&absolute(path)?), 0);
    while let Some(name) = left.pop() {
        if name == ".." {
            so_far.pop();
            continue;
        }
        so_far.push(name);
        let found = match fs::symlink_metadata(&so_far) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && left.is_empty() => break,
            found => found?,
        };
        if !found.is_symlink() {
            continue;
        }
        let is_kernels = ["/sys", "/proc"].iter().any(|root| so_far.starts_with(root));
        if user == 0 && found.uid() != 0 && !is_kernels {
            let (link, owner) = (so_far.display(), found.uid());
            let why = format!(
                "{link} is a symbolic link of user {owner}, and root follows only root's links; name its target instead"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let to = fs::read_link(&so_far)?;
        so_far.pop();
        if to.is_absolute() {
            so_far = "/".into();
        }
        left.extend(parts(&to));
    }
    Ok(so_far)
}

/// The names in a path, and `..`, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    ReadWrite,
}

/// A file, and the folders that lead to it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    /// From the root on.
    pub(crate) folders: Vec<(PathBuf, Metadata)>,
}

/// Opens a file by its absolute path, of which no part may be a symbolic link. A pipe or a device is opened without waiting for its other end.
///
/// # Errors
/// What the kernel said, or that a part of the path is a link or no folder.
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
    let mut at = File::from(open_at(libc::AT_FDCWD, OsStr::new("/"), folder)?);
    let mut so_far = PathBuf::from("/");
    let mut folders = vec![(so_far.clone(), at.metadata()?)];
    for name in names {
        so_far.push(name);
        at = open_at(at.as_raw_fd(), name, folder).map(File::from).map_err(|error| is_link(&so_far, error))?;
        folders.push((so_far.clone(), at.metadata()?));
    }
    let how = match mode {
        Mode::Read => libc::O_RDONLY,
        Mode::Write => libc::O_WRONLY,
        Mode::ReadWrite => libc::O_RDWR,
    };
    let file = open_at(at.as_raw_fd(), last, how).map_err(|error| is_link(path, error))?;
    Ok(Opened { file: file.into(), folders })
}

fn is_link(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other(format!("{} is a symbolic link", path.display())),
        Some(libc::ENOTDIR) => io::Error::other(format!("{} is a symbolic link, or no folder", path.display())),
        _ => error,
    }
}

fn open_at(folder: RawFd, name: &OsStr, how: libc::c_int) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: the name ends with a zero and outlives the call; without O_CREAT no mode is read.
    let opened = from_minus_one(unsafe { libc::openat(folder, name.as_ptr(), how | ALWAYS) })?;
    // SAFETY: the kernel has just given it out, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

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
    fn a_path_is_resolved_as_the_kernel_does_and_by_root_through_roots_links_alone() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        fs::write(real.join("a/file"), "1").unwrap();
        for (to, link) in [("a", "l"), ("../l/./file", "a/m"), ("nowhere", "n"), ("loop", "loop")] {
            symlink(to, real.join(link)).unwrap();
        }
        symlink(real.join("l/b"), real.join("absolute")).unwrap();
        for path in ["a/file", "l/file", "l/m", "l/b/../m", "absolute/../file", "absolute", "."] {
            let path = real.join(path);
            assert_eq!(resolve_for(1, &path).unwrap(), path.canonicalize().unwrap(), "{}", path.display());
        }
        assert_eq!(resolve_for(1, &real.join("n")).unwrap(), real.join("nowhere"), "what is still to be made");
        assert_eq!(resolve_for(1, Path::new("/sys/class/net")).unwrap(), Path::new("/sys/class/net"));
        for (path, error) in [("none/file", libc::ENOENT), ("loop", libc::ELOOP)] {
            assert_eq!(resolve_for(1, &real.join(path)).unwrap_err().raw_os_error(), Some(error), "{path}");
        }
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make links of others");
        }
        assert_eq!(resolve_for(0, &real.join("l/m")).unwrap(), real.join("a/file"));
        lchown(real.join("l"), Some(65_534), None).unwrap();
        for path in ["l", "l/file", "a/m", "absolute/new"] {
            let error = resolve_for(0, &real.join(path)).unwrap_err().to_string();
            assert!(
                error.contains("/l is a symbolic link of user 65534, and root follows only root's links"),
                "{path}: {error}"
            );
        }
        assert_eq!(resolve_for(1, &real.join("l/file")).unwrap(), real.join("a/file"));
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
