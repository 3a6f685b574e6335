//! Locked memory, an allocator that keeps freed memory, a request that CPUs do not sleep deeply, and the cost of a page fault.
//!
//! Real-time threads must not call this: it reads /proc, maps memory and may take milliseconds. Everything is for start-up and reads no
//! clock, except [`fault_cost`], which reads its thread's processor time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::{fs, mem};

use super::clock::thread_cpu_time;
use super::{from_minus_one, usage};
use crate::time::Span;

/// How much of the process [`lock`] keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Every page, including those mapped later.
    All,
    /// The mappings that existed at the time of the call, but not later ones, such as the stacks of new threads.
    Present,
}

/// Blocks of more bytes come from the kernel and return to it. The largest value that glibc accepts, DEFAULT_MMAP_THRESHOLD_MAX.
#[cfg(any(target_env = "gnu", target_env = "musl"))]
pub(super) const LARGE: usize = if cfg!(target_pointer_width = "64") { 32 << 20 } else { 512 << 10 };

/// Makes the allocator use one arena and keep freed memory, so that memory causes page faults only at its first touch.
///
/// Call this first: arenas of existing threads stay. Each arena reserves 64 MiB of address space, which counts as locked.
/// Blocks of more than [`LARGE`] bytes still come from the kernel and return to it. Only affects glibc's allocator; with musl the program
/// uses `Arena` from its start instead.
pub(crate) fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    {
        const KEEP_ALL: libc::c_int = -1;
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "it is 32 MiB at most")]
        const MOST: libc::c_int = LARGE as libc::c_int;
        let settings = [(libc::M_ARENA_MAX, 1), (libc::M_TRIM_THRESHOLD, KEEP_ALL), (libc::M_MMAP_THRESHOLD, MOST)];
        for (parameter, value) in settings {
            // SAFETY: mallopt takes two integers and locks the allocator itself.
            let taken = unsafe { libc::mallopt(parameter, value) };
            debug_assert_eq!(taken, 1, "mallopt({parameter}, {value})");
        }
    }
}

/// Locks the pages of this process in memory, each from its first touch on (MCL_ONFAULT). The untouched rest of stacks and arenas, hundreds
/// of megabytes, is not loaded.
///
/// Later mappings are included only if locked memory is unlimited or CAP_IPC_LOCK is effective. Under a limit they would count in full,
/// touched or not. The next thread (8 MiB of stack) would then fail to start with EAGAIN, long after this call succeeded.
/// Errors: ENOMEM if the existing mappings exceed RLIMIT_MEMLOCK (remedy: `LimitMEMLOCK=infinity`); EPERM if that is 0.
pub(crate) fn lock() -> io::Result<Locked> {
    let (locked, future) = if unlimited()? { (Locked::All, libc::MCL_FUTURE) } else { (Locked::Present, 0) };
    // SAFETY: takes flags only, and moves no page that a pointer refers to.
    from_minus_one(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT | future) })?;
    Ok(locked)
}

/// Bytes of locked address space, touched or not (VmLck); 0 if /proc does not report it.
pub(crate) fn locked_bytes() -> u64 {
    let kib = status("VmLck:").and_then(|value| value.trim_end_matches("kB").trim().parse().ok());
    kib.map_or(0, |kib: u64| kib.saturating_mul(1024))
}

/// Processor time that the calling thread spends on a page of new memory, from its first touch to returning it, as measured. The median of
/// several trials, which take about 0.1 ms in all. Returning pages interrupts the other threads of the process. Zero if the measurement
/// fails.
pub(crate) fn fault_cost() -> Span {
    let mut costs = [(); 5].map(|()| try_faults());
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// One trial.
fn try_faults() -> Span {
    const PAGE: usize = 4096; // or a part of one
    const PAGES: usize = 32;
    let (read_write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory anywhere; nothing that exists is replaced.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, read_write, private, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Span::ZERO;
    }
    // Huge pages would turn all these faults into one. Kernels without huge pages reject this call and do not need it.
    // SAFETY: the range is the mapping just made.
    unsafe { libc::madvise(mapped, PAGES * PAGE, libc::MADV_NOHUGEPAGE) };
    let (faults, before) = (usage::of_this_thread().minor_faults, thread_cpu_time());
    for page in 0..PAGES {
        let byte = mapped.cast::<u8>().wrapping_add(page * PAGE);
        // SAFETY: the byte is in the mapping, which is writable and ours alone.
        unsafe { byte.write_volatile(1) };
    }
    let faults = usage::of_this_thread().minor_faults.since(faults);
    // SAFETY: the range is the mapping, to which no pointer is kept.
    unsafe { libc::munmap(mapped, PAGES * PAGE) };
    let used = thread_cpu_time() - before;
    Span::from_nanos(used.nanos() / i64::from(faults.max(1)))
}

/// Asks the kernel for idle states without wake-up latency on all CPUs, for as long as the file is open.
///
/// Wake-ups become more punctual, at the price of power and heat. No effect in most virtual machines.
/// Errors: EACCES for an ordinary user; ENOENT if the kernel or the container has no such device.
pub(crate) fn hold_cpu_latency() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0i32.to_ne_bytes())?; // microseconds
    Ok(file)
}

fn unlimited() -> io::Result<bool> {
    // SAFETY: rlimit is made of integers, for which all-zero bytes are valid.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: `limit` is owned and of the type the kernel fills.
    from_minus_one(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) })?;
    Ok(limit.rlim_cur == libc::RLIM_INFINITY || may_lock_all())
}

/// Whether CAP_IPC_LOCK is effective in the initial user namespace. The kernel checks it there, so the capability of a rootless container
/// does not count.
fn may_lock_all() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let capable = status("CapEff:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    let namespace = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    capable.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
        && namespace.split_whitespace().eq(["0", "0", "4294967295"])
}

pub(super) fn status(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/thread-self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_shows_and_threads_still_start() {
        limit_arenas();
        match lock() {
            Ok(locked) => {
                println!("{locked:?}: {} bytes", locked_bytes());
                assert!(locked_bytes() > 0);
                std::thread::Builder::new().spawn(|| ()).expect("a thread starts under the lock").join().unwrap();
            }
            Err(error) => {
                crate::sys::emulation::say_skipped(&error.to_string());
                assert!(matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EPERM)), "{error}");
                assert!(!unlimited().unwrap());
            }
        }
    }
}
