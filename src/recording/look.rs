//! Examines the file of a recording before a start; `hertzd check` does this instead of opening it. Creates no visible file, takes no lock
//! and changes nothing. May block.

use super::append;
use super::claim::{Target, folder_of, in_use, no_file};
use super::content::Content;
use super::lines::last_line_end;
use super::own;
use crate::config::{RecordConfig, RecordFormat};
use crate::sys::entry;
use crate::sys::lock::{self, Holder, Taken};
use crate::sys::user::{Access, access, has_service, service_user};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The state of a recording's file, as far as it can be seen, before a start opens it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It can be opened.
    Free,
    /// Another process of this program is recording to it.
    Taken(Holder),
    /// It cannot be examined from here; with the reason.
    Hidden(String),
}

/// Whether a task with this content can be recorded there. Without content, it is unknown what the file would hold.
///
/// # Errors
/// A start would fail: the system's reason, the process that has locked the file, or what the file holds.
pub(crate) fn look(config: &RecordConfig, content: Option<&Content>) -> io::Result<Seen> {
    let layout = content.map(|content| append::layout(config.format, content)).transpose()?.flatten();
    let folder = folder_of(&config.path);
    let target = match (Target::of(&config.path), permitted(folder, config)) {
        (Ok(target), _) => target,
        (Err(_), Some(hidden)) => return Ok(hidden),
        (Err(error), None) => return Err(error),
    };
    let found = fs::metadata(&target.path);
    let is_kept = found.as_ref().is_ok_and(|found| config.format == RecordFormat::Csv || found.len() == 0);
    if !is_kept {
        if let Some(hidden) = permitted(folder_of(&target.path), config) {
            return Ok(hidden);
        }
        try_folder(folder_of(&target.path))?;
    }
    let found = match found {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Seen::Free),
        Err(error) => return Err(error),
    };
    if !found.is_file() {
        return Err(no_file());
    }
    match access(&target.path, true) {
        Access::Granted => {}
        Access::ServiceOnly => return Ok(only_service(&target.path)),
        Access::Denied => return Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
    match lock::probe(&entry::open(&target.path, libc::O_WRONLY)?) {
        Ok(Taken::Peer(Some(ours))) if ours.is_ours() => return Ok(Seen::Taken(ours)),
        Ok(Taken::Peer(other)) => return Err(in_use(other.as_ref())),
        _ => {}
    }
    own::refuse_others(&entry::open(&target.path, libc::O_RDONLY)?, config.format)?;
    if let Some(layout) = layout.filter(|layout| !layout.header.sized) {
        last_line_end(&entry::open(&target.path, libc::O_RDONLY)?, &layout.header.bytes)?;
    }
    Ok(Seen::Free)
}

/// Why files cannot be created in a folder from here, although the service can create them.
fn permitted(folder: &Path, config: &RecordConfig) -> Option<Seen> {
    match access(folder, true) {
        Access::ServiceOnly => Some(only_service(folder)),
        // The service starts in a different folder.
        Access::Denied if config.path.is_relative() && has_service() => Some(Seen::Hidden(format!(
            "{} is relative to the folder that hertzd starts in; you may not write to this one, and the service has another",
            config.path.display()
        ))),
        Access::Granted | Access::Denied => None,
    }
}

fn only_service(path: &Path) -> Seen {
    Seen::Hidden(format!("only the service's user {} may write to {}", service_user(), path.display()))
}

/// Creates an unnamed file in the folder, which disappears immediately.
fn try_folder(folder: &Path) -> io::Result<()> {
    let made = OpenOptions::new().write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(folder);
    match made.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) => Ok(()),
        // Not every file system supports unnamed files. Then the folder's mode has to be enough.
        Err((Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL), _)) => match access(folder, true) {
            Access::Granted => Ok(()),
            Access::ServiceOnly | Access::Denied => Err(io::Error::from_raw_os_error(libc::EACCES)),
        },
        Err((_, error)) => Err(error),
    }
}
