//! Ends the process even where one of its threads gets no processor time.
//!
//! A process has ended only when all its threads have, and a thread needs processor time to end. A thread pinned to a CPU that another
//! program monopolises would delay the end.

use super::cpus::{empty_cpu_set, set_affinity};
use super::each::for_each_thread;
use super::{demote, id};
use crate::sys::host;

/// Lets every other thread of this process end as soon as the process does. Each loses its real-time policy and is moved to the calling
/// thread's CPU, which has processor time. Call only just before the exit.
///
/// Async-signal-safe: system calls only, no allocation, no lock.
pub(crate) fn let_all_end() {
    let own = id();
    // SAFETY: takes nothing and touches no memory.
    let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).ok().filter(|&cpu| cpu < host::cpu_set_size());
    let mut here = empty_cpu_set();
    if let Some(cpu) = cpu {
        // SAFETY: `cpu` is below CPU_SETSIZE, checked above.
        unsafe { libc::CPU_SET(cpu, &mut here) };
    }
    for_each_thread(|thread| {
        if thread != own {
            // The policy first: SCHED_DEADLINE excludes pinning. Calls for a thread that has ended fail; any other error can no longer be
            // reported.
            let _ = demote(thread);
            let _ = set_affinity(thread, &here);
        }
    });
}
