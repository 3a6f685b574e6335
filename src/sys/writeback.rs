//! Whether a file system could store what it has accepted. A write returns before the disk has the data. If the disk refuses the data
//! later, only a process that asks learns about it. Nothing here waits until data is stored, because not even a signal could end such a
//! wait. Starting a write-back may wait for room in the disk's queue. No clock is read.

use super::from_minus_one;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Errors that only mean that nothing can be learned here: the file system, the kind of file or a filter does not support the call.
const NO_ANSWER: [libc::c_int; 8] =
    [libc::ENOSYS, libc::EINVAL, libc::ESPIPE, libc::EPERM, libc::EOPNOTSUPP, libc::ENOMEM, libc::EINTR, libc::EAGAIN];

/// Starts write-back of the accepted data of a file of this length, and checks for failures of earlier write-back.
///
/// # Errors
/// Some of the data could not be stored. Each failure is reported once.
pub(crate) fn begin_and_ask(file: &File, length: u64) -> io::Result<()> {
    sync_range(file, 0, 0, libc::SYNC_FILE_RANGE_WRITE)?;
    ask(file, length)
}

/// The same check, without starting a write-back.
///
/// # Errors
/// As above.
pub(crate) fn ask(file: &File, length: u64) -> io::Result<()> {
    // Errors are reported for the whole file, but only the given range is waited for, and this range is empty.
    sync_range(file, length + (1 << 30), 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn sync_range(file: &File, offset: u64, bytes: u64, flags: libc::c_uint) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return Ok(()) };
    // SAFETY: the descriptor is that of an open file, and no memory is handed over.
    let done = from_minus_one(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) });
    done.map(drop).or_else(|error| match error.raw_os_error() {
        Some(code) if NO_ANSWER.contains(&code) => Ok(()),
        _ => Err(error),
    })
}

const LARGEST_PAGE: u64 = 65_536;

/// The system call `cachestat`, which has this number on x86, ARM and RISC-V. Since Linux 6.5.
const CACHESTAT: libc::c_long = 451;

/// Pages not stored yet, of the whole file or of the whole pages up to an offset. Pages known to have failed do not count. `None`: the
/// kernel does not report it.
pub(crate) fn unstored_pages(file: &File, end: Option<u64>) -> Option<u64> {
    let whole = end.map_or(0, |end| end / LARGEST_PAGE * LARGEST_PAGE);
    if end.is_some() && whole == 0 {
        return Some(0);
    }
    let range = [0, whole]; // offset and length; length 0: to the end
    let mut found = [0_u64; 5]; // cached, dirty, being written, two of evicted ones
    // SAFETY: both arrays have the layout and the size of the kernel's structures, and outlive the call.
    let told =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0 as libc::c_uint) };
    from_minus_one(told).ok().map(|_| found[1] + found[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_does_not_know_the_call_is_no_failure() {
        let (_other_end, pipe) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let device = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"some").unwrap();
        for file in [&pipe, &device, &file] {
            begin_and_ask(file, 4).unwrap();
        }
        assert!(unstored_pages(&file, Some(4)).is_none_or(|pages| pages == 0));
        assert!(unstored_pages(&file, None).is_none_or(|pages| pages <= 1));
    }
}
