//! Signals that end the process: a crash, in code of users which task it was and of which library; or that somebody has sent one, also one that has
//! nothing to do with a crash.
//!
//! Each call of a library is marked on its thread ([`inside`]). The handler runs on the crashed thread, on the
//! stack that the standard library gives each thread for signals. It notes what happened, has a thread wake up that does what no handler
//! may (log, ask for safe values), waits for it for a limited time, and lets the signal do what it does without a handler: the
//! core dump, the exit status and the faulting instruction are those of the crash.
//!
//! A call of `exit` there is reported in the same way: it would end the process as if all were well, and leave outputs as they are.
//!
//! Without this handler a signal that was sent would be swallowed once: that of the standard library takes it for a fault, and waits for it to
//! come again. The handler only uses atomics and system calls; its time comes from the monotonic clock.

#[cfg_attr(not(feature = "plugin"), expect(dead_code, reason = "there are no libraries"))]
mod inside;

use super::from_minus_one;
use super::thread::{helper, let_all_end};
use crate::program;
use std::fmt;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError, mpsc};

/// The signals of a crash, with their names and what they mean.
const SIGNALS: [(i32, &str, &str); 7] = [
    (libc::SIGSEGV, "SIGSEGV", "memory that it may not access, or too deep a stack"),
    (libc::SIGBUS, "SIGBUS", "memory whose file or device is not there"),
    (libc::SIGFPE, "SIGFPE", "arithmetic such as a division by zero"),
    (libc::SIGILL, "SIGILL", "an instruction that this processor does not have"),
    (libc::SIGABRT, "SIGABRT", "it ended itself: a failed assertion, an exception or a panic"),
    // How compilers for AArch64 end a program, among them Rust's for a panic that may go no further.
    (libc::SIGTRAP, "SIGTRAP", "it ended itself: a trap or a breakpoint"),
    (libc::SIGSYS, "SIGSYS", "a system call that a filter (seccomp) forbids"),
];

/// Other signals that end a process unless it handles them, where somebody sends them or a timer does.
const ENDS: [(i32, &str); 7] = [
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
];

/// What SIGBUS means where its code is `BUS_ADRALN`: most often on ARM, where the instructions for several words or of floating point want
/// aligned addresses.
const UNALIGNED: &str = "an address that is not aligned as the instruction needs it";

/// In place of a signal: the process was ended by `exit`.
const EXIT: i32 = 0;

/// The status of a process that was ended so: that of a fault.
const EXIT_STATUS: i32 = 70;

/// How long the handler waits for the crash to be reported: longer than safe values are waited for.
const PATIENCE_NS: i64 = 6_000_000_000;

/// Between two looks whether it has been.
const LOOK_EVERY_NS: i64 = 2_000_000;

/// The stack of the thread that reports: it counts as locked memory.
const STACK: usize = 512 << 10;

/// In place of the process that has sent the signal: no one has, it was a crash.
const NOBODY: i32 = -1;

#[cfg(feature = "plugin")]
pub(crate) use inside::note;
pub(crate) use inside::{Function, Note};

/// What has crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    /// The signal's name.
    pub(crate) signal: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// With which status it ends the process; `None`: by the signal.
    pub(crate) status: Option<i32>,
    /// The process that has sent the signal, 0 if it is not to be seen from here; `None`: it was a crash.
    pub(crate) sender: Option<i32>,
    /// What was called there; `None`: no function of a plugin.
    pub(crate) inside: Option<Inside>,
    /// There are plugins.
    pub(crate) has_plugins: bool,
}

/// Which call of a plugin has crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The task it was called for; empty: for none.
    pub(crate) task: String,
    /// The file of the library.
    pub(crate) library: String,
    /// Where: "in tick".
    pub(crate) place: &'static str,
}

