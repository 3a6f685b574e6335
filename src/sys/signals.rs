//! Signals as requests: stop and reload, which a cool thread waits for, and the signal that interrupts another thread's sleep.
//!
//! No clock is read. [`StopSignals::wait`] blocks; the rest is for start-up and may allocate. The handlers (signal-hook's, and an empty
//! one) only write to a pipe or a flag, except for the second request to stop, which ends the process. Handlers run on any thread that has
//! not blocked the signal, so block signals in threads that must not be disturbed ([`super::thread::with_signals_blocked`]).

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;
use std::{io, mem};

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGXCPU};
#[cfg(feature = "top")]
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use signal_hook::{flag, low_level};

use super::clock::pause;
use super::from_minus_one;
use super::thread::let_all_end;
use crate::time::Span;

/// A request from outside to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// SIGINT or SIGTERM, by number: end in good order.
    Stop(i32),
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGXCPU: a real-time thread has used more processor time without a rest than RLIMIT_RTTIME allows.
    CpuLimit,
}

/// Set if, after the second request to stop, another thread ends the process once its last work is done.
static END_IS_HELD: AtomicBool = AtomicBool::new(false);

/// The signal that was the second request to stop; 0: there was none.
static SECOND_END: AtomicI32 = AtomicI32::new(0);

/// A third request has come.
static IN_A_HURRY: AtomicBool = AtomicBool::new(false);

/// How many seconds that thread has before the process is ended. A third request cuts this to one second.
const END_WITHIN: u32 = 4;

/// From now on the second request to stop does not end the process. The caller must poll [`second_end`] several times a second and end the
/// process itself. If it does not, the process ends after four seconds, or one second after a third request.
pub(crate) fn hold_second_end() {
    END_IS_HELD.store(true, Ordering::SeqCst);
}

