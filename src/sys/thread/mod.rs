//! What the calling thread is given by the kernel: its CPUs, its scheduling policy, its signal mask; and a way to wake
//! another thread out of its sleep.
//!
//! All of it is for setting a thread up and may allocate; nothing blocks. A setter acts on the calling thread only, and
//! threads spawned from it inherit CPUs, FIFO or RR, and the mask: spawn first, then promote.

use std::hint::black_box;
use std::{io, mem};

use thread_priority::{
    DeadlineFlags, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::time::Span;

use super::{from_code, from_minus_one, host, invalid};

/// A thread as the kernel knows it, for [`interrupt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The number that `ps -L`, `perf` and `/proc/self/task` show.
    pub const fn number(self) -> i32 {
        self.0
    }
}

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// `fifo`, `rr`, `deadline`, `other`, `batch`, `idle`, or `unknown` to this program.
    pub policy: &'static str,
    /// In 1..=99 under `fifo` and `rr`, greater is more urgent; otherwise 0.
    pub priority: u8,
    /// In -20..=19, smaller gets more of the CPU; counts under `other` and `batch`.
    pub nice: i32,
    /// Under `deadline`, the processor time granted in each period; otherwise no promise.
    pub runtime: Span,
    /// Under `deadline`, how long after the start of a period that runtime is granted; otherwise zero.
    pub deadline: Span,
    /// Under `deadline`, the distance of periods; otherwise zero.
    pub period: Span,
}

/// Takes real-time priority away from `thread`, of this process: SCHED_OTHER.
///
/// # Errors
/// ESRCH when the thread has ended.
pub fn demote(thread: ThreadId) -> io::Result<()> {
    // SAFETY: sched_param is made of integers, for which all-zero bytes are valid; SCHED_OTHER wants priority 0.
    let param: libc::sched_param = unsafe { mem::zeroed() };
    // SAFETY: `param` outlives the call; a reused id can only be another thread, which the kernel checks we may change.
    from_minus_one(unsafe { libc::sched_setscheduler(thread.0, libc::SCHED_OTHER, &raw const param) }).map(drop)
}

/// Processor time used by `thread`, of this process, so far; `None` when it has ended or the kernel does not say.
pub fn cpu_time_of(thread: ThreadId) -> Option<Span> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", thread.0)).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Span::from_nanos)
}

/// The signals a thread had blocked before [`block_all_signals`].
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

/// Allows the calling thread to run on `cpus` (kernel numbers, in any order) and nowhere else.
///
/// Of several CPUs the kernel drops those that do not exist or lie outside the cgroup's cpuset, as long as one is left:
/// [`affinity`] tells what was granted.
///
/// # Errors
/// EINVAL when no CPU of the list can be used, or one is not below [`host::cpu_set_size`]; EBUSY under SCHED_DEADLINE,
/// which does not go together with pinning.
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
    // SAFETY: `set` is initialised, outlives the call, and its size is passed with it; 0 is the calling thread.
    from_minus_one(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map(drop)
}

/// The CPUs the calling thread may run on, ascending.
///
/// # Errors
/// EINVAL on a machine with more CPUs than [`host::cpu_set_size`].
pub fn affinity() -> io::Result<Vec<usize>> {
    affinity_of(ThreadId(0))
}

