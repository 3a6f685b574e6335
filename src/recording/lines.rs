//! A file of lines behind a header, as it is found. No more than the header and the end are read. May block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file without a line break in this many bytes at its end is no recording of lines.
const LONGEST_LINE: u64 = 1 << 20;

/// Where the last whole line of a file with this header ends; 0 in an empty file.
///
/// # Errors
/// The file holds something else; or the system's reason.
pub(super) fn last_line_end(file: &File, header: &[u8]) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(0);
    }
    let from = length.saturating_sub(LONGEST_LINE);
    let mut end = vec![0; usize::try_from(length - from).unwrap_or_default()];
    // Otherwise it stays zeros.
    if begins_with(file, header)? {
        file.read_exact_at(&mut end, from)?;
    }
    let newline = end.iter().rposition(|byte| *byte == b'\n');
    newline.map(|newline| from + newline as u64 + 1).ok_or_else(|| {
        let text = "it exists and holds something else; move it away, or record to another file";
        io::Error::new(io::ErrorKind::AlreadyExists, text)
    })
}

/// How many lines end between two offsets.
///
/// # Errors
/// The system's reason.
pub(super) fn count(file: &File, from: u64, to: u64) -> io::Result<u64> {
    let (mut piece, mut at, mut count) = (vec![0; 1 << 16], from, 0);
    while at < to {
        let most = usize::try_from(to - at).unwrap_or(usize::MAX).min(piece.len());
        let length = file.read_at(&mut piece[..most], at)?;
        if length == 0 {
            break;
        }
        count += piece[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        at += length as u64;
    }
    Ok(count)
}

fn begins_with(file: &File, bytes: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; bytes.len()];
    match file.read_exact_at(&mut found, 0) {
        Ok(()) => Ok(found == bytes),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
