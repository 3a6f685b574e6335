//! What the kernel grants a thread: its CPUs in `cpus`, its scheduling policy in `policy`, its signal mask in `mask`. `mask` can also
//! interrupt another thread's sleep. `leave` lets all threads end.
//!
//! All of it is for setting a thread up and may allocate; nothing blocks. Most setters act on the calling thread only. Threads spawned from
//! it inherit CPUs, FIFO or RR, and the mask: spawn first, then promote.

mod cpus;
mod each;
pub(crate) mod helper;
mod leave;
mod limit;
mod mask;
mod policy;

pub use cpus::pin;
pub(crate) use cpus::{Reservation, affinity, affinity_of, grantable, keep_off, name, place, reserved};
pub(crate) use each::all;
pub(crate) use leave::let_all_end;
pub(crate) use limit::{make_room, realtime_limit, set_realtime_limit, with_room};
pub(crate) use mask::{Held, hold_reload, interrupt, leave_signals, take_signals, with_signals_blocked};
pub(crate) use policy::{Bandwidth, demote, scheduling, scheduling_of, set_rr};
pub use policy::{set_deadline, set_fifo};

use super::from_minus_one;
use crate::time::Span;
use std::hint::black_box;
use std::io;

/// A thread as the kernel knows it, for [`interrupt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The number that `ps -L`, `perf` and `/proc/self/task` show.
    pub(crate) const fn number(self) -> i32 {
        self.0
    }

    /// The thread with this number.
    pub(in crate::sys) const fn of_number(number: i32) -> Self {
        Self(number)
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

/// What `thread`, of this process, has used; `None` if it has ended or the kernel does not report it.
pub(crate) fn usage_of(thread: ThreadId) -> Option<Usage> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{}/status", thread.0)).ok()?;
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    Some(Usage { sleeps: sleeps.trim().parse().ok()?, cpu: cpu_time_of(thread)? })
}

/// Processor time used by `thread`, of this process; `None` if it has ended or the kernel does not report it.
pub(crate) fn cpu_time_of(thread: ThreadId) -> Option<Span> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", thread.0)).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Span::from_nanos)
}

/// Sets how much later the kernel may end a sleep in order to end several at once: 50 000 ns by default.
///
/// Real-time policies have no slack, so this is for threads that were refused one. 0 restores the default; 1 is the minimum.
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
