//! Kernel functions that faults need: fresh memory, files without a cache, and signals by number.

#![expect(unsafe_code, reason = "mapping memory and sending a signal at an exact instant need system calls")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

/// Bytes per page.
pub(crate) const PAGE: usize = 4_096;

/// Maps `pages` pages of `file` from `offset`, or fresh memory, touches each, and unmaps them again.
fn touch_mapping(file: Option<(&File, i64)>, pages: usize) {
    let length = pages * PAGE;
    let (kind, fd, offset) = match file {
        Some((file, offset)) => (libc::MAP_SHARED, file.as_raw_fd(), offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    // A file's pages become accessible only after the advice. Otherwise, a daemon that locks its memory would already have loaded them.
    let (access, later) = (libc::PROT_NONE, libc::PROT_READ);
    let access = if file.is_some() { access } else { libc::PROT_READ | libc::PROT_WRITE };
    // SAFETY: a new mapping, at an address that the kernel chooses, changes no other memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, access, kind, fd, offset) };
    assert!(start != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    if file.is_some() {
        // SAFETY: advice on the new mapping, to read no further than is asked for.
        unsafe { libc::madvise(start, length, libc::MADV_RANDOM) };
        // SAFETY: no reference into the new mapping exists.
        unsafe { libc::mprotect(start, length, later) };
    }
    for offset in (0..length).step_by(PAGE) {
        let page = start.cast::<u8>().wrapping_add(offset);
        match file {
            // SAFETY: the page is within the mapping, which is readable.
            Some(_) => drop(unsafe { page.read_volatile() }),
            // SAFETY: the page is within the mapping, which is writable and belongs to this function.
            None => unsafe { page.write_volatile(1) },
        }
    }
    // SAFETY: the mapping was made above, and no reference into it is left.
    unsafe { libc::munmap(start, length) };
}

/// Touches `pages` pages of fresh memory, with one minor fault each.
pub(crate) fn touch_fresh(pages: usize) {
    touch_mapping(None, pages);
}

/// Reads `pages` pages of `file` at `offset` through a mapping, with one major fault each if the kernel has dropped them from its cache.
pub(crate) fn touch_forgotten(file: &File, offset: i64, pages: usize) {
    touch_mapping(Some((file, offset)), pages);
}

/// Makes the kernel drop the contents of `file` from its cache. They must be on the disk.
pub(crate) fn forget(file: &File) {
    // SAFETY: advice on an open file touches no memory.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// How many minor and major faults the calling thread has had, and how often it has slept.
pub(crate) fn faults_and_sleeps() -> ([i64; 2], i64) {
    // SAFETY: rusage is made of integers, for which all-zero bytes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is owned and of the type the kernel fills.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    ([usage.ru_minflt, usage.ru_majflt], usage.ru_nvcsw)
}

/// Stops every thread of a child process.
pub(crate) fn stop(pid: u32) {
    send(pid, libc::SIGSTOP);
}

/// Lets a stopped child process continue.
pub(crate) fn resume(pid: u32) {
    send(pid, libc::SIGCONT);
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: a signal to a child process that has not been waited for touches no memory here.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}
