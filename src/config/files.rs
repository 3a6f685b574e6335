//! The bytes of a configuration: the file itself and the drop-ins beside it. The only part of this room that asks the
//! machine for anything.

use super::error::Problem;
use super::source::printable;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

const MAX_BYTES: usize = 1 << 20;

/// What could be read of the file at `path` and its drop-ins, in the order in which it is merged, and why the rest could not.
pub(super) fn read(path: &Path) -> (Vec<(PathBuf, Vec<u8>)>, Vec<Problem>) {
    let mut all = vec![(path.to_owned(), bytes(path))];
    if let Some(folder) = folder(path) {
        match drop_ins(&folder) {
            Ok(paths) => all.extend(paths.into_iter().map(|path| (path.clone(), drop_in(&path)))),
            Err(reason) => all.push((folder, Err(format!("cannot be read: {reason}")))),
        }
    }
    let (mut read, mut problems) = (Vec::new(), Vec::new());
    for (path, bytes) in all {
        match bytes {
            Ok(bytes) => read.push((path, bytes)),
            Err(reason) => problems.push(unreadable(&path, &reason)),
        }
    }
    (read, problems)
}

/// The folder from which the relative paths count that are no concern of the caller's: that of the configuration at `path`, also for
/// what its drop-ins say. Empty, which is the working directory, for what is no file: a pipe has no folder.
pub(crate) fn base_folder(path: &Path) -> PathBuf {
    // The name of a descriptor says nothing of where its file is.
    let is_descriptor = path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc");
    let is_file = !is_descriptor && fs::metadata(path).is_ok_and(|found| found.is_file());
    path.parent().filter(|_| is_file).map_or_else(PathBuf::new, Path::to_owned)
}

/// The problem with a file that could not be read.
pub(super) fn unreadable(path: &Path, reason: &str) -> Problem {
    let message = printable(&format!("{} {reason}", path.display()));
    Problem { span: None, table: String::new(), key: String::new(), message, help: None }
}

/// Where the drop-ins of a file are; `None` for a file that has none because its name does not end in `.toml`.
fn folder(path: &Path) -> Option<PathBuf> {
    (path.extension()? == "toml").then(|| path.with_extension("d"))
}

/// The drop-ins in the order of their names' bytes.
fn drop_ins(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        // Something else of that name, such as the dependencies that a build has written down, is none of ours.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let wanted = |name: &OsStr| !name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(b".toml");
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if wanted(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

/// The bytes of a drop-in. Unlike the file itself it was not named by anyone, so nothing that could block is opened.
fn drop_in(path: &Path) -> Result<Vec<u8>, String> {
    let kind = fs::metadata(path).map_err(|reason| format!("cannot be read: {reason}"))?.file_type();
    // A device too, because a link to /dev/null is how a drop-in is masked.
    if kind.is_file() || kind.is_char_device() { bytes(path) } else { Err("is not a file".to_owned()) }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    limited(File::open(path).map_err(|reason| format!("cannot be read: {reason}"))?)
}

/// All bytes, of which there may be 1 MiB.
pub(super) fn limited(reader: impl Read) -> Result<Vec<u8>, String> {
    // Also stops at the end of nothing: /dev/zero is a path like any other.
    let limit = u64::try_from(MAX_BYTES + 1).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    reader.take(limit).read_to_end(&mut bytes).map_err(|reason| format!("cannot be read: {reason}"))?;
    if bytes.len() > MAX_BYTES {
        return Err("is larger than the limit of 1 MiB".to_owned());
    }
    Ok(bytes)
}
