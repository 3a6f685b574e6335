//! The end of the process, also where a thread of it gets no processor time.
//!
//! A process has ended once each of its threads has, and a thread needs processor time for that: one that is pinned to a CPU
//! which another program keeps for itself would hold up the end for as long.

use super::cpus::{empty_cpu_set, set_affinity};
use super::each::for_each_thread;
use super::{demote, id};
use crate::sys::host;

/// Lets every other thread of this process end as soon as the process does: takes its real-time policy away and moves it to the
/// CPU where the calling thread runs, as there is processor time there. Only for just before the exit.
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
            // The policy first: SCHED_DEADLINE excludes pinning. A thread that has ended meanwhile is refused; what else would be
            // cannot be reported any more.
            let _ = demote(thread);
            let _ = set_affinity(thread, &here);
        }
    });
}
