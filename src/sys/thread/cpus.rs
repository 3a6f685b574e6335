//! The CPUs that threads may run on: threads of this process and of the programs that it started.
//!
//! System calls and reads of `/proc`; all of it may allocate, nothing blocks.

use super::ThreadId;
use crate::sys::{from_minus_one, host, invalid};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, mem};

/// The CPUs reserved by the daemons of this process. One list for the process: a thread does not know its daemon, so each keeps off the
/// CPUs of all.
static RESERVED: Mutex<Reserved> = Mutex::new(Reserved { own: Vec::new(), daemons: BTreeMap::new() });

struct Reserved {
    own: Vec<usize>, // where the first daemon was started, before anything was moved
    daemons: BTreeMap<u64, Vec<usize>>,
}

/// The CPUs of one daemon's pinned workers. Everything else in this process, and everything that it starts, keeps off them. Dropping it
/// frees the CPUs.
#[derive(Debug)]
pub(crate) struct Reservation(u64);

impl Reservation {
    /// A reservation of no CPUs yet, and the CPUs on which the daemon was started. Another daemon may have moved the calling thread off
    /// some of them.
    pub(crate) fn begin() -> (Self, Vec<usize>) {
        let mut all = all_reserved();
        if all.daemons.is_empty() {
            all.own = affinity().unwrap_or_default();
        }
        let number = all.daemons.last_key_value().map_or(0, |(last, _)| last + 1);
        all.daemons.insert(number, Vec::new());
        (Self(number), all.own.clone())
    }

    /// Reserves these CPUs from now on.
    pub(crate) fn set(&self, cpus: &[usize]) {
        all_reserved().daemons.insert(self.0, cpus.to_vec());
    }

    /// The CPUs reserved by other daemons.
    pub(crate) fn of_others(&self) -> Vec<usize> {
        all_reserved()
            .daemons
            .iter()
            .filter(|(number, _)| **number != self.0)
            .flat_map(|(_, cpus)| cpus.clone())
            .collect()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        all_reserved().daemons.remove(&self.0);
    }
}

/// The CPUs kept free for the workers of all daemons.
pub(crate) fn reserved() -> Vec<usize> {
    all_reserved().daemons.values().flatten().copied().collect()
}

fn all_reserved() -> MutexGuard<'static, Reserved> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allows the calling thread to run on `cpus` (kernel numbers, in any order) and nowhere else.
///
/// The kernel ignores CPUs that do not exist or are outside the cgroup's cpuset, as long as one is left: `affinity` shows the CPUs granted.
/// Errors: EINVAL if no CPU of the list can be used, or one is not below `host::cpu_set_size`; EBUSY under SCHED_DEADLINE, which excludes
/// pinning.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|&cpu| cpu >= host::cpu_set_size()) {
        return Err(invalid()); // core_affinity and CPU_SET would index out of bounds
    }
    if let &[id] = cpus {
        let pinned = core_affinity::set_for_current(core_affinity::CoreId { id });
        return if pinned { Ok(()) } else { Err(io::Error::last_os_error()) };
    }
    place(ThreadId(0), cpus)
}

