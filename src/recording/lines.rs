//! Inspects an existing file of lines with a header. Reads no more than the header and the end, and rejects a file that may hold someone
//! else's work, so that nothing of it is dropped. May block.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A file without a line break in this many bytes at its end is not a recording of lines.
const LONGEST_LINE: u64 = 1 << 20;

/// Neither is a file with more zeros than this at its end.
const MOST_ZEROS: u64 = 64 << 20;

/// Where the last whole line of a file with this header ends; 0 in a file that is empty or holds only zeros.
///
/// # Errors
/// The file holds something else; or the system's reason.
pub(super) fn last_line_end(file: &File, header: &[u8]) -> io::Result<u64> {
    let length = end_without_zeros(file)?;
    if length == 0 {
        return Ok(0);
    }
    let from = length.saturating_sub(LONGEST_LINE);
    let mut end = vec![0; usize::try_from(length - from).unwrap_or_default()];
    // If the header does not match, `end` stays all zeros, so no line break is found.
    if begins_with(file, header)? {
        file.read_exact_at(&mut end, from)?;
    }
    let newline = end.iter().rposition(|byte| *byte == b'\n');
    let newline = newline.filter(|newline| may_be_cut_off(&end[newline + 1..], header));
    newline.map(|newline| from + newline as u64 + 1).ok_or_else(|| {
        let text = "it exists and holds something else; move it away, or record to another file";
        io::Error::new(io::ErrorKind::AlreadyExists, text)
    })
}

/// Whether a file holds only zeros, because the disk had not written its data yet when the power failed.
///
/// # Errors
/// The system's reason.
pub(super) fn is_zeros(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.len() > 0 && end_without_zeros(file)? == 0)
}

/// Where the zeros at the end of a file begin, searching at most about [`MOST_ZEROS`]; the end of the file if it does not end with zeros.
fn end_without_zeros(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let (mut end, mut piece) = (length, vec![0; 1 << 16]);
    while end > 0 && length - end < MOST_ZEROS {
        let from = end.saturating_sub(piece.len() as u64);
        let piece = &mut piece[..usize::try_from(end - from).unwrap_or_default()];
        file.read_exact_at(piece, from)?;
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            return Ok(from + last as u64 + 1);
        }
        end = from;
    }
    Ok(end)
}

/// Whether this may be the beginning of a row, or of a second header, that a crash cut off. It may contain zeros where the disk had not
/// written the data yet.
fn may_be_cut_off(line: &[u8], header: &[u8]) -> bool {
    let in_rows = |byte: &u8| byte.is_ascii_digit() || b"+-.,:TZeEinfNa\0".contains(byte);
    header.starts_with(line) || line.iter().all(in_rows)
}

/// Whether a file of this length begins with the header or a part of it. The bytes in `sizes` may have any value.
///
/// # Errors
/// The system's reason.
pub(super) fn begins_like(file: &File, length: u64, header: &[u8], sizes: &[Range<usize>]) -> io::Result<bool> {
    let mut found = vec![0; header.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut found, 0)?;
    let is_size = |at: usize| sizes.iter().any(|size| size.contains(&at));
    Ok((0..).zip(found.iter().zip(header)).all(|(at, (found, wanted))| found == wanted || is_size(at)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_a_part_of_a_row_may_be_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let whole = "tick,time\n0,1\n";
        for (end, is_dropped) in [
            ("", true),
            ("1,2026-11-21T03:13:18.616908501Z,-1.5e-7,inf,Na", true),
            ("1,2\0\0", true),
            ("tick,ti", true),
            ("notes without an end", false),
            ("1,2 and notes", false),
        ] {
            std::fs::write(&path, format!("{whole}{end}")).unwrap();
            let found = last_line_end(&File::open(&path).unwrap(), b"tick,time\n");
            assert_eq!(found.ok(), is_dropped.then_some(whole.len() as u64), "{end}");
        }
    }

    #[test]
    fn zeros_at_the_end_are_what_the_disk_had_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        for zeros in [1, 100, 1 << 16, (1 << 16) + 7, 3 << 20] {
            let of = |begin: &str| {
                std::fs::write(&path, [begin.as_bytes(), &vec![0; zeros]].concat()).unwrap();
                File::open(&path).unwrap()
            };
            let file = of("");
            assert!(is_zeros(&file).unwrap() && last_line_end(&file, b"h\n").unwrap() == 0, "{zeros}");
            let file = of("h\n1,2\n3,");
            assert!(!is_zeros(&file).unwrap() && last_line_end(&file, b"h\n").unwrap() == 6, "{zeros}");
            last_line_end(&of("notes"), b"h\n").unwrap_err();
        }
        std::fs::write(&path, "").unwrap();
        assert!(!is_zeros(&File::open(&path).unwrap()).unwrap());
    }
}
