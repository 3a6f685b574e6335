//! Reads data written by others, of any size, into a limited amount of memory. Blocks.

use super::input;
use std::io::{self, Read};
use std::path::Path;

/// The size limit for JSON written by a hertzd command or daemon, in bytes: three times the snapshot of ten thousand tasks. Once parsed, it
/// may take sixteen times as much memory.
pub(crate) const JSON: u64 = 64 << 20;

/// All bytes up to the end.
///
/// # Errors
/// The system's reason; there are more than `limit`; there is no memory for them.
pub(crate) fn read(mut from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let room = limit.saturating_sub(bytes.len() as u64).saturating_add(1).min(1 << 20);
        bytes.try_reserve(usize::try_from(room).unwrap_or(usize::MAX)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let read = (&mut from).take(room).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it is larger than {} MiB, the most that is read of it", limit >> 20),
            ));
        }
        if (read as u64) < room {
            return Ok(bytes);
        }
    }
}

/// The whole text of a file.
///
/// # Errors
/// As [`input::open`] and [`read`], or it is not UTF-8.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(input::open(path)?, limit)
}

/// All text up to the end.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub(crate) fn text(from: impl Read, limit: u64) -> io::Result<String> {
    String::from_utf8(read(from, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_is_kept_of_what_has_no_end() {
        let error = read_text(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1 MiB, the most that is read of it");
        for length in [0, 5, (1 << 20) - 1, 1 << 20] {
            assert_eq!(read(io::repeat(b'x').take(length), 1 << 20).unwrap().len() as u64, length);
        }
        assert!(read(io::repeat(b'x').take((1 << 20) + 1), 1 << 20).is_err());
    }
}
