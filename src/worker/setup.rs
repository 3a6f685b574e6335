//! What a worker's thread requests from the kernel before it runs: its CPUs, its policy, exact timers, and a stack in memory.
//!
//! A refusal ends nothing. It is reported with its reason and its remedy, and the state actually granted is read back from the kernel.
//! Reads no clock. Runs once, before the hot loop, and may allocate.

use crate::config::Scheduling;
use crate::sys::clock::pause;
use crate::sys::grant::{self, Privilege};
use crate::sys::thread::{self, Bandwidth};
use crate::time::Span;
use std::fmt;
use std::io;

/// How much of its stack a worker touches in advance, to keep it in memory: several times what hertzd's kinds use. Worker threads have
/// stacks of 2 MiB.
const STACK_READY: usize = 128 * 1024;

/// The interval between attempts to get bandwidth that other threads are about to give back.
const TRY_EVERY: Span = Span::from_millis(5);

/// The shortest runtime that the kernel accepts.
const LEAST_RUNTIME: Span = Span::from_nanos(1_024);

/// Something the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The request.
    pub what: String,
    /// The kernel's reason.
    pub reason: String,
    /// The reason's errno, if it has one.
    pub errno: Option<i32>,
    /// The consequence for the run.
    pub meaning: String,
    /// What to do.
    pub remedy: String,
}

impl Refusal {
    /// A refusal of `what` for the kernel's `reason`.
    pub(crate) fn new(
        what: impl Into<String>,
        reason: &io::Error,
        meaning: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let errno = reason.raw_os_error();
        // "Operation not permitted", without the error number.
        let reason = reason.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
        Self { what: what.into(), reason, errno, meaning: meaning.into(), remedy: remedy.into() }
    }
}

/// On one line: the request, the reason, the consequence and the remedy.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refused ({}): {}; {}", self.what, self.reason, self.meaning, self.remedy)
    }
}

/// What the kernel granted a worker's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The policy reported by the kernel.
    pub policy: &'static str,
    /// The priority reported by the kernel; 0 if the policy has none.
    pub priority: u8,
    /// The CPUs on which it may run.
    pub cpus: Vec<usize>,
    /// The requested policy was not granted.
    pub not_realtime: bool,
    /// Everything that was refused.
    pub refused: Vec<Refusal>,
    /// The part of its deadline policy that waits until ending threads give back their bandwidth; zero if none.
    pub awaited: Bandwidth,
}

/// Sets up the calling thread. The policy comes last, so that no part of the set-up runs in real time. Threads that are about to end will
/// give back the bandwidth `freed`.
pub(crate) fn set_up(cpus: &[usize], scheduling: Scheduling, freed: Bandwidth) -> Granted {
    let mut refused = Vec::new();
    if !cpus.is_empty()
        && let Err(reason) = thread::pin(cpus).and_then(|()| pinned_to_all(cpus))
    {
        let what = format!("pinning to CPU {}", list(cpus));
        let remedy = match thread::affinity() {
            Ok(allowed) => format!(
                "this process may use CPU {}; choose one of them, or allow more with AllowedCPUs= or CPUAffinity=",
                list(&allowed)
            ),
            Err(_) => "allow it with AllowedCPUs= or CPUAffinity=".into(),
        };
        refused.push(Refusal::new(what, &reason, "it runs on any CPU that is free", remedy));
    }
    if let Err(reason) = thread::set_timer_slack(1) {
        refused.push(Refusal::new("exact timers", &reason, "sleeps may end 50 µs later", "allow prctl in the sandbox"));
    }
    thread::prefault_stack::<STACK_READY>();
    let (promoted, awaited) = match (promote(scheduling), scheduling) {
        (Err(reason), Scheduling::Deadline { runtime, period }) if is_busy(&reason) => {
            let wanted = Bandwidth::of(runtime, period);
            // Reserve now what will not be given back, so that nothing can be refused later.
            let rest = wanted.without(freed);
            match freed > Bandwidth::default() && reserve(rest.runtime(period), period).is_ok() {
                true => (Ok(()), wanted.without(rest)),
                false => (Err(reason), Bandwidth::default()),
            }
        }
        (promoted, _) => (promoted, Bandwidth::default()),
    };
    // First in the list, because it matters most.
    refused.splice(0..0, promoted.as_ref().err().map(|reason| refusal(scheduling, reason)));
    Granted { refused, awaited, ..granted(promoted.is_err()) }
}

