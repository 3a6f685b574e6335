//! A command's output file: written completely or not at all, never over the command's own inputs, and over another existing file only on
//! request.

use super::Stop;
use crate::sys::dir::effective_user;
use crate::sys::entry::Entry;
use clap::Args;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;

#[derive(Clone, Copy, Debug, Args)]
pub(in crate::cli) struct ForceArg {
    /// Replace the file to write if it exists
    #[arg(long)]
    pub(in crate::cli) force: bool,
}

/// Where a result goes. If dropped before its [end](Self::end), what was there stays unchanged.
#[derive(Debug)]
pub(in crate::cli) struct OutputFile {
    to: To,
}

#[derive(Debug)]
enum To {
    /// Something that was opened by someone else.
    Open(PathBuf),
    /// A device or a pipe, referred to by an `O_PATH` descriptor, so that what was checked is what gets opened.
    Device(File),
    /// A file that is first written beside its destination and then moved there.
    File { wanted: Entry, beside: Entry, file: File, replaces: bool },
}

impl OutputFile {
    /// Prepares the file at `path`, which `option` names, for a command that reads `inputs`. Changes nothing yet, except that it creates a
    /// file beside the destination.
    ///
    /// # Errors
    /// The file is one of the inputs, exists and must not be replaced, or cannot be written.
    pub(in crate::cli) fn prepare<'a>(
        option: &str,
        path: &Path,
        ForceArg { force }: ForceArg,
        inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, Stop> {
        let wrong = |why: String| Stop::Usage(format!("{option} {}: {why}", path.display()));
        let cannot = |error: io::Error| wrong(format!("cannot write there: {error}"));
        // Follows links to the file itself.
        let (entry, node) = match is_open(path) {
            true => (None, None),
            false => {
                let entry = Entry::find(path).map_err(cannot)?;
                let node = match entry.open(libc::O_PATH) {
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    node => Some(node.map_err(cannot)?),
                };
                (Some(entry), node)
            }
        };
        let found = match &node {
            Some(node) => Some(node.metadata().map_err(cannot)?),
            None if entry.is_none() => fs::metadata(path).ok(),
            None => None,
        };
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
        let Some(entry) = entry else { return Ok(Self { to: To::Open(path.to_owned()) }) };
        let is_disk = found.as_ref().is_some_and(|found| found.file_type().is_block_device());
        if (is_disk || found.as_ref().is_some_and(Metadata::is_file)) && !force {
            return Err(wrong("it exists already; add --force to replace it, or name another file".into()));
        }
        if let Some((node, found)) = node.zip(found.as_ref().filter(|found| !found.is_file())) {
            // Under sudo, the terminal belongs to the user who typed the command.
            let is_ours = [0, effective_user()].contains(&found.uid()) || is_stream(found);
            if !is_ours {
                let owner = found.uid();
                return Err(wrong(format!(
                    "it is no regular file, and belongs to user {owner}, who would get what is written; name another file"
                )));
            }
            return Ok(Self { to: To::Device(node) });
        }
        let beside = entry.beside(format!(".{}.{}", entry.name().to_string_lossy(), process::id()));
        let file = make(&beside, found.as_ref()).map_err(cannot)?;
        Ok(Self { to: To::File { wanted: entry, beside, file, replaces: found.is_some() } })
    }

    /// The file to write to: the one created here, not one that another user may have put in its place.
    pub(in crate::cli) fn file(&self) -> io::Result<File> {
        // Append to what a file opened by someone else already holds; pipes and devices do not care.
        let append = |path: &Path| OpenOptions::new().append(true).open(path);
        match &self.to {
            To::File { file, .. } => file.try_clone(),
            To::Open(path) => append(path),
            To::Device(node) => append(format!("/proc/self/fd/{}", node.as_raw_fd()).as_ref()),
        }
    }

    /// Moves the written file to its destination.
    pub(in crate::cli) fn end(self) -> io::Result<()> {
        let To::File { wanted, beside, file, replaces } = &self.to else { return Ok(()) };
        file.sync_all()?;
        if *replaces {
            return beside.rename(wanted);
        }
        // A file that has appeared in the meantime is not replaced either. Not every file system supports links.
        match beside.link(wanted) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
            Ok(()) => Ok(()), // its other name is removed on drop
            Err(_) => beside.rename(wanted),
        }
    }

    /// Writes the whole content.
    pub(in crate::cli) fn write(self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut self.file()?, bytes)?;
        self.end()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let To::File { beside, .. } = &self.to {
            let _ = beside.remove();
        }
    }
}

