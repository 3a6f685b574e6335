//! The file that a command writes: whole or not at all, never over what the command reads, and over another file only when asked to.

use super::Stop;
use crate::sys::open::resolve;
use clap::Args;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ForceArg {
    /// Replace the file to write if it exists
    #[arg(long)]
    pub(super) force: bool,
}

/// Where a result goes. Dropped before its [end](Self::end) it leaves what was there.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    beside: Option<(PathBuf, File)>, // written first, and then moved; None: it is a device or a pipe, or open already, and written to
    replaced: Option<Metadata>,
}

impl OutputFile {
    /// The file at `path`, which `option` names, of a command that reads `inputs`. Nothing is changed yet but that a file is made beside it.
    ///
    /// # Errors
    /// It is one of the inputs, is there and not to be replaced, or cannot be written.
    pub(super) fn prepare<'a>(
        option: &str,
        path: &Path,
        ForceArg { force }: ForceArg,
        inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, Stop> {
        let wrong = |why: String| Stop::Usage(format!("{option} {}: {why}", path.display()));
        let found = fs::metadata(path).ok();
        if let Some(found) = &found {
            let is_this = |input: &&Path| {
                fs::metadata(input_file(input)).is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
            };
            if found.is_dir() {
                return Err(wrong("it is a folder; name a file".into()));
            }
            if found.is_file() && inputs.into_iter().any(|input| is_this(&input)) {
                return Err(wrong("this command reads that file, which would be lost; name another one".into()));
            }
        }
        let is_disk = found.as_ref().is_some_and(|found| found.file_type().is_block_device());
        if (is_disk || found.as_ref().is_some_and(Metadata::is_file)) && !is_open(path) && !force {
            return Err(wrong("it exists already; add --force to replace it, or name another file".into()));
        }
        let cannot = |error: io::Error| wrong(format!("cannot write there: {error}"));
        // Through links, to the file itself.
        let path = if is_open(path) { path.to_owned() } else { resolve(path).map_err(cannot)? };
        if is_open(&path) || found.as_ref().is_some_and(|found| !found.is_file()) {
            return Ok(Self { path, beside: None, replaced: None });
        }
        let name = path.file_name().ok_or_else(|| wrong("name a file".into()))?;
        let beside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), process::id()));
        let file = make(&beside, found.as_ref()).map_err(cannot)?;
        Ok(Self { path, beside: Some((beside, file)), replaced: found })
    }

    /// What to write to. The file that was made, not what another user may have put in its place.
    pub(super) fn file(&self) -> io::Result<File> {
        if let Some((_, file)) = &self.beside {
            return file.try_clone();
        }
        // Behind what a file has that somebody else has opened; no pipe or device minds.
        let links = if is_open(&self.path) { 0 } else { libc::O_NOFOLLOW };
        let file = OpenOptions::new().append(true).custom_flags(links).open(&self.path)?;
        match file.metadata()?.is_file() && !is_open(&self.path) {
            true => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "a regular file has replaced the pipe or device that was there",
            )),
            false => Ok(file),
        }
    }

    /// Puts what was written in its place.
    pub(super) fn end(mut self) -> io::Result<()> {
        let Some((beside, file)) = self.beside.take() else { return Ok(()) };
        let moved = file.sync_all().and_then(|()| match self.replaced {
            Some(_) => fs::rename(&beside, &self.path),
            // One that has come meanwhile is not replaced either. Not every file system has links.
            None => match fs::hard_link(&beside, &self.path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
                Ok(()) => fs::remove_file(&beside),
                Err(_) => fs::rename(&beside, &self.path),
            },
        });
        if moved.is_err() {
            let _ = fs::remove_file(&beside);
        }
        moved
    }

    /// Writes all of it.
    pub(super) fn write(self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut self.file()?, bytes)?;
        self.end()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}

/// Whether what is there under such a name was opened by somebody else, who has decided about it.
fn is_open(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"].iter().any(|open| path.starts_with(open))
}

/// Makes the file that is moved into the place of `replaced`, if there is one.
fn make(beside: &Path, replaced: Option<&Metadata>) -> io::Result<File> {
    let make = || OpenOptions::new().write(true).create_new(true).open(beside);
    let file = match make() {
        // Left by a process that was killed and had this number.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::remove_file(beside).and_then(|()| make()),
        made => made,
    }?;
    if let Some(replaced) = replaced {
        file.set_permissions(replaced.permissions())?;
        // Only root gives files away.
        let _ = fchown(&file, Some(replaced.uid()), Some(replaced.gid()));
    }
    Ok(file)
}