/// The CPUs `thread`, of this process, may run on, ascending: a cgroup's cpuset or `taskset` may have changed them.
///
/// # Errors
/// ESRCH when the thread has ended; EINVAL on a machine with more CPUs than [`host::cpu_set_size`].
pub fn affinity_of(thread: ThreadId) -> io::Result<Vec<usize>> {
    let mut set = empty_cpu_set();
    // SAFETY: `set` is owned and the size passed is its own; the id names a thread, 0 the calling one.
    from_minus_one(unsafe { libc::sched_getaffinity(thread.0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: `cpu` is below CPU_SETSIZE, the end of the range.
    Ok((0..host::cpu_set_size()).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// SCHED_FIFO at `priority` in 1..=99: runs until it sleeps or somebody more urgent comes.
///
/// # Errors
/// EPERM without CAP_SYS_NICE or a sufficient RLIMIT_RTPRIO; EINVAL for a priority out of range.
pub fn set_fifo(priority: u8) -> io::Result<()> {
    set_realtime(RealtimeThreadSchedulePolicy::Fifo, priority)
}

/// SCHED_RR at `priority` in 1..=99: as FIFO, taking turns with threads of equal priority.
///
/// # Errors
/// As [`set_fifo`].
pub fn set_rr(priority: u8) -> io::Result<()> {
    set_realtime(RealtimeThreadSchedulePolicy::RoundRobin, priority)
}

/// SCHED_OTHER, the policy threads start with.
///
/// Past thread-priority, which would set the nice value with it, and so fail where that may not be raised.
///
/// # Errors
/// EPERM for an ordinary user under a policy that resets on fork (deadline).
pub fn set_other() -> io::Result<()> {
    // SAFETY: sched_param is made of integers, for which all-zero bytes are valid; SCHED_OTHER wants priority 0.
    let param: libc::sched_param = unsafe { mem::zeroed() };
    // SAFETY: the id is that of the calling thread, which is alive, and `param` outlives the call.
    from_code(unsafe { libc::pthread_setschedparam(thread_native_id(), libc::SCHED_OTHER, &raw const param) })
}

/// SCHED_DEADLINE: `runtime` of processor time within `deadline` of the start of every `period`.
///
/// Needs `1024 ns ≤ runtime ≤ deadline ≤ period`. Threads spawned later start under SCHED_OTHER.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, and for a pinned thread; EBUSY when the CPUs have promised too much already; EINVAL for
/// spans out of order or not above zero.
pub fn set_deadline(runtime: Span, deadline: Span, period: Span) -> io::Result<()> {
    let length = |span: Span| u64::try_from(span.nanos()).map(std::time::Duration::from_nanos).map_err(|_| invalid());
    let priority = ThreadPriority::Deadline {
        runtime: length(runtime)?,
        deadline: length(deadline)?,
        period: length(period)?,
        flags: DeadlineFlags::RESET_ON_FORK, // without it, spawning a thread fails with EAGAIN
    };
    // Id 0 because the crate takes a pthread_t and passes it on as a kernel id, of which only 0 (the caller) is right.
    let calling = 0 as thread_priority::ThreadId;
    set_policy(calling, priority, RealtimeThreadSchedulePolicy::Deadline)
}

/// How the kernel schedules the calling thread now; asked anew, since glibc and thread-priority answer from a cache
/// that neither SCHED_DEADLINE nor `chrt` reaches.
///
/// # Errors
/// EPERM or ENOSYS where a sandbox forbids the call.
pub fn scheduling() -> io::Result<Scheduled> {
    scheduling_of(ThreadId(0))
}

/// How the kernel schedules `thread`, of this process, now: `chrt` may have changed it.
///
/// # Errors
/// ESRCH when the thread has ended; EPERM or ENOSYS where a sandbox forbids the call.
pub fn scheduling_of(thread: ThreadId) -> io::Result<Scheduled> {
    // SAFETY: sched_attr is made of integers, for which all-zero bytes are valid.
    let mut attr: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of_val(&attr);
    // SAFETY: `attr` is owned and `size` is its own, which is as much as the kernel writes; 0 is the calling thread.
    from_minus_one(unsafe { libc::syscall(libc::SYS_sched_getattr, thread.0, &raw mut attr, size, 0) })?;
    let policy = match libc::c_int::try_from(attr.sched_policy) {
        Ok(libc::SCHED_OTHER) => "other",
        Ok(libc::SCHED_FIFO) => "fifo",
        Ok(libc::SCHED_RR) => "rr",
        Ok(libc::SCHED_BATCH) => "batch",
        Ok(libc::SCHED_IDLE) => "idle",
        Ok(libc::SCHED_DEADLINE) => "deadline",
        _ => "unknown",
    };
    Ok(Scheduled {
        policy,
        priority: u8::try_from(attr.sched_priority).unwrap_or(u8::MAX),
        nice: attr.sched_nice,
        runtime: Span::from_wide(attr.sched_runtime.into()),
        deadline: Span::from_wide(attr.sched_deadline.into()),
        period: Span::from_wide(attr.sched_period.into()),
    })
}

/// How much later than asked the kernel may end a sleep, to end several at once: 50 000 ns unless set.
///
/// Real-time policies have none, so this is for threads that were refused one. 0 goes back to the default; 1 is the
/// least there is.
///
/// # Errors
/// EINVAL or EPERM where a sandbox forbids the call.
pub fn set_timer_slack(nanos: u32) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one unsigned long and no pointer.
    from_minus_one(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanos)) }).map(drop)
}

/// Touches the next `BYTES` of the calling thread's stack, so that later calls down to that depth fault no page in.
///
/// `BYTES` has to fit in what is left of the stack (2 MiB for a thread of std), or the process dies of the overflow.
#[inline(never)]
pub fn prefault_stack<const BYTES: usize>() {
    black_box(&mut [0u8; BYTES]);
}

/// The calling thread.
pub fn id() -> ThreadId {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    ThreadId(unsafe { libc::gettid() })
}

/// Ends the sleep that `thread`, of this process, is in: it comes back as [`crate::time::Wake::Interrupted`].
///
/// A thread that is *about* to sleep is not held back from it, so raise a flag first, and send again until the thread
/// has shown that it saw it. A thread that has ended is ignored. Works once [`super::signals::catch_interrupts`] has
/// been called; before that the kernel discards the signal.
pub fn interrupt(thread: ThreadId) {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: no pointers; the ids say this process, so the worst a reused id can meet is our own no-op handler.
    let sent = from_minus_one(unsafe { libc::syscall(libc::SYS_tgkill, process, thread.0, libc::SIGURG) });
    let gone = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
    debug_assert!(sent.as_ref().err().is_none_or(gone), "tgkill: {sent:?}");
}

/// Blocks all signals but SIGURG, which [`interrupt`] needs, and the faults a thread raises by itself (SIGSEGV, SIGBUS,
/// SIGILL, SIGFPE), for the calling thread and those it spawns from then on.
///
/// A handler runs on whichever thread has not blocked its signal; call this in every thread that must not be the one,
/// and leave at least one (main) that may. The mask from before is returned for whoever wants it back.
///
/// # Errors
/// None that the kernel documents for these arguments.
pub fn block_all_signals() -> io::Result<SignalMask> {
    // SAFETY: sigset_t is made of integers, for which all-zero bytes are valid.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is an owned sigset_t.
    from_minus_one(unsafe { libc::sigfillset(&raw mut set) })?;
    for open in [libc::SIGURG, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
        // SAFETY: `set` is an owned and initialised sigset_t.
        from_minus_one(unsafe { libc::sigdelset(&raw mut set, open) })?;
    }
    exchange_mask(set)
}

/// Does `work` with all signals blocked as by [`block_all_signals`], so that the threads it spawns leave them to others;
/// then the mask is as it was, whatever has become of the work.
///
/// # Errors
/// As [`block_all_signals`].
pub fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let mask = block_all_signals()?;
    let done = work();
    mask.restore()?;
    Ok(done)
}