static CRASHED: AtomicBool = AtomicBool::new(false);
static CRASHED_THREAD: AtomicI32 = AtomicI32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static SENDER: AtomicI32 = AtomicI32::new(NOBODY);
static HAS_PLUGINS: AtomicBool = AtomicBool::new(false);
static NOTE: AtomicPtr<Note> = AtomicPtr::new(ptr::null_mut());
static FUNCTION: AtomicU32 = AtomicU32::new(0);
static REPORTED: AtomicBool = AtomicBool::new(false);
/// The process whose crashes are reported: not one that a plugin has forked off.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// What the handler writes by itself of a crash outside of all functions begins so. Made before the handler: it only looks at it.
static OWN: OnceLock<String> = OnceLock::new();
/// Where the thread that reports is woken; -1: there is none.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// What the thread that reports does first of all, and how it reports.
type Report = (fn(), Box<dyn Fn(&Crash) + Send>);
static REPORT: Mutex<Option<Report>> = Mutex::new(None);

/// From now on `report` is called when something crashes, on a thread of its own; the crashed thread waits for it, for a limited time.
/// That thread calls `make_ready` first of all, before any library is loaded. Replaces the one before.
pub(crate) fn report_to(make_ready: fn(), report: impl Fn(&Crash) + Send + 'static) {
    *REPORT.lock().unwrap_or_else(PoisonError::into_inner) = Some((make_ready, Box::new(report)));
}

/// The same before the first library is loaded.
#[cfg(feature = "plugin")]
pub(crate) fn watch_plugins() {
    HAS_PLUGINS.store(true, Ordering::SeqCst);
    watch();
}

/// Makes the thread that reports if there is something to report to, once, and installs the handlers. Without the thread they write a line to
/// stderr by themselves.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let make_ready =
            REPORT.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(make_ready, _)| *make_ready);
        if let Some(make_ready) = make_ready {
            // SAFETY: takes numbers and touches no memory.
            let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
            let (ready, is_ready) = mpsc::channel();
            let work = move || {
                make_ready();
                drop(ready);
                wait_and_report(wake);
            };
            if wake >= 0 && helper::spawn_with_stack("hertzd-crash", STACK, work).is_ok() {
                // Nothing is sent: it ends as soon as the thread is ready.
                let _: Result<(), _> = is_ready.recv();
                WAKE.store(wake, Ordering::Release);
            }
        }
    });
    install_all();
}

/// Installs the handlers, once. Until there is something to report to, they write a line to stderr.
pub(crate) fn install_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        OWN.get_or_init(|| format!("{}: ", program::name()));
        // SAFETY: takes nothing and touches no memory.
        PROCESS.store(unsafe { libc::getpid() }, Ordering::SeqCst);
        SIGNALS.iter().for_each(|(signal, ..)| install(*signal));
        // One that is ignored, or has a handler already, ends nothing.
        ENDS.iter().filter(|(signal, ..)| ends_it(*signal)).for_each(|(signal, ..)| install(*signal));
        // SAFETY: the function is there for as long as the process. Without memory for it there is none: then `exit` is not reported.
        unsafe { libc::atexit(at_exit) };
    });
}

/// Whether a signal has no handler and is not ignored.
fn ends_it(signal: i32) -> bool {
    // SAFETY: sigaction is made of integers, for which all-zero bytes are valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `action` is owned and outlives the call; without a new one nothing is changed.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_DFL
}