/// The file that an argument for an input names.
fn input_file(input: &Path) -> &Path {
    if input == Path::new("-") { Path::new("/dev/stdin") } else { input }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::dir::effective_user;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const FORCE: ForceArg = ForceArg { force: true };
    const ASK: ForceArg = ForceArg { force: false };

    fn why(prepared: Result<OutputFile, Stop>) -> String {
        prepared.unwrap_err().reason().unwrap().0
    }

    #[test]
    fn an_input_is_never_lost_and_another_file_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let [input, other, link, hard] = ["input", "other", "link", "hard"].map(|name| folder.path().join(name));
        fs::write(&input, "input").unwrap();
        fs::write(&other, "other").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o604)).unwrap();
        symlink(&input, &link).unwrap();
        fs::hard_link(&input, &hard).unwrap();
        for same in [&input, &link, &hard] {
            for force in [FORCE, ASK] {
                let refused = why(OutputFile::prepare("-o", same, force, [&*other, &*input]));
                assert!(refused.contains("this command reads that file"), "{refused}");
            }
        }
        let refused = why(OutputFile::prepare("-o", &other, ASK, [&*input]));
        assert!(refused.ends_with("it exists already; add --force to replace it, or name another file"), "{refused}");
        // One that fails leaves the old one.
        let output = OutputFile::prepare("-o", &other, FORCE, [&*input]).unwrap();
        io::Write::write_all(&mut output.file().unwrap(), b"half").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        OutputFile::prepare("-o", &other, FORCE, [&*input]).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "new");
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o604);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left beside");
    }

    /// Who owns the folder may put a link in the place of the file that is written first, or of what is there.
    #[test]
    fn nothing_is_written_through_a_link_that_comes_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let [path, victim, pipe] = ["new", "victim", "pipe"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        let output = OutputFile::prepare("-o", &path, ASK, []).unwrap();
        let (beside, _) = output.beside.as_ref().unwrap();
        fs::remove_file(beside).unwrap();
        symlink(&victim, beside).unwrap();
        let _ = output.write(b"ours");
        assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let output = OutputFile::prepare("-o", &pipe, ASK, []).unwrap();
        fs::remove_file(&pipe).unwrap();
        symlink(&victim, &pipe).unwrap();
        assert_eq!(output.write(b"ours").unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    /// Neither to what is there, of whatever sort, nor to a folder in which a file would be made.
    #[test]
    fn root_writes_through_no_link_of_another_user() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make links of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let [pipe, to_pipe, inner, to_inner] =
            ["pipe", "to-pipe", "inner", "to-inner"].map(|name| folder.path().join(name));
        assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::create_dir(&inner).unwrap();
        for (target, link) in [(&pipe, &to_pipe), (&inner, &to_inner)] {
            symlink(target, link).unwrap();
            std::os::unix::fs::lchown(link, Some(65_534), None).unwrap();
        }
        for path in [to_pipe, to_inner.join("new")] {
            let refused = why(OutputFile::prepare("-o", &path, FORCE, []));
            assert!(refused.contains("is a symbolic link of user 65534"), "{refused}");
        }
    }

    #[test]
    fn a_file_in_dev_is_a_file_as_any_other() {
        let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
            return crate::sys::emulation::say_skipped("there is no /dev/shm");
        };
        assert!(why(OutputFile::prepare("-o", file.path(), ASK, [])).contains("it exists already; add --force"));
        let standard = File::options().append(true).open(file.path()).unwrap();
        io::Write::write_all(&mut &standard, b"before ").unwrap();
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&standard));
        OutputFile::prepare("-o", Path::new(&name), ASK, []).unwrap().write(b"ours").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "before ours");
    }

    #[test]
    fn a_file_that_comes_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let output = OutputFile::prepare("-o", &path, ASK, []).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert_eq!(output.write(b"ours").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        OutputFile::prepare("-o", Path::new("/dev/null"), ASK, []).unwrap().write(b"x").unwrap();
        let nowhere = folder.path().join("no/file");
        assert!(why(OutputFile::prepare("-o", &nowhere, ASK, [])).contains("cannot write there: No such file"));
    }
}
