//! Signals as requests: stop and reload for a cool thread to wait for, and the one that ends another thread's sleep.
//!
//! No clock is read. [`StopSignals::wait`] blocks; the rest is for start-up and may allocate. The handlers themselves
//! (signal-hook's, and an empty one) only write to a pipe or a flag, but for the second request to stop, which ends the
//! process. They run on any thread that has not blocked the signal, so block signals in the threads that must not be
//! disturbed ([`super::thread::with_signals_blocked`]).

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

/// Another thread ends the process after the second request to stop, once it has done what must be done before.
static END_IS_HELD: AtomicBool = AtomicBool::new(false);

/// The signal that was the second request to stop; 0: there was none.
static SECOND_END: AtomicI32 = AtomicI32::new(0);

/// There was a third one.
static IN_A_HURRY: AtomicBool = AtomicBool::new(false);

/// How long that thread may take for it, in seconds; one second from a third request on.
const END_WITHIN: u32 = 4;

/// From now on the second request to stop does not end the process: the caller looks at [`second_end`] several times a second, and ends it.
/// Should it not, the process ends four seconds later, and one second after the third request.
pub(crate) fn hold_second_end() {
    END_IS_HELD.store(true, Ordering::SeqCst);
}

/// The signal that was the second request to stop, if there was one.
pub(crate) fn second_end() -> Option<i32> {
    Some(SECOND_END.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Raised by the first SIGINT, SIGTERM or SIGHUP; a second of them ends the process at once. For a command that has to leave
/// the terminal as it found it, or devices.
pub(crate) fn end_flag() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order the first one does not find it raised.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// SIGINT, SIGTERM and SIGHUP while something is to be undone before this process ends. Dropped, each of them ends the process again.
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

    /// Whether one came since this was last asked.
    pub(crate) fn take(&self) -> bool {
        self.came.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// SIGTSTP and SIGCONT for a command that has the terminal.
#[cfg(feature = "top")]
#[derive(Debug)]
pub(crate) struct JobControl {
    stop: Arc<AtomicBool>,
    went_on: Arc<AtomicBool>,
}

#[cfg(feature = "top")]
impl JobControl {
    /// From here on SIGTSTP waits for [`Self::stops`].
    pub(crate) fn caught() -> io::Result<Self> {
        let (stop, went_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        flag::register(SIGTSTP, Arc::clone(&stop))?;
        flag::register(SIGCONT, Arc::clone(&went_on))?;
        Ok(Self { stop, went_on })
    }

    /// The same as SIGTSTP.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether this process is to stop, and has not yet.
    pub(crate) fn stops(&self) -> bool {
        self.stop.swap(false, Ordering::SeqCst)
    }

    /// Stops all threads of this process until SIGCONT.
    pub(crate) fn stop(&self) -> io::Result<()> {
        low_level::emulate_default_handler(SIGTSTP)
    }

    /// Whether it was stopped and continues since this was last asked.
    pub(crate) fn went_on(&self) -> bool {
        self.went_on.swap(false, Ordering::SeqCst)
    }
}

/// The signals this process takes as a [`Request`]. Keep it until the process ends: once dropped, SIGHUP and the first
/// of SIGINT and SIGTERM are swallowed.
#[derive(Debug)]
pub(crate) struct StopSignals {
    signals: SignalDelivery<UnixStream, SignalOnly>,
}

/// A handler that cannot wake [`StopSignals::wait`], as the kernel has no memory for it, is heard within this time.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

impl StopSignals {
    /// From here on the first SIGINT or SIGTERM is a request to stop, and the second of either ends the process at once
    /// with status 130 or 143, so that a stop that hangs can be cut short. A SIGALRM means nothing before that. SIGHUP and SIGXCPU, which would end the
    /// process otherwise, are requests too.
    pub(crate) fn install() -> io::Result<Self> {
        // Ignored, as whoever started this process may have left it, it would keep from this process how its programs have ended.
        // SAFETY: takes numbers alone; SIGCHLD does nothing by default.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        // In this order no signal goes missing, and the flag is looked at before it is raised.
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
                    // SAFETY: takes a number and touches no memory. Should what is to end the process be delayed, SIGALRM ends it.
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
            // Somebody else's: sent, or of a timer that was set before this program was executed.
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

    /// Blocks until there is a request. Requests made in the meantime are kept, those of one kind as one.
    pub(crate) fn wait(&mut self) -> Option<Request> {
        loop {
            // Whether one is pending does not depend on the wake-up, which may be lost.
            if let Some(signal) = self.signals.pending().next() {
                return Some(match signal {
                    SIGHUP => Request::Reload,
                    SIGXCPU => Request::CpuLimit,
                    stop => Request::Stop(stop),
                });
            }
            if self.signals.get_read_mut().read(&mut [0; 64]).is_err() {
                // After an error that returns at once, the next read may fail in the same way.
                pause(Span::from_millis(1));
            }
        }
    }
}

/// Gives SIGURG a handler that does nothing, which is what makes it end a sleep: without one the kernel discards it. SIGXFSZ
/// gets it as well, as it would end the process: a log or a summary that reaches RLIMIT_FSIZE takes no more, as on a full disk.
///
/// SIGURG is ignored by default, so one that is sent too early kills nothing. Once per process, before
/// [`super::thread::interrupt`].
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

    /// In a process of its own, the same test binary again, since it is to be killed.
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
