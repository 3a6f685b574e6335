//! Scheduling policy and priority of a thread.

use super::ThreadId;
use crate::sys::{from_minus_one, invalid};
use crate::time::Span;
use std::io;
use std::iter::Sum;
use std::mem::{self, offset_of};
use thread_priority::{
    DeadlineFlags, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduled {
    /// `fifo`, `rr`, `deadline`, `other`, `batch` or `idle`; `unknown` for any other policy.
    pub(crate) policy: &'static str,
    /// In 1..=99 under `fifo` and `rr`, where greater is more urgent; otherwise 0.
    pub(crate) priority: u8,
}

/// A share of a CPU that SCHED_DEADLINE guarantees, in the kernel's unit: 2⁻²⁰, rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bandwidth(u64);

const BANDWIDTH_SHIFT: u32 = 20;

impl Bandwidth {
    /// The share for `runtime` in every `period`; zero if the period is not above zero.
    pub(crate) fn of(runtime: Span, period: Span) -> Self {
        let runtime = u128::from(runtime.nanos().max(0).unsigned_abs()) << BANDWIDTH_SHIFT;
        let share = runtime.checked_div(u128::from(period.nanos().max(0).unsigned_abs()));
        Self(u64::try_from(share.unwrap_or_default()).unwrap_or(u64::MAX))
    }

    /// The least runtime in every `period` that has this bandwidth.
    pub(crate) fn runtime(self, period: Span) -> Span {
        let scaled = u128::from(self.0) * u128::from(period.nanos().max(0).unsigned_abs());
        Span::from_wide(i128::try_from(scaled.div_ceil(1 << BANDWIDTH_SHIFT)).unwrap_or(i128::MAX))
    }

    /// This bandwidth less `other`, at least zero.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Bandwidth {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        Self(all.map(|one| one.0).sum())
    }
}

/// Takes real-time priority away from `thread`, of this process: SCHED_OTHER.
pub(crate) fn demote(thread: ThreadId) -> io::Result<()> {
    // SAFETY: sched_param is made of integers, for which all-zero bytes are valid; SCHED_OTHER wants priority 0.
    let param: libc::sched_param = unsafe { mem::zeroed() };
    // The libc function of this name is not used: musl's always fails (ENOSYS), because POSIX takes the number for a process and Linux for
    // a thread.
    // SAFETY: `param` outlives the call; a reused id can only be another thread, which the kernel checks we may change.
    from_minus_one(unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, thread.0, libc::SCHED_OTHER, &raw const param)
    })
    .map(drop)
}

/// SCHED_FIFO at `priority` in 1..=99: the calling thread runs until it sleeps or a more urgent thread is ready.
/// Errors: EPERM without CAP_SYS_NICE or a sufficient RLIMIT_RTPRIO; EINVAL for a priority out of range.
pub fn set_fifo(priority: u8) -> io::Result<()> {
    set_realtime(RealtimeThreadSchedulePolicy::Fifo, priority)
}

/// SCHED_RR at `priority` in 1..=99: as FIFO, taking turns with threads of equal priority.
pub(crate) fn set_rr(priority: u8) -> io::Result<()> {
    set_realtime(RealtimeThreadSchedulePolicy::RoundRobin, priority)
}

/// SCHED_DEADLINE: `runtime` of processor time within `deadline` of the start of every `period`.
///
/// Needs `1024 ns ≤ runtime ≤ deadline ≤ period`. Threads spawned later start under SCHED_OTHER.
/// Errors: EPERM without CAP_SYS_NICE, and for a pinned thread; EBUSY if too much CPU time is promised already; EINVAL for spans out of
/// order or not above zero.
pub fn set_deadline(runtime: Span, deadline: Span, period: Span) -> io::Result<()> {
    let length = |span: Span| u64::try_from(span.nanos()).map(std::time::Duration::from_nanos).map_err(|_| invalid());
    let priority = ThreadPriority::Deadline {
        runtime: length(runtime)?,
        deadline: length(deadline)?,
        period: length(period)?,
        flags: DeadlineFlags::RESET_ON_FORK, // without it, spawning a thread fails with EAGAIN
    };
    // The crate passes this pthread_t on as a kernel id. Only 0, the calling thread, means the same as both.
    let calling = 0 as thread_priority::ThreadId;
    set_policy(calling, priority, RealtimeThreadSchedulePolicy::Deadline)
}

/// How the kernel schedules the calling thread now. Neither the C library nor thread-priority is asked: their cached values miss
/// SCHED_DEADLINE and `chrt`.
/// Errors: EPERM or ENOSYS where a sandbox forbids the call.
pub(crate) fn scheduling() -> io::Result<Scheduled> {
    scheduling_of(ThreadId(0))
}

/// How the kernel schedules `thread`, of this process, now: `chrt` may have changed it.
/// Errors: ESRCH if the thread has ended; EPERM or ENOSYS where a sandbox forbids the call.
pub(crate) fn scheduling_of(thread: ThreadId) -> io::Result<Scheduled> {
    let attr = attributes(thread)?;
    let policy = match libc::c_int::try_from(attr.sched_policy) {
        Ok(libc::SCHED_OTHER) => "other",
        Ok(libc::SCHED_FIFO) => "fifo",
        Ok(libc::SCHED_RR) => "rr",
        Ok(libc::SCHED_BATCH) => "batch",
        Ok(libc::SCHED_IDLE) => "idle",
        Ok(libc::SCHED_DEADLINE) => "deadline",
        _ => "unknown",
    };
    Ok(Scheduled { policy, priority: u8::try_from(attr.sched_priority).unwrap_or(u8::MAX) })
}

