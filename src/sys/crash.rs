//! Reports the signal that ends this process. A crash inside a plugin is reported with its task and library. A signal from another process
//! is reported too, even if it has nothing to do with a crash.
//!
//! Every call into a library is marked on its thread ([`inside`]). The handler runs on the crashed thread, on the signal stack that the
//! standard library gives each thread. It notes what happened and wakes a thread that may do what a handler must not: log, and ask for safe
//! values. It waits for that thread for a limited time. Then the signal takes its default action, so the core dump, the exit status and the
//! faulting instruction are those of the crash.
//!
//! A call to `exit` inside a plugin is reported in the same way. It would otherwise end the process as if all were well, with the outputs
//! left as they are.
//!
//! Without this handler the first signal from another process would be lost: the standard library's handler takes it for a fault and waits
//! for it to recur. The handler only uses atomics and system calls. Time comes from the monotonic clock.

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

/// The signals of a crash, with their names and meanings.
const SIGNALS: [(i32, &str, &str); 7] = [
    (libc::SIGSEGV, "SIGSEGV", "memory that it may not access, or too deep a stack"),
    (libc::SIGBUS, "SIGBUS", "memory whose file or device is not there"),
    (libc::SIGFPE, "SIGFPE", "arithmetic such as a division by zero"),
    (libc::SIGILL, "SIGILL", "an instruction that this processor does not have"),
    (libc::SIGABRT, "SIGABRT", "it ended itself: a failed assertion, an exception or a panic"),
    // Compilers for AArch64 end a program this way. Rust's does so for a panic that must not unwind.
    (libc::SIGTRAP, "SIGTRAP", "it ended itself: a trap or a breakpoint"),
    (libc::SIGSYS, "SIGSYS", "a system call that a filter (seccomp) forbids"),
];

/// Other signals that end a process by default. A process or a timer sends them; no crash raises them.
const ENDS: [(i32, &str); 7] = [
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
];

/// The meaning of SIGBUS with code `BUS_ADRALN`. Most common on ARM, where multi-word and floating-point instructions need aligned
/// addresses.
const UNALIGNED: &str = "an address that is not aligned as the instruction needs it";

/// Stands for a call to `exit` where a signal number is expected.
const EXIT: i32 = 0;

/// The exit status after a call to `exit` in a plugin: that of an internal error.
const EXIT_STATUS: i32 = 70;

/// How long the handler waits for the crash report: longer than the wait for safe values.
const PATIENCE_NS: i64 = 6_000_000_000;

/// How often the handler checks whether the report is done.
const LOOK_EVERY_NS: i64 = 2_000_000;

/// Stack size of the reporting thread, in bytes. It counts as locked memory.
const STACK: usize = 512 << 10;

/// Stands for the sender's process id when no process sent the signal: it was a crash.
const NOBODY: i32 = -1;

#[cfg(feature = "plugin")]
pub(crate) use inside::note;
pub(crate) use inside::{Function, Note};

/// A crash, or another signal that ends the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    /// The signal's name.
    pub(crate) signal: &'static str,
    /// What the signal means.
    pub(crate) meaning: &'static str,
    /// The exit status; `None`: the signal itself ends the process.
    pub(crate) status: Option<i32>,
    /// The process that sent the signal, 0 if it is not visible from here; `None`: it was a crash.
    pub(crate) sender: Option<i32>,
    /// The plugin function that was running; `None`: none was.
    pub(crate) inside: Option<Inside>,
    /// Whether plugins are loaded.
    pub(crate) has_plugins: bool,
}

/// The plugin call that crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The task that it was called for; empty if there was none.
    pub(crate) task: String,
    /// The library's file.
    pub(crate) library: String,
    /// The function: "in tick".
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
/// The process whose crashes are reported. A child that a plugin forked is not reported.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The start of the line that the handler itself writes about a crash outside all plugin functions. Built before the handler is installed;
/// the handler only reads it.
static OWN: OnceLock<String> = OnceLock::new();
/// The eventfd that wakes the reporting thread; -1: no such thread exists.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// The reporting thread's initialisation, and the function that reports.
type Report = (fn(), Box<dyn Fn(&Crash) + Send>);
static REPORT: Mutex<Option<Report>> = Mutex::new(None);

/// From now on `report` is called when something crashes, on a thread of its own. The crashed thread waits for it for a limited time. The
/// reporting thread first calls `make_ready`, before any library is loaded. Replaces an earlier registration.
pub(crate) fn report_to(make_ready: fn(), report: impl Fn(&Crash) + Send + 'static) {
    *REPORT.lock().unwrap_or_else(PoisonError::into_inner) = Some((make_ready, Box::new(report)));
}

/// Marks that plugins are in use and calls [`watch`]. Call this before the first library is loaded.
#[cfg(feature = "plugin")]
pub(crate) fn watch_plugins() {
    HAS_PLUGINS.store(true, Ordering::SeqCst);
    watch();
}

