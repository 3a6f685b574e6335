//! The guard thread: writes the safe value of each output whose task has stopped ticking, and those of all outputs when the process is about
//! to end, or a worker has kept its CPU for too long.
//!
//! It sleeps, and between two sleeps looks at a counter of each output. Above every worker in priority, where that is granted, so that one
//! which keeps a CPU to itself does not keep this thread from it. A write may block for as long as the device takes, and then holds up
//! those after it. There is no such thread without outputs.

use crate::kinds::output::Guard;
use crate::log::Message;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::signals;
use crate::sys::thread::{helper, let_all_end, set_fifo};
use crate::time::{Clock, Instant, Span};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tracing::{error, warn};

/// How often it looks.
const LOOK_EVERY: Span = Span::from_millis(10);

/// Of a longer time between two looks only this counts: the process was stopped meanwhile, and the workers with it.
const AT_MOST: Span = Span::from_millis(40);

/// When a write is made again: one of the task's own that was under way may have come after it, or it failed.
const AGAIN_EVERY: Span = Span::from_millis(100);

/// How long main waits for the writes at the end of a run.
const PATIENCE: Span = Span::from_seconds(1);

/// The highest priority that a thread may have.
const HIGHEST: u8 = 99;

/// The thread, if there is one, as main and the builder see it.
#[derive(Debug, Default)]
pub(super) struct GuardThread {
    guards: Mutex<Vec<Weak<Guard>>>, // of the outputs of this daemon
    asked: AtomicU64,                // for all outputs, so many times
    done: AtomicU64,                 // of these
    running: AtomicU64,              // 1: there is a thread
}

impl GuardThread {
    /// Watches over these outputs as well.
    pub(super) fn add(&self, opened: Vec<Weak<Guard>>) {
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        guards.retain(|guard| guard.strong_count() > 0);
        guards.extend(opened);
    }

    /// Those of the outputs that are open, in the order in which they were opened. While a reload hands a target over to another task
    /// it is in the care of that one: who gives it away ticks no more, and that is no fault.
    pub(super) fn guards(&self) -> Vec<Arc<Guard>> {
        let open: Vec<Arc<Guard>> =
            self.guards.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
        let is_latest = |at: &usize| !open[at + 1..].iter().any(|later| later.has_target_of(&open[*at]));
        (0..open.len()).filter(is_latest).map(|at| open[at].clone()).collect()
    }

    /// Makes the thread, if there is none yet and there are outputs. `highest`: the priority of the workers, at most.
    ///
    /// # Errors
    /// The system's reason why there is no thread.
    pub(super) fn guard(self: &Arc<Self>, highest: Option<u8>) -> io::Result<()> {
        if self.guards().is_empty() || self.running.load(Ordering::Relaxed) == 1 {
            return Ok(());
        }
        let shared = self.clone();
        helper::spawn("hertzd-guard", move || shared.run(highest))?;
        self.running.store(1, Ordering::Relaxed);
        signals::hold_second_end();
        Ok(())
    }