// The kernel's layout; it may grow at its end.
const _: () = {
    assert!(size_of::<libc::sched_attr>() >= 48 && offset_of!(libc::sched_attr, sched_flags) == 8);
    assert!(offset_of!(libc::sched_attr, sched_runtime) == 24 && offset_of!(libc::sched_attr, sched_period) == 40);
    assert!(size_of::<libc::sched_param>() >= 4 && offset_of!(libc::sched_param, sched_priority) == 0);
};

fn attributes(thread: ThreadId) -> io::Result<libc::sched_attr> {
    // SAFETY: sched_attr is made of integers, for which all-zero bytes are valid.
    let mut attr: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of_val(&attr);
    // SAFETY: `attr` is owned and `size` is its own, which limits what the kernel writes; 0 is the calling thread.
    from_minus_one(unsafe { libc::syscall(libc::SYS_sched_getattr, thread.0, &raw mut attr, size, 0) })?;
    Ok(attr)
}

fn set_realtime(policy: RealtimeThreadSchedulePolicy, priority: u8) -> io::Result<()> {
    let priority = ThreadPriorityValue::try_from(priority).map_err(|_| invalid())?;
    set_policy(thread_native_id(), ThreadPriority::Crossplatform(priority), policy)
}

fn set_policy(
    thread: thread_priority::ThreadId,
    priority: ThreadPriority,
    policy: RealtimeThreadSchedulePolicy,
) -> io::Result<()> {
    let set = set_thread_priority_and_policy(thread, priority, ThreadSchedulePolicy::Realtime(policy));
    let errno = io::Error::last_os_error(); // before anything else can overwrite it
    set.map_err(|error| match error {
        thread_priority::Error::OS(-1) => errno, // the crate passes on the -1 of a system call instead of the reason
        thread_priority::Error::OS(code) => io::Error::from_raw_os_error(code),
        _ => invalid(), // refused by the crate itself: priority or span out of range
    })
}

#[cfg(test)]
mod tests {
    use super::super::id;
    use super::super::tests::{apart, errno};
    use super::*;

    /// Whether the kernel granted the request. Only a refusal for lack of privilege skips the test.
    fn granted(result: io::Result<()>) -> bool {
        let Err(error) = result else { return true };
        crate::sys::emulation::say_skipped(&format!("no CAP_SYS_NICE, or no deadline bandwidth left: {error}"));
        assert!(matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY)), "{error}");
        false
    }

    #[test]
    fn fifo_and_rr_are_what_the_kernel_says() {
        apart(|| {
            let read = || scheduling().map(|s| (s.policy, s.priority)).unwrap();
            let inherited = read(); // not `other` if the tests were started under another policy
            if granted(set_fifo(7)) {
                assert_eq!(read(), ("fifo", 7));
                assert!(granted(set_rr(99)));
                assert_eq!(read(), ("rr", 99));
                demote(id()).unwrap();
                assert_eq!(read(), ("other", 0));
            } else {
                assert_eq!(read(), inherited);
                // Without the privilege, the kernel allows this only from `other`.
                if inherited == ("other", 0) {
                    demote(id()).unwrap();
                    assert_eq!(read(), inherited);
                }
            }
            for priority in [0, 100, 101, 255] {
                assert_eq!(errno(set_fifo(priority)), Some(libc::EINVAL), "{priority}");
            }
        });
    }

    #[test]
    fn a_bandwidth_is_rounded_down_and_its_runtime_up() {
        for (runtime, period) in [(1_024, 1_000_000_000), (9_000_001, 10_000_000), (333, 1_000), (5, 5), (1, 3)] {
            let [runtime, period] = [runtime, period].map(Span::from_nanos);
            let bandwidth = Bandwidth::of(runtime, period);
            let least = bandwidth.runtime(period);
            assert!(least <= runtime && Bandwidth::of(least, period) == bandwidth, "{runtime} {period} {least}");
        }
        assert_eq!(Bandwidth::of(Span::from_nanos(7), Span::ZERO), Bandwidth::default());
        let half = Bandwidth::of(Span::from_millis(5), Span::from_millis(10));
        assert_eq!([half, half].into_iter().sum::<Bandwidth>(), Bandwidth(1 << BANDWIDTH_SHIFT));
        assert_eq!(half.without(Bandwidth(1 << BANDWIDTH_SHIFT)), Bandwidth::default());
    }

    #[test]
    fn deadline_is_what_the_kernel_says() {
        let millis = Span::from_millis;
        apart(move || {
            let nice = || attributes(ThreadId(0)).unwrap().sched_nice;
            let policy = || scheduling().unwrap().policy;
            let (inherited, before) = (policy(), nice());
            if granted(set_deadline(millis(1), millis(8), millis(10))) {
                assert_eq!(scheduling().unwrap(), Scheduled { policy: "deadline", priority: 0 });
                let read = attributes(ThreadId(0)).unwrap();
                assert_eq!(
                    [read.sched_runtime, read.sched_deadline, read.sched_period],
                    [1, 8, 10].map(|ms| ms * 1_000_000)
                );
                assert_eq!(apart(policy), "other", "reset on fork");
                demote(id()).unwrap();
                assert_eq!((policy(), nice()), ("other", before));
            } else {
                assert_eq!((policy(), nice()), (inherited, before));
            }
            assert_eq!(errno(set_deadline(millis(-1), millis(8), millis(10))), Some(libc::EINVAL));
            let order = errno(set_deadline(millis(9), millis(8), millis(10)));
            assert!([Some(libc::EINVAL), Some(libc::EPERM)].contains(&order), "{order:?}");
        });
    }
}