impl SignalMask {
    /// Gives the calling thread this mask.
    ///
    /// # Errors
    /// As [`block_all_signals`].
    pub fn restore(self) -> io::Result<()> {
        exchange_mask(self.0).map(drop)
    }
}

fn exchange_mask(new: libc::sigset_t) -> io::Result<SignalMask> {
    let mut old = new;
    // SAFETY: both sets are owned, initialised and outlive the call, and do not overlap.
    from_code(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const new, &raw mut old) })?;
    Ok(SignalMask(old))
}

fn empty_cpu_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers, for which all-zero bytes are valid and mean no CPU.
    unsafe { mem::zeroed() }
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
        thread_priority::Error::OS(-1) => errno, // the crate passes a system call's -1 on instead of the reason
        thread_priority::Error::OS(code) => io::Error::from_raw_os_error(code),
        _ => invalid(), // refused by the crate itself: priority or span out of range
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::{KernelClock, pause};
    use crate::sys::signals::catch_interrupts;
    use crate::time::{Clock, Wake};
    use std::sync::mpsc;
    use std::thread::spawn;

    /// Runs in a thread of its own what changes the thread it runs in.
    fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        spawn(work).join().expect("the thread ran to its end")
    }

    fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
        result.expect_err("must be refused").raw_os_error()
    }

    /// Whether the kernel granted it; a refusal for want of privilege, and nothing else, skips the test.
    fn granted(result: io::Result<()>) -> bool {
        let Err(error) = result else { return true };
        println!("skipped: no CAP_SYS_NICE, or its CPUs are spoken for: {error}");
        assert!(matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY)), "{error}");
        false
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
    fn fifo_and_rr_are_what_the_kernel_says() {
        apart(|| {
            let read = || scheduling().map(|s| (s.policy, s.priority)).unwrap();
            assert_eq!(read(), ("other", 0));
            if granted(set_fifo(7)) {
                assert_eq!(read(), ("fifo", 7));
                assert!(granted(set_rr(99)));
                assert_eq!(read(), ("rr", 99));
            }
            set_other().unwrap();
            assert_eq!(read(), ("other", 0));
            for priority in [0, 100, 101, 255] {
                assert_eq!(errno(set_fifo(priority)), Some(libc::EINVAL), "{priority}");
            }
        });
    }

    #[test]
    fn deadline_is_what_the_kernel_says() {
        let millis = Span::from_millis;
        apart(move || {
            let nice = scheduling().unwrap().nice;
            if granted(set_deadline(millis(1), millis(8), millis(10))) {
                let promised = (millis(1), millis(8), millis(10));
                let read = scheduling().unwrap();
                assert_eq!((read.policy, read.priority), ("deadline", 0));
                assert_eq!((read.runtime, read.deadline, read.period), promised);
                assert_eq!(apart(|| scheduling().unwrap().policy), "other", "reset on fork");
                set_other().unwrap();
            }
            assert_eq!(scheduling().unwrap().policy, "other");
            assert_eq!(scheduling().unwrap().nice, nice);
            assert_eq!(errno(set_deadline(millis(-1), millis(8), millis(10))), Some(libc::EINVAL));
            let order = errno(set_deadline(millis(9), millis(8), millis(10)));
            assert!([Some(libc::EINVAL), Some(libc::EPERM)].contains(&order), "{order:?}");
        });
    }

    #[test]
    fn an_interrupt_ends_a_long_sleep() {
        catch_interrupts().unwrap();
        let (tell, told) = mpsc::channel();
        let sleeper = spawn(move || {
            block_all_signals().unwrap();
            tell.send(id()).unwrap();
            let clock = KernelClock::monotonic();
            clock.sleep_until(clock.now() + Span::MAX)
        });
        let id = told.recv().unwrap();
        while !sleeper.is_finished() {
            interrupt(id); // again and again: the first may come before the sleep
            pause(Span::from_millis(1));
        }
        assert_eq!(sleeper.join().unwrap(), Wake::Interrupted);
        interrupt(id); // a thread that is gone is none of our business
    }

    #[test]
    fn signals_are_blocked_and_given_back() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
            let mask = u64::from_str_radix(mask, 16).unwrap();
            move |signal: i32| mask >> (signal - 1) & 1 == 1
        };
        apart(move || {
            let old = block_all_signals().unwrap();
            let now = blocked();
            assert!([libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGALRM].into_iter().all(&now));
            let open = [libc::SIGURG, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
            assert!(!open.into_iter().any(&now));
            assert!(apart(move || blocked()(libc::SIGTERM)), "inherited");
            old.restore().unwrap();
            assert!(!blocked()(libc::SIGTERM));
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
