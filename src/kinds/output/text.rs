//! Reads a file that should hold one number, whatever another program may have put in its place. May block.

use crate::site::Refusal;
use crate::sys::entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Refuses a file that holds anything but one number, which would be lost.
pub(super) fn holds_a_number(path: &Path) -> Result<(), Refusal> {
    let mut head = Vec::new();
    // Without permission to read, the content is unknown.
    let file = entry::open(path, libc::O_RDONLY);
    let Ok(_) = file.and_then(|file| file.take(LONGEST_NUMBER + 1).read_to_end(&mut head)) else { return Ok(()) };
    let is_whole = head.len() as u64 <= LONGEST_NUMBER;
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_matches(|it: char| it.is_whitespace() || it == '\0');
    if is_whole && (text.is_empty() || text.parse::<f64>().is_ok()) {
        return Ok(());
    }
    let what = match is_whole {
        true => "something else than a number".to_owned(),
        false => {
            let size = fs::metadata(path).map_or_else(|_| String::new(), |found| format!(" ({} bytes)", found.len()));
            format!("more than one number{size}")
        }
    };
    let path = path.display();
    Err(Refusal::new(
        "path",
        format!("{path} holds {what}, which would be lost; name another file, or empty this one before"),
    ))
}

/// The text of a file that holds one number. Guards against what another program may have put in its place: follows no link, waits for
/// nothing, and reads no more than a number needs.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    text_in(OpenOptions::new().read(true).custom_flags(flags).open(path)?)
}

/// Whether an attribute has any read permission: some are write-only.
pub(super) fn is_readable(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |facts| facts.mode() & 0o444 != 0)
}

pub(super) fn text_in(file: File) -> io::Result<String> {
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no file that holds a number"));
    }
    let mut text = Vec::with_capacity(1_024); // one read of an attribute, and one that finds its end
    file.take(LONGEST_NUMBER + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_NUMBER {
        return Err(io::Error::other(format!("it holds more than one number ({} bytes)", facts.len())));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("it holds bytes that are no text"))
}

/// Maximum bytes of a file with one number, including white space. Anything longer is something else, whatever it begins with.
const LONGEST_NUMBER: u64 = 512;