/// Promotes the calling thread as far as [`set_up`] did not. Retries for `patience`, unless the worker `is_stopping`, because the kernel
/// gives back the bandwidth of an ended thread only within a period.
pub(super) fn promote_later(scheduling: Scheduling, patience: Span, is_stopping: impl Fn() -> bool) -> Granted {
    let mut waited = Span::ZERO;
    loop {
        let promoted = promote(scheduling);
        if promoted.as_ref().is_err_and(is_busy) && waited < patience && !is_stopping() {
            pause(TRY_EVERY);
            waited += TRY_EVERY;
            continue;
        }
        let refused = promoted.as_ref().err().map(|reason| refusal(scheduling, reason));
        if promoted.is_err() {
            // The reservation is too small to run with: the kernel would stop the thread in each period.
            let _ = thread::demote(thread::id());
        }
        return Granted { refused: refused.into_iter().collect(), ..granted(promoted.is_err()) };
    }
}

/// Whether the kernel refused because it has already promised too much CPU time.
fn is_busy(reason: &io::Error) -> bool {
    reason.raw_os_error() == Some(libc::EBUSY)
}

/// Reserves this runtime for the calling thread; zero reserves nothing.
fn reserve(runtime: Span, period: Span) -> io::Result<()> {
    if runtime == Span::ZERO { Ok(()) } else { thread::set_deadline(runtime.max(LEAST_RUNTIME), period, period) }
}

/// The settings of the calling thread, as reported by the kernel.
fn granted(not_realtime: bool) -> Granted {
    let scheduled = thread::scheduling();
    let (policy, priority) = scheduled.map_or(("unknown", 0), |scheduled| (scheduled.policy, scheduled.priority));
    let cpus = thread::affinity().unwrap_or_default();
    Granted { policy, priority, cpus, not_realtime, refused: Vec::new(), awaited: Bandwidth::default() }
}

/// Checks that all CPUs were granted: the kernel silently drops CPUs that are not available, as long as one is left.
fn pinned_to_all(cpus: &[usize]) -> io::Result<()> {
    let granted = thread::affinity()?;
    match cpus.iter().all(|cpu| granted.contains(cpu)) {
        true => Ok(()),
        false => Err(io::Error::other(format!("only CPU {} was granted", list(&granted)))),
    }
}

fn promote(scheduling: Scheduling) -> io::Result<()> {
    match scheduling {
        Scheduling::Fifo { priority } => thread::set_fifo(priority),
        Scheduling::Rr { priority } => thread::set_rr(priority),
        Scheduling::Deadline { runtime, period } => thread::set_deadline(runtime, period, period),
        Scheduling::Other => Ok(()),
    }
}

/// Describes the refusal of this policy.
fn refusal(scheduling: Scheduling, reason: &io::Error) -> Refusal {
    let (what, privilege) = match scheduling {
        Scheduling::Fifo { priority } => (format!("fifo priority {priority}"), Privilege::Priority(priority)),
        Scheduling::Rr { priority } => (format!("rr priority {priority}"), Privilege::Priority(priority)),
        Scheduling::Deadline { runtime, period } => {
            (format!("deadline policy ({runtime} in every {period})"), Privilege::Deadline)
        }
        Scheduling::Other => unreachable!("it is never refused"),
    };
    let remedy = match reason.raw_os_error() {
        Some(libc::EBUSY) => {
            "the CPUs have no bandwidth left for it: lower runtime, or stop other deadline tasks".into()
        }
        Some(libc::EPERM) => grant::remedy(privilege),
        _ => "see sched(7)".into(),
    };
    Refusal::new(what, reason, "at normal priority, ticks may be milliseconds late", remedy)
}

fn list(cpus: &[usize]) -> String {
    let numbers: Vec<_> = cpus.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_comes_with_a_remedy_and_the_thread_goes_on() {
        let inherited = thread::scheduling().unwrap();
        let granted = std::thread::spawn(|| set_up(&[1_000], Scheduling::Other, Bandwidth::default())).join().unwrap();
        assert_eq!(granted.refused.len(), 1, "{granted:?}");
        let text = granted.refused[0].to_string();
        assert!(
            text.starts_with("pinning to CPU 1000 refused (") && text.contains("this process may use CPU "),
            "{text}"
        );
        assert_eq!((granted.policy, granted.priority), (inherited.policy, inherited.priority));
        assert!(!granted.not_realtime);
    }

    #[test]
    fn a_priority_is_granted_and_read_back_or_refused_with_the_way_to_get_it() {
        let fifo = || set_up(&[], Scheduling::Fifo { priority: 42 }, Bandwidth::default());
        let granted = std::thread::spawn(fifo).join().unwrap();
        match granted.not_realtime {
            false => assert_eq!((granted.policy, granted.priority), ("fifo", 42)),
            true => assert!(granted.refused[0].remedy.contains("rtprio 42"), "{granted:?}"),
        }
    }
}
