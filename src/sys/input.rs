//! Opens files that a command reads and another user may have chosen: a daemon's answer names the path, or it is in that user's folder.
//! Root follows only root's own links there. Root opens no pipe or device of another user: opening one could wait forever or have an
//! effect. Blocks.

use super::dir::effective_user;
use super::entry::Entry;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens a regular file, unless it belongs to the kernel.
///
/// # Errors
/// The system's reason; a link that root does not follow; not a regular file; or a file of `/proc` or `/sys`.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let there = Entry::find(path)?.open(libc::O_PATH)?;
    let real = fs::read_link(by_descriptor(&there))?;
    let refused = |why| Err(io::Error::new(ErrorKind::InvalidInput, why));
    match there.metadata()?.is_file() {
        true if real.starts_with("/proc") || real.starts_with("/sys") => refused("it is a file of the kernel's"),
        true => File::open(by_descriptor(&there)),
        false => refused("it is no regular file"),
    }
}

/// Opens anything readable, including a device or a pipe, for which it waits. A descriptor that this process already has may be anyone's.
///
/// # Errors
/// The system's reason; a link that root does not follow; or a pipe or device of another user.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let entry = Entry::find(path)?;
    let there = entry.open(libc::O_PATH)?;
    let found = there.metadata()?;
    let is_open = entry.folder().path().starts_with(format!("/proc/{}", std::process::id()));
    if effective_user() == 0 && found.uid() != 0 && !found.is_file() && !is_open {
        let why = format!("it is no regular file, and belongs to user {}: root opens none of theirs", found.uid());
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    File::open(by_descriptor(&there))
}

/// A path that opens exactly the file that was checked.
fn by_descriptor(there: &File) -> String {
    format!("/proc/self/fd/{}", there.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};
    use std::process::Command;

    #[test]
    fn root_opens_no_pipe_of_another_user_and_follows_none_of_their_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let content = |file: io::Result<File>| io::read_to_string(file?);
        assert_eq!(content(open(&at("link"))).unwrap(), "secret");
        assert_eq!(content(open_regular(&at("link"))).unwrap(), "secret");
        assert!(open_regular(&at("pipe")).unwrap_err().to_string().ends_with("no regular file"));
        if effective_user() != 0 {
            return crate::sys::emulation::say_skipped("only root can make files of others");
        }
        lchown(at("link"), Some(65_534), None).unwrap();
        chown(at("pipe"), Some(65_534), None).unwrap();
        for opened in [open(&at("link")), open_regular(&at("link"))] {
            let why = opened.unwrap_err().to_string();
            assert!(why.contains("link is a symbolic link of user 65534"), "{why}");
        }
        let why = open(&at("pipe")).unwrap_err().to_string();
        assert!(why.ends_with("belongs to user 65534: root opens none of theirs"), "{why}");
        // A pipe that a shell has opened for the command, as with `<(command)`.
        let held = File::options().read(true).write(true).open(at("pipe")).unwrap();
        assert!(open(by_descriptor(&held).as_ref()).is_ok());
    }
}
