//! A name in a folder that is held by its descriptor. The path is walked once, folder by folder. If another user replaces one of those
//! folders later, files are still made, renamed and removed where the path led originally. For cool threads.

use super::dir::{Dir, effective_user};
use super::from_minus_one;
use super::open::open_at;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Error, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf, absolute};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most symbolic links that are followed: as many as the kernel allows.
const MOST_LINKS: u32 = 40;

/// The longest text of a link, in bytes.
const LONGEST_LINK: usize = 4_096;

/// Write permission for anyone but a folder's owner. In a sticky folder, those others cannot move files that are not theirs.
const OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Where a path leads: an open folder and a name in it, which need not exist.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    folder: Arc<Dir>,
    name: OsString,
}

/// Opens the file at a path; never creates one. Root follows only root's links.
///
/// # Errors
/// See [`Entry::find`]; the system's reason.
pub(crate) fn open(path: &Path, flags: libc::c_int) -> io::Result<File> {
    Entry::find(path)?.open(flags)
}

/// The absolute path, without links, that a path leads to. Its last part need not exist. Do the work through the [`Entry`], which cannot
/// lead elsewhere afterwards.
///
/// # Errors
/// The system's reason, or the link that root does not follow.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    Entry::find(path).map(|entry| entry.path())
}

impl Entry {
    /// Follows the links on the way and the one at the end. Root follows only links that root alone could have created: another user
    /// chooses where their own links lead, perhaps to a file that only root may read or write.
    ///
    /// # Errors
    /// The system's reason, or the link that is not followed.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        Self::find_for(effective_user(), path)
    }

    pub(super) fn find_for(user: u32, path: &Path) -> io::Result<Self> {
        let (mut left, mut links) = (parts(&absolute(path)?), 0);
        let mut passed = vec![(PathBuf::from("/"), open_at(libc::AT_FDCWD, OsStr::new("/"), libc::O_PATH)?)];
        while let Some(name) = left.pop() {
            let Some((folder, handle)) = passed.last() else { break };
            if name == ".." {
                passed.truncate((passed.len() - 1).max(1));
                continue;
            }
            let here = folder.join(&name);
            let is_last = left.is_empty();
            // The root cannot be replaced, but the folder that QEMU's user emulation opens for it is a different one.
            let found = match passed.len() {
                1 => open_part(libc::AT_FDCWD, here.as_os_str(), is_last),
                _ => open_part(handle.as_raw_fd(), &name, is_last),
            };
            let found = match found {
                Err(error) if error.kind() == ErrorKind::NotFound && is_last => return Self::of(passed.pop(), name),
                found => found?,
            };
            let facts = found.metadata()?;
            let is_kernels = ["/sys", "/proc"].iter().any(|root| here.starts_with(root));
            match facts.is_symlink() {
                // A link to what a process has open has no path.
                true if is_last && here.starts_with("/proc") => return Self::of(passed.pop(), name),
                true if user == 0 && !is_kernels => is_roots_link(&here, &facts, &passed)?,
                true => {}
                false if facts.is_dir() || is_last => {
                    passed.push((here, found));
                    continue;
                }
                false => return Err(Error::from_raw_os_error(libc::ENOTDIR)),
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(Error::from_raw_os_error(libc::ELOOP));
            }
            let to = text_of(&found)?;
            // A link to the files of a process: its text is the path as that process sees it.
            if here.starts_with("/proc") && identity(&here)? != identity(&folder.join(&to))? {
                let why = format!(
                    "{} leads to the files that another process sees: name them by their own path",
                    here.display()
                );
                return Err(Error::new(ErrorKind::Unsupported, why));
            }
            passed.truncate(if to.is_absolute() { 1 } else { passed.len() });
            left.extend(parts(&to));
        }
        let name = passed.pop().and_then(|(path, _)| Some(path.file_name()?.to_owned()));
        Self::of(passed.pop(), name.ok_or(ErrorKind::IsADirectory)?)
    }

    fn of(folder: Option<(PathBuf, File)>, name: OsString) -> io::Result<Self> {
        let (path, handle) = folder.ok_or(ErrorKind::IsADirectory)?;
        Ok(Self { folder: Arc::new(Dir::of(handle, path)), name })
    }

    /// Another name in the same folder.
    pub(crate) fn beside(&self, name: impl Into<OsString>) -> Self {
        Self { folder: self.folder.clone(), name: name.into() }
    }

    /// A temporary name in the same folder for the content that is to replace this entry. No other thread gets the same one.
    pub(crate) fn draft(&self) -> Self {
        // The process id separates the names of processes; this counter separates names within the process.
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        self.beside(format!(".{}.{}.{number}.new", self.name.to_string_lossy(), std::process::id()))
    }

    pub(crate) fn folder(&self) -> &Dir {
        &self.folder
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Its path without links, as it was during the walk.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// A path through the descriptor, for calls that take no descriptor. Valid only while this entry is held.
    pub(crate) fn by_descriptor(&self) -> PathBuf {
        self.folder.by_descriptor().join(&self.name)
    }

    /// The entry with this name itself, without following a link.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.folder.open_with(&self.name, libc::O_PATH | libc::O_NOFOLLOW, 0)?.metadata()
    }

    /// Opens the file, never through a link, and without waiting for the other end of a pipe. New files get the default mode.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn open(&self, flags: libc::c_int) -> io::Result<File> {
        // Links in /proc are followed: they lead to open files.
        let links = if self.folder.path().starts_with("/proc") { 0 } else { libc::O_NOFOLLOW };
        self.folder.open_with(&self.name, flags | links, 0o666)
    }

    /// Creates a file open for reading and writing. A file left by a process that was killed is replaced.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn make_anew(&self) -> io::Result<File> {
        let make = || self.open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
        match make() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.remove().and_then(|()| make()),
            made => made,
        }
    }

    /// Renames it, replacing anything with the new name.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn rename(&self, to: &Self) -> io::Result<()> {
        self.folder.rename(&self.name, &to.folder, &to.name)
    }

    /// Renames it unless the new name exists: [`ErrorKind::AlreadyExists`].
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn rename_anew(&self, to: &Self) -> io::Result<()> {
        match self.folder.rename_as(&self.name, &to.folder, &to.name, libc::RENAME_NOREPLACE) {
            // This file system does not support it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => self.rename(to),
            renamed => renamed,
        }
    }

    /// Swaps the names of two entries in one step.
    ///
    /// # Errors
    /// The system's reason: EINVAL or ENOSYS where the file system cannot do it.
    pub(crate) fn exchange(&self, other: &Self) -> io::Result<()> {
        self.folder.rename_as(&self.name, &other.folder, &other.name, libc::RENAME_EXCHANGE)
    }

    /// Adds a hard link unless the new name exists.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn link(&self, to: &Self) -> io::Result<()> {
        self.folder.link(&self.name, &to.folder, &to.name)
    }

    /// Removes it; a missing file is no error.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.folder.remove(&self.name)
    }
}