/// The signal that was the second request to stop, if there was one.
pub(crate) fn second_end() -> Option<i32> {
    Some(SECOND_END.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP raises; a second one ends the process at once. For commands that must restore the
/// terminal or devices.
pub(crate) fn end_flag() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order the first signal finds the flag still clear.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Catches SIGINT, SIGTERM and SIGHUP while something must be undone before this process ends. Dropping it restores their default action.
#[derive(Debug)]
pub(crate) struct Interrupts {
    came: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Interrupts {
    pub(crate) fn caught() -> io::Result<Self> {
        let (came, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, Arc::clone(&over))?;
            flag::register(signal, Arc::clone(&came))?;
        }
        Ok(Self { came, over })
    }

    /// Whether a signal has come since the last call.
    pub(crate) fn take(&self) -> bool {
        self.came.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// SIGTSTP and SIGCONT for a command that controls the terminal.
#[cfg(feature = "top")]
#[derive(Debug)]
pub(crate) struct JobControl {
    stop: Arc<AtomicBool>,
    went_on: Arc<AtomicBool>,
}

#[cfg(feature = "top")]
impl JobControl {
    /// From here on SIGTSTP is deferred until [`Self::stops`] sees it.
    pub(crate) fn caught() -> io::Result<Self> {
        let (stop, went_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        flag::register(SIGTSTP, Arc::clone(&stop))?;
        flag::register(SIGCONT, Arc::clone(&went_on))?;
        Ok(Self { stop, went_on })
    }

    /// Has the same effect as SIGTSTP.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether this process should stop now; clears the request.
    pub(crate) fn stops(&self) -> bool {
        self.stop.swap(false, Ordering::SeqCst)
    }

    /// Stops all threads of this process until SIGCONT.
    pub(crate) fn stop(&self) -> io::Result<()> {
        low_level::emulate_default_handler(SIGTSTP)
    }

    /// Whether the process has been continued since the last call.
    pub(crate) fn went_on(&self) -> bool {
        self.went_on.swap(false, Ordering::SeqCst)
    }
}

/// Receives this process's signals as [`Request`]s. Keep it until the process ends: once it is dropped, SIGHUP and the first SIGINT or
/// SIGTERM are swallowed.
#[derive(Debug)]
pub(crate) struct StopSignals {
    signals: SignalDelivery<UnixStream, SignalOnly>,
}

/// If the kernel lacks the memory for a handler to wake [`StopSignals::wait`], the signal is noticed within this time.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

impl StopSignals {
    /// From here on the first SIGINT or SIGTERM is a request to stop. The second of either ends the process at once with status 130 or 143,
    /// so a hanging stop can be cut short. SIGALRM has no effect before that. SIGHUP and SIGXCPU, which end the process by default, become
    /// requests too.
    pub(crate) fn install() -> io::Result<Self> {
        // Whoever started this process may have left SIGCHLD ignored; then the exit status of child programs would be lost.
        // SAFETY: takes numbers alone; SIGCHLD does nothing by default.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        // In this order no signal is lost, and the flag is read before it is raised.
        let stops = [SIGINT, SIGTERM];
        let (woken, waker) = UnixStream::pair()?;
        woken.set_read_timeout(Some(HEARD_WITHIN))?;
        let requests = [SIGINT, SIGTERM, SIGHUP, SIGXCPU];
        let signals = SignalDelivery::with_pipe(woken, waker, SignalOnly, requests)?;
        let asked = Arc::new(AtomicBool::new(false));
        for signal in stops {
            let asked_before = Arc::clone(&asked);
            let end = move || {
                if !asked_before.load(Ordering::SeqCst) {
                    return;
                }
                let first = SECOND_END.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                if END_IS_HELD.load(Ordering::SeqCst) {
                    let within = match first {
                        true => END_WITHIN,
                        false if !IN_A_HURRY.swap(true, Ordering::SeqCst) => 1,
                        false => return,
                    };
                    // SAFETY: takes a number and touches no memory. If the thread that is to end the process is delayed, SIGALRM ends it.
                    unsafe { libc::alarm(within) };
                    return;
                }
                let_all_end();
                low_level::exit(128 + signal);
            };
            // SAFETY: `end` reads and writes atomics and makes system calls, all of which is async-signal-safe.
            unsafe { low_level::register(signal, end) }?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        let late = || {
            // Not ours: another process sent it, or a timer set before this program was executed.
            if SECOND_END.load(Ordering::SeqCst) == 0 {
                return;
            }
            let_all_end();
            low_level::exit(128 + SECOND_END.load(Ordering::SeqCst));
        };
        // SAFETY: `late` reads an atomic and makes system calls, all of which is async-signal-safe.
        unsafe { low_level::register(SIGALRM, late) }?;
        Ok(Self { signals })
    }

    /// Blocks until there is a request. Requests made in the meantime are kept; several of one kind count as one.
    pub(crate) fn wait(&mut self) -> Option<Request> {
        loop {
            // Pending signals are checked first, because the wake-up may be lost.
            if let Some(signal) = self.signals.pending().next() {
                return Some(match signal {
                    SIGHUP => Request::Reload,
                    SIGXCPU => Request::CpuLimit,
                    stop => Request::Stop(stop),
                });
            }
            if self.signals.get_read_mut().read(&mut [0; 64]).is_err() {
                // If the read failed without blocking, the next may fail in the same way.
                pause(Span::from_millis(1));
            }
        }
    }
}

/// Gives SIGURG an empty handler, so that it interrupts a sleep; without a handler the kernel discards it. SIGXFSZ gets the same handler,
/// because by default it ends the process: a log or a summary that reaches RLIMIT_FSIZE then just stops growing, as on a full disk.
///
/// SIGURG is ignored by default, so sending it too early kills nothing. Call once per process, before [`super::thread::interrupt`].
pub(crate) fn catch_interrupts() -> io::Result<()> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: sigaction is made of integers, for which all-zero bytes are valid: an empty mask, and no SA_RESTART.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGURG, libc::SIGXFSZ] {
        // SAFETY: `action` outlives the call, and the handler, being empty, is async-signal-safe.
        from_minus_one(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;
    use std::process::Command;

    const IN_CHILD: &str = "HERTZD_TEST_SIGNALS_IN_CHILD";

    /// Runs in a child process, from the same test binary, because the signal kills it.
    #[test]
    fn the_first_signal_asks_and_the_second_ends() {
        if std::env::var_os(IN_CHILD).is_some() {
            let mut signals = StopSignals::install().unwrap();
            raise(SIGALRM).unwrap();
            raise(SIGHUP).unwrap();
            assert_eq!(signals.wait(), Some(Request::Reload));
            raise(SIGTERM).unwrap();
            raise(SIGHUP).unwrap();
            let both = [signals.wait(), signals.wait()];
            assert!(both.contains(&Some(Request::Stop(SIGTERM))) && both.contains(&Some(Request::Reload)));
            raise(SIGINT).unwrap();
            unreachable!("the second signal ends the process");
        }
        let test = "sys::signals::tests::the_first_signal_asks_and_the_second_ends";
        let child = Command::new(std::env::current_exe().unwrap()).args(["--exact", test]).env(IN_CHILD, "1").output();
        let child = child.unwrap();
        assert_eq!(child.status.code(), Some(130), "{}", String::from_utf8_lossy(&child.stdout));
    }
}