/// Installs the handlers and, if a report function is registered, starts the reporting thread, once. Without that thread the handlers
/// themselves write a line to stderr.
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
                // Nothing is ever sent: the channel closes as soon as the thread is ready.
                let _: Result<(), _> = is_ready.recv();
                WAKE.store(wake, Ordering::Release);
            }
        }
    });
    install_all();
}

/// Installs the handlers, once. Until a reporting thread exists, they write a line to stderr.
pub(crate) fn install_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        OWN.get_or_init(|| format!("{}: ", program::name()));
        // SAFETY: takes nothing and touches no memory.
        PROCESS.store(unsafe { libc::getpid() }, Ordering::SeqCst);
        SIGNALS.iter().for_each(|(signal, ..)| install(*signal));
        // A signal that is ignored or already has a handler does not end the process.
        ENDS.iter().filter(|(signal, ..)| ends_it(*signal)).for_each(|(signal, ..)| install(*signal));
        // SAFETY: the function exists for as long as the process. If memory for the entry is lacking, `exit` is not reported.
        unsafe { libc::atexit(at_exit) };
    });
}

/// Whether a signal has its default action.
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

/// Waits for a crash and reports it.
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
    /// The crash as the handler noted it.
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

/// A signal's name, and its meaning with this code.
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

/// Whether this signal can only have been sent, never raised by a crash.
fn is_sent(signal: i32) -> bool {
    ENDS.iter().any(|(number, ..)| *number == signal)
}

/// The handler; runs on the crashed thread. Async-signal-safe.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // A crash in a child that a plugin forked ends that child alone.
    if !is_this_process() {
        return end_by(signal, info);
    }
    // SAFETY: takes nothing and touches no memory.
    let thread = unsafe { libc::gettid() };
    if CRASHED.swap(true, Ordering::SeqCst) {
        // A second thread waits here until the first ends the process. A crash inside this handler ends it at once.
        if CRASHED_THREAD.load(Ordering::SeqCst) != thread {
            wait_for(|| false);
        }
        return end_by(signal, info);
    }
    CRASHED_THREAD.store(thread, Ordering::SeqCst);
    // SAFETY: the kernel passes a siginfo_t to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    // The service manager's watchdog sends SIGABRT: no plugin crashed, though one may hang.
    // A signal from a terminal or a kernel timer names no process, so its sender is 0.
    let sender = sender(info).or_else(|| is_sent(signal).then_some(0));
    SENDER.store(sender.unwrap_or(NOBODY), Ordering::SeqCst);
    report(signal, code, if sender.is_some() { None } else { inside::current() });
    let_all_end();
    end_by(signal, info);
}

/// Called by `exit`, on the thread that called `exit`.
extern "C" fn at_exit() {
    let inside = inside::current();
    if inside.is_none() || !is_this_process() {
        return; // hertzd's own end, or that of a child that a plugin forked
    }
    if CRASHED.swap(true, Ordering::SeqCst) {
        // Another thread has crashed and is ending the process.
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

/// Notes what happened and waits for the report. If no report comes, writes a line itself. Async-signal-safe.
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

/// The process that sent the signal, if it was another process.
fn sender(info: *const libc::siginfo_t) -> Option<i32> {
    // SAFETY: the kernel passes a siginfo_t to a handler with SA_SIGINFO.
    let info = unsafe { &*info };
    // SAFETY: a code of zero or less means that the signal was sent, and then the sender is filled in.
    let sender = (info.si_code <= 0).then(|| unsafe { info.si_pid() });
    // SAFETY: takes nothing and touches no memory.
    let own = unsafe { libc::getpid() };
    sender.filter(|sender| *sender != own)
}

/// Sleeps until `done` returns true, for a limited time; returns whether it did.
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
        // SAFETY: `pause` outlives the call, and the remaining time is not requested.
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
    // SAFETY: the parts live as long as the process, there are PARTS of them, and they are only read.
    unsafe { libc::writev(libc::STDERR_FILENO, parts.as_ptr(), PARTS) };
}

/// Restores the signal's default action and makes the signal recur. A fault recurs when its instruction runs again after the handler has
/// returned. A sent signal is raised again, and so are SIGTRAP and SIGSYS, after which the thread would continue after the instruction.
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
        // Other signals use the same numbers for their codes.
        for (signal, name, meaning) in SIGNALS {
            let codes =
                [0, libc::BUS_ADRALN, 2].into_iter().filter(|code| (signal, *code) != (libc::SIGBUS, libc::BUS_ADRALN));
            codes.for_each(|code| assert_eq!(named(signal, code), (name, meaning), "{code}"));
        }
        assert_eq!(named(EXIT, 0).0, "exit()");
    }
}