/// Opens one part of a path, without following a link. An automounted folder is mounted first.
fn open_part(folder: RawFd, name: &OsStr, is_last: bool) -> io::Result<File> {
    if !is_last {
        match open_at(folder, name, libc::O_PATH | libc::O_DIRECTORY) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ELOOP)) => {}
            opened => return opened,
        }
    }
    open_at(folder, name, libc::O_PATH)
}

/// Refuses a link that another user created, or could have moved there, alone or with one of the folders above it.
fn is_roots_link(link: &Path, facts: &Metadata, passed: &[(PathBuf, File)]) -> io::Result<()> {
    let mut why = (facts.uid() != 0).then(|| format!("of user {}", facts.uid()));
    for (at, (path, handle)) in passed.iter().enumerate().rev() {
        let folder = handle.metadata()?;
        let whose = match (folder.uid(), folder.mode()) {
            _ if why.is_some() => break,
            (0, mode) if mode & OTHERS == 0 || mode & STICKY != 0 => continue,
            (0, mode) => format!("that others may write to (mode {:04o})", mode & 0o7777),
            (owner, _) => format!("of user {owner}"),
        };
        why = Some(match at + 1 == passed.len() {
            true => format!("in a folder {whose}"),
            false => format!("below {}, a folder {whose}", path.display()),
        });
    }
    let Some(why) = why else { return Ok(()) };
    let link = link.display();
    let text = format!("{link} is a symbolic link {why}, and root follows only root's links; name its target instead");
    Err(Error::other(text)) // not PermissionDenied, because no permission would help
}

/// Device and inode of the file that the kernel reaches by this path.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// The path in an open link.
fn text_of(link: &File) -> io::Result<PathBuf> {
    let mut text = vec![0_u8; LONGEST_LINK];
    // SAFETY: the empty name ends with a zero, and the kernel writes no more bytes than the text has, which outlives the call.
    let length = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    text.truncate(usize::try_from(from_minus_one(length)?).unwrap_or_default());
    Ok(OsString::from_vec(text).into())
}