    /// Asks for the safe values of all outputs, now. Does not wait.
    pub(super) fn make_safe(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// The same at the end of a run: waits until they are written, or for a second.
    pub(super) fn make_safe_and_wait(&self) {
        if self.running.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.make_safe();
        let asked = self.asked.load(Ordering::SeqCst);
        let until = KernelClock::monotonic().now() + PATIENCE;
        while self.done.load(Ordering::SeqCst) < asked {
            if KernelClock::monotonic().now() > until {
                let outputs = self.guards().iter().map(|guard| guard.task().to_owned()).collect::<Vec<_>>().join(", ");
                warn!(
                    "not all safe values of these outputs were written within {PATIENCE}, as one does not respond: {outputs}"
                );
                return;
            }
            pause(Span::from_millis(1));
        }
    }

    fn run(&self, highest: Option<u8>) {
        if let Some(priority) = highest
            && let Err(reason) = set_fifo((priority + 1).min(HIGHEST))
        {
            warn!(
                "the thread that writes safe values has no real-time priority ({reason}): a worker that keeps its CPU to itself may hold it up"
            );
        }
        let clock = KernelClock::monotonic();
        let (mut looks, mut before): (BTreeMap<usize, Look>, Instant) = (BTreeMap::new(), clock.now());
        loop {
            pause(LOOK_EVERY);
            let now = clock.now();
            let passed = (now - before).min(AT_MOST);
            before = now;
            let (asked, ending) = (self.asked.load(Ordering::SeqCst), signals::second_end());
            let all = asked > self.done.load(Ordering::SeqCst) || ending.is_some();
            let guards = self.guards();
            looks.retain(|at, _| guards.iter().any(|guard| Arc::as_ptr(guard).addr() == *at));
            // Every value is written before anything is said of any.
            let written: Vec<_> = guards
                .iter()
                .filter_map(|guard| {
                    let look = looks.entry(Arc::as_ptr(guard).addr()).or_default();
                    let act = look.act(guard.beats(), guard.safe_after(), passed);
                    let was_tripped = guard.is_tripped();
                    (all || act).then(|| (guard, look.still, was_tripped, look.wrote(guard.trip())))
                })
                .collect();
            for (guard, still, was_tripped, result) in written {
                match result {
                    // It was asked for, and not because the task stands still.
                    Err(reason) if all => say_failed(guard, &reason),
                    result => say(guard, still, was_tripped || all, result.as_ref().err()),
                }
            }
            self.done.store(asked, Ordering::SeqCst);
            if let Some(signal) = ending {
                let_all_end();
                std::process::exit(128 + signal);
            }
        }
    }
}

/// Says that a safe value was not written that was asked for.
fn say_failed(guard: &Guard, reason: &io::Error) {
    let task = guard.task();
    error!(task, "{task}: its safe value could not be written: {reason}");
}

/// Says what was written, or not; nothing of what was to be expected.
fn say(guard: &Guard, still: Span, expected: bool, failed: Option<&io::Error>) {
    let (message_id, task, still_ns) = (Message::OutputSafe.id(), guard.task(), still.nanos());
    match failed {
        Some(reason) => error!(
            message_id,
            task,
            still_ns,
            "{task}: has not ticked for {still}, and its safe value could not be written: {reason}; it is tried again every {AGAIN_EVERY}"
        ),
        None if expected => {}
        None => error!(
            message_id,
            task,
            still_ns,
            "{task}: has not ticked for {still}, so its safe value was written; it writes again when it has recovered"
        ),
    }
}

/// What the latest looks at an output have shown.
#[derive(Debug, Default)]
struct Look {
    beats: u64,
    still: Span,         // it has not ticked for so long
    since: Option<Span>, // the latest write, if there was one since it ticked
    failed: bool,        // that write
    written: u32,        // so many times since it ticked
}

impl Look {
    /// Whether its safe value is to be written, after so much time has `passed`.
    fn act(&mut self, beats: u64, safe_after: Span, passed: Span) -> bool {
        if beats != self.beats {
            *self = Self { beats, ..Self::default() };
            return false;
        }
        self.still += passed;
        self.since = self.since.map(|since| since + passed);
        // Before its first tick it has the value that it started with.
        if beats == 0 || self.still <= safe_after {
            return false;
        }
        match self.since {
            None => true,
            Some(since) => since >= AGAIN_EVERY && (self.failed || self.written < 2),
        }
    }

    /// Notes that it was written. Returns what came of it where that is new.
    fn wrote(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.since = Some(Span::ZERO);
        self.written += 1;
        let failed_before = std::mem::replace(&mut self.failed, result.is_err());
        if failed_before { Ok(()) } else { result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_millis(10);

    /// The looks, by number, at which the value is written of a task that ticks at the looks in `ticks`.
    fn writes(ticks: &[u64], looks: u64, safe_after: Span, fails: impl Fn(u64) -> bool) -> Vec<u64> {
        let (mut look, mut beats) = (Look::default(), 0);
        let acts = |at: u64| {
            beats += u64::from(ticks.contains(&at));
            let acts = look.act(beats, safe_after, STEP);
            if acts {
                let _ = look.wrote(if fails(at) { Err(io::Error::other("no")) } else { Ok(()) });
            }
            acts.then_some(at)
        };
        (0..looks).filter_map(acts).collect()
    }

    #[test]
    fn an_output_that_ticks_is_left_alone_and_one_that_does_not_is_made_safe_twice() {
        let every: Vec<u64> = (0..100).collect();
        assert!(writes(&every, 100, STEP, |_| false).is_empty());
        assert!(writes(&[], 100, STEP, |_| false).is_empty(), "before its first tick");
        // Ticked last at look 3; stands still for more than 50 ms at look 9, and once more 100 ms later.
        assert_eq!(writes(&[0, 1, 2, 3], 100, Span::from_millis(50), |_| false), [9, 19]);
        // It ticks again, and stops again.
        assert_eq!(writes(&[3, 40], 100, Span::from_millis(50), |_| false), [9, 19, 46, 56]);
    }

    #[test]
    fn a_write_that_fails_is_made_again_until_it_does_not() {
        assert_eq!(writes(&[0], 60, Span::from_millis(50), |at| at < 30), [6, 16, 26, 36]);
    }
}