/// Allows `thread`, of this process or of a program that it started, to run on `cpus` and nowhere else.
/// Errors: as [`pin`]; ESRCH if the thread has ended; EPERM if it is another user's.
pub(crate) fn place(thread: ThreadId, cpus: &[usize]) -> io::Result<()> {
    let mut set = empty_cpu_set();
    for &cpu in cpus {
        if cpu >= host::cpu_set_size() {
            return Err(invalid());
        }
        // SAFETY: `cpu` is below CPU_SETSIZE, checked above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    set_affinity(thread, &set)
}

/// Moves `thread` to `cpus` if it may run on a CPU of `reserved`, or if its CPUs are exactly `before`. Any other choice is the thread's own
/// and stays. Returns whether it was moved; false for a thread that has ended.
/// Errors: as [`place`].
pub(crate) fn keep_off(reserved: &[usize], thread: ThreadId, cpus: &[usize], before: &[usize]) -> io::Result<bool> {
    let moved = affinity_of(thread).and_then(|own| {
        let is_wrong = own != cpus && (own == before || own.iter().any(|cpu| reserved.contains(cpu)));
        if is_wrong { place(thread, cpus).map(|()| true) } else { Ok(false) }
    });
    match moved {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        moved => moved,
    }
}

pub(super) fn set_affinity(thread: ThreadId, set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` outlives the call, and its size is passed with it; the id names a thread, 0 the calling one.
    from_minus_one(unsafe { libc::sched_setaffinity(thread.0, size_of_val(set), set) }).map(drop)
}

/// The CPUs that the calling thread may run on, ascending.
/// Errors: EINVAL on a machine with more CPUs than [`host::cpu_set_size`].
pub(crate) fn affinity() -> io::Result<Vec<usize>> {
    affinity_of(ThreadId(0))
}

/// The online CPUs that `thread` may run on, ascending: a cgroup's cpuset or `taskset` may have changed them.
/// Errors: ESRCH if the thread has ended; EINVAL on a machine with more CPUs than [`host::cpu_set_size`].
pub(crate) fn affinity_of(thread: ThreadId) -> io::Result<Vec<usize>> {
    let mut set = empty_cpu_set();
    // SAFETY: `set` is owned and the size passed is its own; the id names a thread, 0 the calling one.
    from_minus_one(unsafe { libc::sched_getaffinity(thread.0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: `cpu` is below CPU_SETSIZE, the end of the range.
    Ok((0..host::cpu_set_size()).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// The online CPUs that the cgroup's cpuset leaves to this process: those the kernel grants the calling thread when it asks for all. The
/// thread then gets its own CPUs back.
/// Errors: the kernel's reason, where a sandbox forbids the call or the thread has the policy `deadline`.
pub(crate) fn grantable() -> io::Result<Vec<usize>> {
    let own = affinity()?;
    let all: Vec<usize> = (0..host::cpu_set_size()).collect();
    place(ThreadId(0), &all)?;
    let granted = affinity();
    // Its own CPUs may be gone by now; then it keeps all.
    let _ = place(ThreadId(0), &own);
    granted
}

/// The name of `thread`, of this process; empty if it has ended.
pub(crate) fn name(thread: ThreadId) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", thread.0));
    name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
}

pub(super) fn empty_cpu_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers, for which all-zero bytes are valid and mean no CPU.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::super::id;
    use super::super::tests::{apart, errno};
    use super::*;

    #[test]
    fn pins_to_one_cpu_and_to_several() {
        apart(|| {
            let all = affinity().unwrap();
            let first = all[0];
            pin(&[first]).unwrap();
            assert_eq!(affinity().unwrap(), [first]);
            assert_eq!(apart(|| affinity().unwrap()), [first], "inherited");
            let granted = grantable().unwrap();
            assert!(all.iter().all(|cpu| granted.contains(cpu)), "{all:?} {granted:?}");
            assert_eq!(affinity().unwrap(), [first], "it keeps its own");
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
                assert_eq!(errno(place(id(), cpus)), Some(libc::EINVAL), "{cpus:?}");
            }
            assert_eq!(affinity().unwrap(), before);
        });
    }

    #[test]
    fn what_one_daemon_gives_up_stays_reserved_by_the_other() {
        let ((one, _), (other, _)) = (Reservation::begin(), Reservation::begin());
        one.set(&[70_001]);
        other.set(&[70_001, 70_002]);
        let are = || [70_001, 70_002].map(|cpu| reserved().contains(&cpu));
        assert_eq!((are(), other.of_others().contains(&70_002)), ([true, true], false));
        other.set(&[]);
        assert_eq!((are(), other.of_others().contains(&70_001)), ([true, false], true));
        drop(one);
        assert_eq!(are(), [false, false]);
    }

    #[test]
    fn a_thread_is_moved_off_reserved_cpus_and_keeps_any_other_choice() {
        let all = affinity().unwrap();
        let (first, last) = (all[0], all[all.len() - 1]);
        if first == last {
            return crate::sys::emulation::say_skipped("this process may use one CPU only");
        }
        apart(move || {
            assert!(keep_off(&[last], id(), &[first], &all).unwrap());
            assert_eq!(affinity().unwrap(), [first]);
            assert!(!keep_off(&[last], id(), &[first], &all).unwrap(), "it is where it should be");
            assert!(!keep_off(&[], id(), &all, &all).unwrap(), "it has chosen this itself");
            assert!(keep_off(&[], id(), &all, &[first]).unwrap(), "it was given this before");
            assert_eq!(affinity().unwrap(), all);
            let ended = apart(id);
            while super::super::all().contains(&ended) {}
            assert!(!keep_off(&[], ended, &all, &all).unwrap());
        });
    }
}