/// The names in a path, including `..`, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn find_for(user: u32, path: &Path) -> io::Result<PathBuf> {
        Entry::find_for(user, path).map(|entry| entry.path())
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
            assert_eq!(find_for(1, &path).unwrap(), path.canonicalize().unwrap(), "{}", path.display());
        }
        assert_eq!(find_for(1, &real.join("n")).unwrap(), real.join("nowhere"), "what is still to be made");
        assert_eq!(find_for(1, Path::new("/sys/class/net")).unwrap(), Path::new("/sys/class/net"));
        for (path, error) in [("none/file", libc::ENOENT), ("loop", libc::ELOOP)] {
            assert_eq!(find_for(1, &real.join(path)).unwrap_err().raw_os_error(), Some(error), "{path}");
        }
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make links of others");
        }
        assert_eq!(find_for(0, &real.join("l/m")).unwrap(), real.join("a/file"));
        lchown(real.join("l"), Some(65_534), None).unwrap();
        for path in ["l", "l/file", "a/m", "absolute/new"] {
            let error = find_for(0, &real.join(path)).unwrap_err().to_string();
            assert!(
                error.contains("/l is a symbolic link of user 65534, and root follows only root's links"),
                "{path}: {error}"
            );
        }
        assert_eq!(find_for(1, &real.join("l/file")).unwrap(), real.join("a/file"));
    }

    /// A link of root's own that another user could have moved there leads where that user wants.
    #[test]
    fn root_follows_no_link_that_another_user_could_have_moved() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make folders of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let (link, below) = (folder.path().join("link"), folder.path().join("roots/link"));
        fs::create_dir(folder.path().join("roots")).unwrap();
        fs::set_permissions(folder.path().join("roots"), fs::Permissions::from_mode(0o755)).unwrap();
        [&link, &below].into_iter().for_each(|link| symlink("target", link).unwrap());
        for (owner, mode, said) in [
            (0, 0o755, None),
            (0, 0o1777, None),
            (0, 0o775, Some("is a symbolic link in a folder that others may write to (mode 0775)")),
            (65_534, 0o700, Some("is a symbolic link in a folder of user 65534")),
            (65_534, 0o1777, Some("is a symbolic link in a folder of user 65534")),
        ] {
            chown(folder.path(), Some(owner), None).unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let found = find_for(0, &link).map_err(|error| error.to_string());
            match said {
                None => assert!(found.is_ok(), "{mode:o}: {found:?}"),
                Some(said) => assert!(found.as_ref().is_err_and(|error| error.contains(said)), "{mode:o}: {found:?}"),
            }
            // A user who cannot move the link may be able to move the folder that contains it.
            let found = find_for(0, &below).map_err(|error| error.to_string());
            let said = said.map(|said| {
                let whose = said.trim_start_matches("is a symbolic link in ");
                format!("/roots/link is a symbolic link below {}, {whose}", folder.path().display())
            });
            match said {
                None => assert!(found.is_ok(), "{mode:o}: {found:?}"),
                Some(said) => assert!(found.as_ref().is_err_and(|error| error.contains(&said)), "{mode:o}: {found:?}"),
            }
        }
    }

    /// A folder is swapped with a link again and again, as its owner can. Everything done through the entry still happens below that
    /// folder.
    #[test]
    fn nothing_is_made_or_changed_elsewhere_while_a_folder_is_exchanged_for_a_link() {
        if effective_user() != 0 || super::super::emulation::cannot_be_emulated(super::super::emulation::OTHER_ROOT) {
            return crate::sys::emulation::say_skipped("only root can make links of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["theirs", "theirs/real", "roots"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("roots/precious"), "precious").unwrap();
        symlink(at("roots"), at("theirs/link")).unwrap();
        chown(at("theirs"), Some(65_534), None).unwrap();
        chown(at("theirs/real"), Some(65_534), None).unwrap();
        lchown(at("theirs/link"), Some(65_534), None).unwrap();
        let (real, link) = (Entry::find_for(1, &at("theirs/real")).unwrap(), at("theirs"));
        let link = Entry::find_for(1, &link.join("none")).unwrap().beside("link");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let exchanging = scope.spawn(|| {
                let mut times = 0;
                while !ended.load(Ordering::Relaxed) || times < 300 {
                    real.exchange(&link).unwrap();
                    times += 1;
                }
            });
            let mut done = 0;
            for _ in 0..2_000 {
                let Ok(entry) = Entry::find(&at("theirs/real/precious")) else { continue };
                let beside = entry.beside("new");
                // In the folder where the path led, regardless of where it leads now.
                drop(beside.make_anew().unwrap());
                beside.rename(&entry).unwrap();
                drop(UnixListener::bind(entry.beside("socket").by_descriptor()).unwrap());
                entry.beside("socket").remove().unwrap();
                entry.remove().unwrap();
                done += 1;
            }
            ended.store(true, Ordering::Relaxed);
            exchanging.join().unwrap();
            assert!(done > 0, "no attempt has found the folder");
        });
        let names = fs::read_dir(at("roots")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["precious"]);
        assert_eq!(fs::read_to_string(at("roots/precious")).unwrap(), "precious");
    }
}