fn install(signal: i32) {
    // SAFETY: sigaction is made of integers, for which all-zero bytes are valid: an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction =
        handle as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` outlives the call, and the handler makes system calls and uses atomics only.
    let installed = from_minus_one(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) });
    debug_assert!(installed.is_ok(), "{installed:?}");
}

/// Waits for a crash, and reports it.
fn wait_and_report(wake: RawFd) {
    let mut count = 0_u64;
    loop {
        // SAFETY: an eventfd writes eight bytes, which `count` has room for.
        let read = unsafe { libc::read(wake, (&raw mut count).cast(), size_of::<u64>()) };
        if read == 8 {
            break;
        }
    }
    let crash = Crash::noted();
    if let Some((_, report)) = REPORT.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
        report(&crash);
    }
    REPORTED.store(true, Ordering::SeqCst);
}

impl Crash {
    /// What the handler has noted.
    fn noted() -> Self {
        let signal = SIGNAL.load(Ordering::SeqCst);
        let (name, meaning) = named(signal, CODE.load(Ordering::SeqCst));
        // SAFETY: a note lives as long as the process, and the pointer is null or that of one.
        let note = unsafe { NOTE.load(Ordering::SeqCst).as_ref() };
        let place = Function::of(FUNCTION.load(Ordering::SeqCst)).word();
        let inside = note.map(|note| Inside { task: note.task.clone(), library: note.library.clone(), place });
        let sender = Some(SENDER.load(Ordering::SeqCst)).filter(|sender| *sender != NOBODY);
        let (status, has_plugins) = ((signal == EXIT).then_some(EXIT_STATUS), HAS_PLUGINS.load(Ordering::SeqCst));
        Self { signal: name, meaning, status, sender, inside, has_plugins }
    }
}

/// `SIGSEGV in tick: memory that it may not access`
impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.inside.as_ref().map_or("", |inside| inside.place);
        let gap = if place.is_empty() { "" } else { " " };
        write!(f, "{}{gap}{place} ({})", self.signal, self.meaning)
    }
}

/// The name of a signal, and what it means with this code.
fn named(signal: i32, code: i32) -> (&'static str, &'static str) {
    match (signal, code) {
        (EXIT, _) => return ("exit()", "it ended the process, and with it all tasks"),
        (libc::SIGBUS, libc::BUS_ADRALN) => return ("SIGBUS", UNALIGNED),
        _ => {}
    }
    let sent = ENDS.iter().map(|&(number, name)| (number, name, "it was sent"));
    let mut all = SIGNALS.iter().copied().chain(sent);
    all.find(|(number, ..)| *number == signal).map_or(("a signal", ""), |(_, name, meaning)| (name, meaning))
}

/// Whether no crash brings this signal.
fn is_sent(signal: i32) -> bool {
    ENDS.iter().any(|(number, ..)| *number == signal)
}

/// What runs on the crashed thread. Async-signal-safe.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // A process that a plugin has forked off crashes alone.
    if !is_this_process() {
        return end_by(signal, info);
    }
    // SAFETY: takes nothing and touches no memory.
    let thread = unsafe { libc::gettid() };
    if CRASHED.swap(true, Ordering::SeqCst) {
        // A second thread waits for the end that the first one brings; a crash in here ends at once.
        if CRASHED_THREAD.load(Ordering::SeqCst) != thread {
            wait_for(|| false);
        }
        return end_by(signal, info);
    }
    CRASHED_THREAD.store(thread, Ordering::SeqCst);
    // SAFETY: the kernel passes a siginfo_t to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    // The service manager's watchdog sends SIGABRT: then no plugin has crashed, though one may hang.
    // A terminal or a timer of the kernel's is no process.
    let sender = sender(info).or_else(|| is_sent(signal).then_some(0));
    SENDER.store(sender.unwrap_or(NOBODY), Ordering::SeqCst);
    report(signal, code, if sender.is_some() { None } else { inside::current() });
    let_all_end();
    end_by(signal, info);
}

/// What `exit` calls, on the thread that has called it.
extern "C" fn at_exit() {
    let inside = inside::current();
    if inside.is_none() || !is_this_process() {
        return; // hertzd's own end, or that of a process that a plugin has forked off
    }
    if CRASHED.swap(true, Ordering::SeqCst) {
        // Another thread has crashed, and brings the end.
        wait_for(|| false);
    } else {
        report(EXIT, 0, inside);
        let_all_end();
    }
    // SAFETY: takes a number, and ends the process.
    unsafe { libc::_exit(EXIT_STATUS) };
}

fn is_this_process() -> bool {
    // SAFETY: takes nothing and touches no memory.
    let process = unsafe { libc::getpid() };
    process == PROCESS.load(Ordering::SeqCst)
}

/// Notes what has happened, and waits until it is reported, or writes it. Async-signal-safe.
fn report(signal: i32, code: i32, inside: Option<(&'static Note, Function)>) {
    SIGNAL.store(signal, Ordering::SeqCst);
    CODE.store(code, Ordering::SeqCst);
    if let Some((note, function)) = inside {
        FUNCTION.store(function.number(), Ordering::SeqCst);
        NOTE.store(ptr::from_ref(note).cast_mut(), Ordering::SeqCst);
    }
    let wake = WAKE.load(Ordering::Acquire);
    let woken = wake >= 0 && {
        let one = 1_u64;
        // SAFETY: `one` is eight bytes, as an eventfd wants.
        let written = unsafe { libc::write(wake, (&raw const one).cast(), size_of::<u64>()) };
        written == 8
    };
    if !(woken && wait_for(|| REPORTED.load(Ordering::SeqCst))) {
        say(inside, signal);
    }
}

/// The other process that has sent the signal, if one has.
fn sender(info: *const libc::siginfo_t) -> Option<i32> {
    // SAFETY: the kernel passes a siginfo_t to a handler with SA_SIGINFO.
    let info = unsafe { &*info };
    // SAFETY: a code of zero or less means that the signal was sent, and then the sender is filled in.
    let sender = (info.si_code <= 0).then(|| unsafe { info.si_pid() });
    // SAFETY: takes nothing and touches no memory.
    let own = unsafe { libc::getpid() };
    sender.filter(|sender| *sender != own)
}

/// Sleeps until `done`, for a limited time; returns whether it was.
fn wait_for(done: impl Fn() -> bool) -> bool {
    let now = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is owned and outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
    };
    let until = now() + i128::from(PATIENCE_NS);
    while !done() {
        if now() > until {
            return false;
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_NS as libc::c_long };
        // SAFETY: `pause` outlives the call, and what is left of the time is not asked for.
        unsafe { libc::nanosleep(&raw const pause, ptr::null_mut()) };
    }
    true
}

/// Writes one line to stderr, without a lock.
fn say(inside: Option<(&'static Note, Function)>, signal: i32) {
    let (name, _) = named(signal, 0);
    let line = inside.map_or_else(|| OWN.get().map_or("", String::as_str), |(note, _)| &note.line);
    let is_sent = SENDER.load(Ordering::SeqCst) != NOBODY;
    let what = match signal {
        EXIT => "called ",
        _ if is_sent => "was sent ",
        _ => "crashed with ",
    };
    let elsewhere = match HAS_PLUGINS.load(Ordering::SeqCst) {
        _ if SENDER.load(Ordering::SeqCst) == 0 => "by the kernel, or by a process that cannot be seen",
        _ if is_sent => "by another process",
        true => "outside of the functions of its plugins",
        false => "in its own code",
    };
    let place = inside.map_or(elsewhere, |(_, function)| function.word());
    const PARTS: libc::c_int = 6;
    let parts: [&str; 6] = [line, what, name, " ", place, "\n"];
    let parts = parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: the parts live as long as the process, and their number is PARTS; they are only read.
    unsafe { libc::writev(libc::STDERR_FILENO, parts.as_ptr(), PARTS) };
}

/// Gives the signal back what it does without a handler, and lets it come again: a fault does when its instruction is run again, after the
/// handler has returned; one that was sent is sent again, and so are those behind whose instruction the thread continues.
fn end_by(signal: i32, info: *mut libc::siginfo_t) {
    // SAFETY: sigaction is made of integers, for which all-zero bytes are valid; zero is SIG_DFL.
    let action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `action` outlives the call.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    // SAFETY: the kernel passes a siginfo_t to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    if code <= 0 || [libc::SIGTRAP, libc::SIGSYS].contains(&signal) || is_sent(signal) {
        // SAFETY: takes a number; the signal is blocked until the handler returns.
        unsafe { libc::raise(signal) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_aligned_is_told_from_memory_that_is_not_there() {
        assert_eq!(named(libc::SIGBUS, libc::BUS_ADRALN), ("SIGBUS", UNALIGNED));
        // The codes of other signals have the same numbers.
        for (signal, name, meaning) in SIGNALS {
            let codes =
                [0, libc::BUS_ADRALN, 2].into_iter().filter(|code| (signal, *code) != (libc::SIGBUS, libc::BUS_ADRALN));
            codes.for_each(|code| assert_eq!(named(signal, code), (name, meaning), "{code}"));
        }
        assert_eq!(named(EXIT, 0).0, "exit()");
    }
}
