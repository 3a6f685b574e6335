//! The bytes of a configuration: the file itself and the drop-ins beside it. The only part of this module that accesses the machine.

use super::error::Problem;
use super::source::printable;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

const MAX_BYTES: usize = 1 << 20;

/// Reads the file at `path` and its drop-ins, in merge order. Returns what could be read, and problems for the rest.
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

/// The base for relative paths to code, independent of where the caller runs: the folder of the configuration at `path`, also for its
/// drop-ins. Empty, meaning the working directory, if `path` is not a file: a pipe has no folder.
pub(crate) fn base_folder(path: &Path) -> PathBuf {
    // A descriptor's name does not reveal where its file is.
    let is_descriptor = path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc");
    let is_file = !is_descriptor && fs::metadata(path).is_ok_and(|found| found.is_file());
    path.parent().filter(|_| is_file).map_or_else(PathBuf::new, Path::to_owned)
}

/// The problem with a file that could not be read.
pub(super) fn unreadable(path: &Path, reason: &str) -> Problem {
    let message = printable(&format!("{} {reason}", path.display()));
    Problem { span: None, table: String::new(), key: String::new(), message, help: None }
}

/// The folder with a file's drop-ins. `None` if the file's name does not end in `.toml`: it has none.
fn folder(path: &Path) -> Option<PathBuf> {
    (path.extension()? == "toml").then(|| path.with_extension("d"))
}

/// The drop-ins, in byte order of their names.
fn drop_ins(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        // Something else with that name, such as a build's dependency list, is not ours.
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

/// The bytes of a drop-in. Unlike the main file, no one named it explicitly, so nothing that could block is opened.
fn drop_in(path: &Path) -> Result<Vec<u8>, String> {
    let kind = fs::metadata(path).map_err(|reason| format!("cannot be read: {reason}"))?.file_type();
    // Devices are allowed too: a drop-in is masked by a link to /dev/null.
    if kind.is_file() || kind.is_char_device() { bytes(path) } else { Err("is not a file".to_owned()) }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    limited(File::open(path).map_err(|reason| format!("cannot be read: {reason}"))?)
}

/// All bytes, up to 1 MiB.
pub(super) fn limited(reader: impl Read) -> Result<Vec<u8>, String> {
    // The limit also stops endless input: /dev/zero is a valid path.
    let limit = u64::try_from(MAX_BYTES + 1).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    reader.take(limit).read_to_end(&mut bytes).map_err(|reason| format!("cannot be read: {reason}"))?;
    if bytes.len() > MAX_BYTES {
        return Err("is larger than the limit of 1 MiB".to_owned());
    }
    Ok(bytes)
}
