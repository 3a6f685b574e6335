//! Writes a text to a file. A `/sys` attribute takes it in one write. A regular file takes one write if the length stays the same, else two
//! system calls. Blocks for as long as the file's driver or file system takes; allocates nothing.
//!
//! Between the two calls, a reader of a regular file finds a number and newlines. A shorter text is padded with newlines to the old length,
//! then the file is cut. Before a longer text, the file is extended with newlines.

use super::digits::LONGEST;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The system calls, as a trait so that a test sees each one.
pub(super) trait Calls {
    fn write(&mut self, text: &[u8], at: u64) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Calls for &File {
    fn write(&mut self, text: &[u8], at: u64) -> io::Result<()> {
        loop {
            match self.write_at(text, at) {
                Ok(written) if written == text.len() => return Ok(()),
                Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Writes an attribute.
pub(super) fn attribute(mut file: impl Calls, text: &[u8]) -> io::Result<()> {
    file.write(text, 0)
}

/// Replaces the content of a regular file that is `had` bytes long. Neither text may be longer than [`LONGEST`], or a reader finds the rest
/// of the old one until it is cut off.
pub(super) fn regular(mut file: impl Calls, had: u64, text: &[u8]) -> io::Result<()> {
    const NEWLINES: [u8; LONGEST] = [b'\n'; LONGEST];
    let (length, within) = (text.len(), usize::try_from(had).unwrap_or(LONGEST).min(LONGEST));
    if length > within && within > 0 {
        file.write(&NEWLINES[..length - within], had)?;
    }
    let mut padded = NEWLINES;
    padded[..length].copy_from_slice(text);
    file.write(&padded[..length.max(within)], 0)?;
    if length < within || had > within as u64 { file.cut(length as u64) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in memory that records what a reader finds after each system call.
    #[derive(Default)]
    struct Seen {
        content: Vec<u8>,
        after: Vec<String>,
    }

    impl Calls for &mut Seen {
        fn write(&mut self, text: &[u8], at: u64) -> io::Result<()> {
            let begin = usize::try_from(at).unwrap();
            let end = begin + text.len();
            assert!(begin <= self.content.len(), "no hole");
            self.content.resize(self.content.len().max(end), 0);
            self.content[begin..end].copy_from_slice(text);
            self.after.push(String::from_utf8(self.content.clone()).unwrap());
            Ok(())
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.content.truncate(usize::try_from(length).unwrap());
            self.after.push(String::from_utf8(self.content.clone()).unwrap());
            Ok(())
        }
    }

    #[test]
    fn a_reader_always_finds_the_old_number_or_the_new_one() {
        let texts =
            ["0\n", "1\n", "9.5\n", "10.25\n", "-0.3333333333333333\n", "1.7976931348623157e308\n", "-5.5e-300\n"];
        for old in texts {
            for new in texts {
                let mut seen = Seen { content: old.into(), ..Seen::default() };
                regular(&mut seen, old.len() as u64, new.as_bytes()).unwrap();
                assert_eq!(seen.after.last().map(String::as_str), Some(new), "exactly the number and a newline");
                assert!(seen.after.len() <= 2 && (old.len() != new.len() || seen.after.len() == 1), "{:?}", seen.after);
                for between in &seen.after {
                    let found = between.trim_end_matches('\n');
                    assert!(
                        between.ends_with('\n') && (found == old.trim_end() || found == new.trim_end()),
                        "{between:?}"
                    );
                }
            }
        }
        let mut seen = Seen::default();
        regular(&mut seen, 0, b"7\n").unwrap();
        assert_eq!(seen.after, ["7\n"]);
        let mut seen = Seen { content: vec![b'x'; 100], ..Seen::default() };
        regular(&mut seen, 100, b"7\n").unwrap();
        assert_eq!(seen.after.last().map(String::as_str), Some("7\n"));
    }
}
