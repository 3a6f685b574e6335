//! Which signals reach a thread, and the signal that interrupts its sleep.

use super::ThreadId;
use crate::sys::{from_code, from_minus_one};
use std::{io, mem};

/// Interrupts the sleep of `thread`, of this process: the sleep returns [`crate::time::Wake::Interrupted`].
///
/// A thread that is *about* to sleep still falls asleep. So raise a flag first, and repeat this until the thread has shown that it saw the
/// flag. A thread that has ended is ignored. Before [`crate::sys::signals::catch_interrupts`] the kernel discards the signal.
pub(crate) fn interrupt(thread: ThreadId) {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: no pointers; the ids name this process, so a reused id can only reach our own handler, which does nothing.
    let sent = from_minus_one(unsafe { libc::syscall(libc::SYS_tgkill, process, thread.0, libc::SIGURG) });
    let gone = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
    debug_assert!(sent.as_ref().err().is_none_or(gone), "tgkill: {sent:?}");
}

/// Signals that a thread raises itself, by a fault or by `abort`. If one is blocked, it ends the process without the handler that reports
/// it.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

/// Holds back one signal from the calling thread and from those that it spawns meanwhile. Dropping it restores the previous mask, and a
/// pending signal arrives.
#[derive(Debug)]
pub(crate) struct Held {
    before: libc::sigset_t,
}

/// Holds back SIGHUP, which ends a process that has no handler for it.
pub(crate) fn hold_reload() -> io::Result<Held> {
    // SAFETY: sigset_t is made of integers, for which all-zero bytes are valid.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is an owned sigset_t.
    from_minus_one(unsafe { libc::sigemptyset(&raw mut set) })?;
    // SAFETY: `set` is an owned and initialised sigset_t.
    from_minus_one(unsafe { libc::sigaddset(&raw mut set, libc::SIGHUP) })?;
    Ok(Held { before: change_mask(libc::SIG_BLOCK, set)? })
}

impl Drop for Held {
    fn drop(&mut self) {
        // Fails only for a `how` that does not exist.
        let _ = exchange_mask(self.before);
    }
}

/// Runs `work` with all signals blocked, so that the threads it spawns leave signals to other threads; then restores the mask.
///
/// SIGURG stays open because [`interrupt`] needs it, and so do the faults that a thread raises itself ([`FAULTS`]). A handler runs on any
/// thread that has not blocked its signal, so at least one thread must not block it.
pub(crate) fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let old = exchange_mask(all_but_own()?)?;
    let done = work();
    exchange_mask(old)?;
    Ok(done)
}

/// From now on the calling thread and those that it spawns leave all signals to other threads, as in [`with_signals_blocked`].
pub(crate) fn leave_signals() -> io::Result<()> {
    exchange_mask(all_but_own()?).map(drop)
}

/// From now on every signal reaches the calling thread, even one that was blocked when this process was started.
pub(crate) fn take_signals() -> io::Result<()> {
    // SAFETY: sigset_t is made of integers, for which all-zero bytes are valid: no signal.
    exchange_mask(unsafe { mem::zeroed() }).map(drop)
}

/// All signals but those that each thread needs itself.
fn all_but_own() -> io::Result<libc::sigset_t> {
    // SAFETY: sigset_t is made of integers, for which all-zero bytes are valid.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is an owned sigset_t.
    from_minus_one(unsafe { libc::sigfillset(&raw mut set) })?;
    for open in FAULTS.into_iter().chain([libc::SIGURG]) {
        // SAFETY: `set` is an owned and initialised sigset_t.
        from_minus_one(unsafe { libc::sigdelset(&raw mut set, open) })?;
    }
    Ok(set)
}

/// Sets the calling thread's mask to `new`; returns the old one.
fn exchange_mask(new: libc::sigset_t) -> io::Result<libc::sigset_t> {
    change_mask(libc::SIG_SETMASK, new)
}

fn change_mask(how: libc::c_int, set: libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut old = set;
    // SAFETY: both sets are owned, initialised and outlive the call, and do not overlap.
    from_code(unsafe { libc::pthread_sigmask(how, &raw const set, &raw mut old) })?;
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::super::id;
    use super::super::tests::apart;
    use super::*;
    use crate::sys::clock::{KernelClock, pause};
    use crate::sys::signals::catch_interrupts;
    use crate::time::{Clock, Span, Wake};
    use std::sync::mpsc;
    use std::thread::spawn;

    #[test]
    fn an_interrupt_ends_a_long_sleep() {
        catch_interrupts().unwrap();
        let (send, receive) = mpsc::channel();
        let sleeper = spawn(move || {
            send.send(id()).unwrap();
            let clock = KernelClock::monotonic();
            with_signals_blocked(|| clock.sleep_until(clock.now() + Span::MAX)).unwrap()
        });
        let id = receive.recv().unwrap();
        while !sleeper.is_finished() {
            interrupt(id); // repeated: the first may come before the sleep
            pause(Span::from_millis(1));
        }
        assert_eq!(sleeper.join().unwrap(), Wake::Interrupted);
        interrupt(id); // a thread that has ended is ignored
    }

    /// A function that returns whether the calling thread has blocked a signal.
    fn blocked() -> impl Fn(i32) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        move |signal| mask >> (signal - 1) & 1 == 1
    }

    #[test]
    fn signals_are_blocked_and_restored() {
        apart(|| {
            let held = hold_reload().unwrap();
            assert!(blocked()(libc::SIGHUP) && !blocked()(libc::SIGTERM));
            drop(held);
            assert!(!blocked()(libc::SIGHUP));
        });
        apart(move || {
            with_signals_blocked(|| {
                let now = blocked();
                assert!([libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGALRM].into_iter().all(&now));
                assert!(!FAULTS.into_iter().chain([libc::SIGURG]).any(&now));
                assert!(apart(move || blocked()(libc::SIGTERM)), "inherited");
            })
            .unwrap();
            assert!(!blocked()(libc::SIGTERM));
        });
    }
}