/// Whether this path names a descriptor: someone has already opened it and decided about it. A longer path continues from there, to any
/// file.
fn is_open(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap_or("/")).collect();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match parts[..] {
        ["/", "dev", "stdout" | "stderr"] => true,
        ["/", "dev", "fd", descriptor] => is_number(descriptor),
        ["/", "proc", process, "fd", descriptor] => {
            (matches!(process, "self" | "thread-self") || is_number(process)) && is_number(descriptor)
        }
        _ => false,
    }
}

/// Whether this is one of the process's three standard streams.
fn is_stream(found: &Metadata) -> bool {
    let mut streams = (0..3).filter_map(|fd| fs::metadata(format!("/proc/self/fd/{fd}")).ok());
    streams.any(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
}

/// Creates the file that will be moved to the destination. `replaced`: the file there now, if any.
fn make(beside: &Entry, replaced: Option<&Metadata>) -> io::Result<File> {
    let file = beside.make_anew()?;
    if let Some(replaced) = replaced {
        // Only root can give files away. Done before setting the mode, so that no one else can write to it in between.
        let _ = fchown(&file, Some(replaced.uid()), Some(replaced.gid()));
        file.set_permissions(Permissions::from_mode(replaced.mode() & 0o777))?;
    }
    Ok(file)
}

/// The file that an input argument refers to.
fn input_file(input: &Path) -> &Path {
    if input == Path::new("-") { Path::new("/dev/stdin") } else { input }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
        fs::set_permissions(&other, Permissions::from_mode(0o604)).unwrap();
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
        // A failed write leaves the old file.
        let output = OutputFile::prepare("-o", &other, FORCE, [&*input]).unwrap();
        io::Write::write_all(&mut output.file().unwrap(), b"half").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        OutputFile::prepare("-o", &other, FORCE, [&*input]).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "new");
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o604);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left beside");
    }

    #[test]
    fn only_the_name_of_a_descriptor_is_what_somebody_has_opened() {
        for open in ["/dev/stdout", "/dev/fd/3", "/proc/self/fd/1", "/proc/7/fd/12"] {
            assert!(is_open(open.as_ref()), "{open}");
        }
        for other in [
            "/proc/self/cwd/x",
            "/proc/7/root/tmp/x",
            "/dev/fd/../cwd/x",
            "/proc/self/fd/3/x",
            "/proc/self/fd",
            "/proc/x/fd/1",
        ] {
            assert!(!is_open(other.as_ref()), "{other}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "years of work").unwrap();
        let held = File::open(folder.path()).unwrap();
        let around = PathBuf::from(format!("/proc/self/fd/{}/file", held.as_raw_fd()));
        assert!(why(OutputFile::prepare("-o", &around, ASK, [])).ends_with("name another file"));
    }

    /// The folder's owner may replace the temporary file, or the existing one, with a link.
    #[test]
    fn nothing_is_written_through_a_link_that_comes_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let [path, victim, pipe] = ["new", "victim", "pipe"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        let output = OutputFile::prepare("-o", &path, ASK, []).unwrap();
        let To::File { beside, .. } = &output.to else { panic!("{output:?}") };
        let beside = beside.path();
        fs::remove_file(&beside).unwrap();
        symlink(&victim, beside).unwrap();
        let _ = output.write(b"ours");
        assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let output = OutputFile::prepare("-o", &pipe, ASK, []).unwrap();
        let mut reader = File::options().read(true).write(true).open(&pipe).unwrap();
        fs::remove_file(&pipe).unwrap();
        symlink(&victim, &pipe).unwrap();
        output.write(b"ours").unwrap();
        let mut read = [0; 4];
        io::Read::read_exact(&mut reader, &mut read).unwrap();
        assert_eq!(&read, b"ours", "into the pipe that was there");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    /// This covers both what exists there, of any type, and a folder in which a file would be created.
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

    /// The pipe's creator would read what only root may see.
    #[test]
    fn nothing_is_written_into_a_pipe_of_another_user() {
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make pipes of others");
        }
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        drop(OutputFile::prepare("-o", &pipe, ASK, []).unwrap());
        std::os::unix::fs::chown(&pipe, Some(65_534), None).unwrap();
        let refused = why(OutputFile::prepare("-o", &pipe, FORCE, []));
        assert!(refused.contains("it is no regular file, and belongs to user 65534"), "{refused}");
    }

    #[test]
    fn a_file_in_dev_is_a_file_as_any_other() {
        let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
            return crate::sys::emulation::say_skipped("there is no /dev/shm");
        };
        assert!(why(OutputFile::prepare("-o", file.path(), ASK, [])).contains("it exists already; add --force"));
        let standard = File::options().append(true).open(file.path()).unwrap();
        io::Write::write_all(&mut &standard, b"before ").unwrap();
        let name = format!("/proc/self/fd/{}", standard.as_raw_fd());
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
