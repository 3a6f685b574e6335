//! What the kernel grants the calling thread: its CPUs here, its scheduling policy in `policy`, its signal mask in `mask`,
//! where one thread can also end another's sleep. In `leave`, what lets all of them end.
//!
//! All of it is for setting a thread up and may allocate; nothing blocks. A setter acts on the calling thread only, and
//! threads spawned from it inherit CPUs, FIFO or RR, and the mask: spawn first, then promote.

pub(crate) mod helper;
mod leave;
mod limit;
mod mask;
mod policy;

pub(crate) use leave::let_all_end;
pub(crate) use limit::{make_room, realtime_limit, set_realtime_limit, with_room};
pub(crate) use mask::{Held, hold_reload, interrupt, with_signals_blocked};
pub(crate) use policy::{Bandwidth, demote, scheduling, scheduling_of, set_rr};
pub use policy::{set_deadline, set_fifo};

use super::{from_minus_one, host, invalid};
use crate::time::Span;
use std::hint::black_box;
use std::{io, mem};

/// A thread as the kernel knows it, for [`interrupt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The number that `ps -L`, `perf` and `/proc/self/task` show.
    pub(crate) const fn number(self) -> i32 {
        self.0
    }
}

pub(crate) fn id() -> ThreadId {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    ThreadId(unsafe { libc::gettid() })
}

/// What a thread has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time.
    pub(crate) cpu: Span,
    /// How often it gave up the processor to sleep or to wait.
    pub(crate) sleeps: u64,
}

/// What `thread`, of this process, has used; `None` if it has ended or the kernel does not say.
pub(crate) fn usage_of(thread: ThreadId) -> Option<Usage> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{}/status", thread.0)).ok()?;
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    Some(Usage { sleeps: sleeps.trim().parse().ok()?, cpu: cpu_time_of(thread)? })
}

/// Processor time used by `thread`, of this process; `None` if it has ended or the kernel does not say.
pub(crate) fn cpu_time_of(thread: ThreadId) -> Option<Span> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", thread.0)).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Span::from_nanos)
}

/// Allows the calling thread to run on `cpus` (kernel numbers, in any order) and nowhere else.
///
/// Of several CPUs the kernel ignores those that do not exist or are outside the cgroup's cpuset, as long as one is left:
/// [`affinity`] says what was granted.
/// Errors: EINVAL if no CPU of the list can be used, or one is not below [`host::cpu_set_size`]; EBUSY under
/// SCHED_DEADLINE, which excludes pinning.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|&cpu| cpu >= host::cpu_set_size()) {
        return Err(invalid()); // core_affinity and CPU_SET would index out of bounds
    }
    if let &[id] = cpus {
        let pinned = core_affinity::set_for_current(core_affinity::CoreId { id });
        return if pinned { Ok(()) } else { Err(io::Error::last_os_error()) };
    }
    let mut set = empty_cpu_set();
    for &cpu in cpus {
        // SAFETY: `cpu` is below CPU_SETSIZE, checked above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    set_affinity(ThreadId(0), &set)
}

fn set_affinity(thread: ThreadId, set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` outlives the call, and its size is passed with it; the id names a thread, 0 the calling one.
    from_minus_one(unsafe { libc::sched_setaffinity(thread.0, size_of_val(set), set) }).map(drop)
}

/// The CPUs the calling thread may run on, ascending.
/// Errors: EINVAL on a machine with more CPUs than [`host::cpu_set_size`].
pub fn affinity() -> io::Result<Vec<usize>> {
    affinity_of(ThreadId(0))
}

/// The CPUs `thread`, of this process, may run on, ascending: a cgroup's cpuset or `taskset` may have changed them.
/// Errors: ESRCH if the thread has ended; EINVAL on a machine with more CPUs than [`host::cpu_set_size`].
pub(crate) fn affinity_of(thread: ThreadId) -> io::Result<Vec<usize>> {
    let mut set = empty_cpu_set();
    // SAFETY: `set` is owned and the size passed is its own; the id names a thread, 0 the calling one.
    from_minus_one(unsafe { libc::sched_getaffinity(thread.0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: `cpu` is below CPU_SETSIZE, the end of the range.
    Ok((0..host::cpu_set_size()).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// The CPUs of the threads of this process whose names begin so, of those that may not run on every CPU of `all`, ascending.
pub(crate) fn pinned(name: &str, all: &[usize]) -> Vec<usize> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let of_name =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|own| own.starts_with(name));
    let threads = threads.flatten().map(|thread| thread.path()).filter(|path| of_name(path));
    let ids = threads.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    let cpus = ids.filter_map(|id| affinity_of(ThreadId(id)).ok()).filter(|cpus| cpus.len() < all.len());
    let mut cpus: Vec<usize> = cpus.flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn empty_cpu_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers, for which all-zero bytes are valid and mean no CPU.
    unsafe { mem::zeroed() }
}

/// Sets how late the kernel may end a sleep, to end several at once: 50 000 ns by default.
///
/// Real-time policies have no slack, so this is for threads that were refused one. 0 restores the default; 1 is the least.
/// Errors: EINVAL or EPERM where a sandbox forbids the call.
pub(crate) fn set_timer_slack(nanos: u32) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one unsigned long and no pointer.
    from_minus_one(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanos)) }).map(drop)
}

/// Touches the next `BYTES` of the calling thread's stack, so that later calls down to that depth cause no page fault.
///
/// `BYTES` must fit into the rest of the stack (2 MiB for a thread of std), or the process dies of the overflow.
#[inline(never)]
pub(crate) fn prefault_stack<const BYTES: usize>() {
    black_box(&mut [0u8; BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::{KernelClock, pause};
    use crate::time::Clock;
    use std::thread::spawn;

    /// Runs `work`, which changes its thread, in a new thread.
    pub(super) fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        spawn(work).join().expect("the thread ran to its end")
    }

    pub(super) fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
        result.expect_err("must be refused").raw_os_error()
    }

    #[test]
    fn pins_to_one_cpu_and_to_several() {
        apart(|| {
            let all = affinity().unwrap();
            let first = all[0];
            pin(&[first]).unwrap();
            assert_eq!(affinity().unwrap(), [first]);
            assert_eq!(apart(|| affinity().unwrap()), [first], "inherited");
            pin(&all).unwrap();
            assert_eq!(affinity().unwrap(), all);
        });
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_and_nothing_aborts() {
        apart(|| {
            let before = affinity().unwrap();
            let limit = host::cpu_set_size();
            for cpus in [&[][..], &[limit - 1], &[limit - 2, limit - 1], &[limit], &[5000], &[0, 5000], &[usize::MAX]] {
                assert_eq!(errno(pin(cpus)), Some(libc::EINVAL), "{cpus:?}");
            }
            assert_eq!(affinity().unwrap(), before);
        });
    }

    #[test]
    fn processor_time_grows_and_sleeps_are_counted() {
        apart(|| {
            let usage = || usage_of(id()).unwrap();
            let (before, clock) = (usage(), KernelClock::monotonic());
            clock.spin_until(clock.now() + Span::from_millis(5));
            let spun = usage();
            assert!(spun.cpu > before.cpu, "{before:?} {spun:?}");
            pause(Span::from_millis(1));
            assert!(usage().sleeps > spun.sleeps);
        });
    }

    #[test]
    fn slack_and_stack_are_taken() {
        apart(|| {
            set_timer_slack(1).unwrap();
            prefault_stack::<{ 256 * 1024 }>();
            assert!(id().number() > 0);
        });
    }
}
