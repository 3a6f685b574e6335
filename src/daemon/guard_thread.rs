//! The guard thread: has the safe value written of each output whose task has stopped ticking, and those of all outputs when the process is
//! about to end, or a worker has kept its CPU for too long.
//!
//! It sleeps, and between two sleeps looks at a counter of each output. Above every worker in priority, where that is granted, so that one
//! which keeps a CPU to itself does not keep this thread from it. A write may block for as long as the device takes: others make them
//! (`safe_writers`). There is no such thread without outputs.

use super::guard_grant::GuardGrant;
use super::safe_writers::{SafeWriters, Wrote};
use crate::kinds::output::Guard;
use crate::log::Message;
use crate::metrics::GuardSummary;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::signals;
use crate::sys::thread::{helper, let_all_end};
use crate::time::{Clock, Instant, Span};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tracing::{error, warn};

/// How often it looks.
const LOOK_EVERY: Span = Span::from_millis(10);

/// Of a longer time between two looks only this counts: the process was stopped meanwhile, and the workers with it.
const AT_MOST: Span = Span::from_millis(40);

/// When a write is made again: one of the task's own that was under way may have come after it, or it failed.
const AGAIN_EVERY: Span = Span::from_millis(100);

/// For how long a write that fails is tried again at the end of a run.
const RETRY_FOR: Span = Span::from_seconds(1);

/// How long main waits for the writes at the end of a run: for a device that does not respond, or processor time that there is not.
const PATIENCE: Span = Span::from_seconds(4);

/// A write that takes longer is reported.
const LONG: Span = Span::from_seconds(1);

/// The thread, if there is one, as main and the builder see it.
#[derive(Debug, Default)]
pub(super) struct GuardThread {
    guards: Mutex<Vec<Weak<Guard>>>, // of the outputs of this daemon
    asked: AtomicU64,                // for all outputs, so many times
    done: AtomicU64,                 // of these
    ends: AtomicBool, // the latest of these is the last: failed writes are tried again, and no output recovers
    running: AtomicBool, // there is a thread
    grant: Arc<GuardGrant>,
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

    /// Of each output that does not hold its safe value though it should: why.
    pub(super) fn troubles(&self) -> Vec<String> {
        self.guards().iter().filter_map(|guard| guard.trouble()).collect()
    }

    /// Makes the thread, if there is none yet and there are outputs. `highest`: the priority of the workers, at most; the thread goes above it.
    ///
    /// # Errors
    /// The system's reason why there is no thread.
    pub(super) fn guard(self: &Arc<Self>, highest: Option<u8>) -> io::Result<()> {
        self.grant.be_above(highest);
        if self.guards().is_empty() || self.running.load(Ordering::Relaxed) {
            return Ok(());
        }
        let shared = self.clone();
        helper::spawn("hertzd-guard", move || shared.run())?;
        self.running.store(true, Ordering::Relaxed);
        signals::hold_second_end();
        Ok(())
    }

    /// The priority that the thread asked for, and has; `None`: there is no thread.
    pub(super) fn summary(&self) -> Option<GuardSummary> {
        self.grant.summary()
    }

    /// Asks for the safe values of all outputs, now. Does not wait.
    pub(super) fn make_safe(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// The same at the end of a run: waits until they are written, for a limited time. Returns which were not, and why.
    pub(super) fn make_safe_and_wait(&self) -> Option<String> {
        if !self.running.load(Ordering::Relaxed) {
            return None;
        }
        self.ends.store(true, Ordering::SeqCst);
        self.make_safe();
        let asked = self.asked.load(Ordering::SeqCst);
        let until = KernelClock::monotonic().now() + PATIENCE;
        while self.done.load(Ordering::SeqCst) < asked {
            if KernelClock::monotonic().now() > until {
                let late = self.troubles();
                let late = if late.is_empty() {
                    "the thread that writes them gets no processor time".into()
                } else {
                    late.join("; ")
                };
                let text = format!("not all safe values were written within {PATIENCE}: {late}");
                warn!("{text}");
                return Some(text);
            }
            pause(Span::from_millis(1));
        }
        None
    }

    fn run(&self) {
        let mut asked = 0; // which priority
        self.grant.promote_guard(&mut asked);
        let mut writers = SafeWriters::spawn(self.grant.clone());
        let clock = KernelClock::monotonic();
        let (mut looks, mut before): (BTreeMap<usize, Look>, Instant) = (BTreeMap::new(), clock.now());
        let mut taken = 0; // of those that were asked for
        loop {
            let wrote = writers.wait(LOOK_EVERY);
            self.grant.promote_guard(&mut asked);
            let now = clock.now();
            let passed = (now - before).min(AT_MOST);
            before = now;
            let mut said = Vec::new();
            for Wrote { guard, result, overlapped } in wrote {
                guard.hangs(false);
                let look = looks.entry(key(&guard)).or_default();
                if result.is_ok() && !overlapped {
                    guard.is_done();
                }
                let still = if look.expected { Span::ZERO } else { look.still };
                said.push((guard, still, look.wrote(result, overlapped)));
            }
            let (asked, second_end) = (self.asked.load(Ordering::SeqCst), signals::second_end());
            let ends = second_end.is_some() || self.ends.load(Ordering::SeqCst);
            let all = asked > taken || second_end.is_some() && taken < u64::MAX;
            taken = if second_end.is_some() { u64::MAX } else { asked };
            let guards = self.guards();
            looks.retain(|at, look| look.under_way.is_some() || guards.iter().any(|guard| key(guard) == *at));
            for guard in &guards {
                if ends {
                    guard.seal();
                }
                let look = looks.entry(key(guard)).or_default();
                if look.act(guard.beats(), guard.safe_after(), guard.is_wanted() || all, ends, passed) {
                    look.begins(guard.tripped().is_some());
                    writers.write(guard.clone());
                }
                if look.under_way.is_some_and(|since| since > LONG) {
                    guard.hangs(true);
                }
            }
            writers.keep_up();
            // Every value is on its way before anything is said of any.
            for (guard, still, result) in said {
                say(&guard, still, result);
            }
            if looks.values().all(|look| look.is_done(ends)) {
                self.done.store(asked, Ordering::SeqCst);
                if let Some(signal) = second_end {
                    let_all_end();
                    std::process::exit(128 + signal);
                }
            }
        }
    }
}

fn key(guard: &Arc<Guard>) -> usize {
    Arc::as_ptr(guard).addr()
}

/// Says what was written, or not. `still`: its task has not ticked for so long, and that is why; zero: it is not.
fn say(guard: &Guard, still: Span, result: Said) {
    let (message_id, task, still_ns) = (Message::OutputSafe.id(), guard.task(), still.nanos());
    let what = guard.says();
    let stands = if still > Span::ZERO { format!("has not ticked for {still}, and ") } else { String::new() };
    match result {
        Said::Failed(reason) => error!(
            message_id,
            task,
            still_ns,
            "{task}: {stands}its safe value, {what}, could not be written: {reason}; it is tried again every {AGAIN_EVERY}"
        ),
        Said::Written => error!(
            message_id,
            task,
            still_ns,
            "{task}: has not ticked for {still}, so its safe value was written; it writes again when it has recovered"
        ),
        Said::AtLast => warn!(message_id, task, still_ns, "{task}: its safe value, {what}, was written at last"),
        Said::Nothing => {}
    }
}

/// What is new about a write.
#[derive(Debug)]
enum Said {
    Nothing,
    /// Because its task stands still.
    Written,
    Failed(io::Error),
    /// After it had failed.
    AtLast,
}

/// What the latest looks at an output have shown.
#[derive(Debug, Default)]
struct Look {
    beats: u64,
    still: Span,             // it has not ticked for so long
    since: Option<Span>,     // the latest write, if there was one since it ticked
    under_way: Option<Span>, // a write, for so long
    wanted: bool,            // a write, for another reason than that the task stands still
    expected: bool,          // the latest write was: it was wanted, or the output was safe already
    failed: bool,            // that write; or a write of the task's own may have come after it
    said: bool,              // that it failed
    tried: Span,             // for so long it has failed
    written: u32,            // so many times since it ticked
}

impl Look {
    /// Whether its safe value is to be written, after so much time has `passed`. It is `wanted` for another reason than that the task stands
    /// still; or the process `ends`, and the task may tick, but not recover.
    fn act(&mut self, beats: u64, safe_after: Span, wanted: bool, ends: bool, passed: Span) -> bool {
        self.wanted |= wanted;
        if beats != self.beats {
            (self.beats, self.still) = (beats, Span::ZERO);
            // What is left of a failed write the task does itself, while it ticks and may recover.
            if !ends && self.under_way.is_none() {
                *self = Self { beats, wanted: self.wanted, said: self.said, ..Self::default() };
            }
        } else {
            self.still += passed;
        }
        self.since = self.since.map(|since| since + passed);
        if let Some(since) = &mut self.under_way {
            *since += passed;
            return false;
        }
        if self.failed {
            self.tried += passed;
        }
        // Before the first tick of its target it has the value that it started with.
        let stands = beats > 0 && self.still > safe_after && self.written < 2;
        let due = self.since.is_none_or(|since| since >= AGAIN_EVERY) || self.wanted && !self.failed;
        due && (self.wanted || self.failed || stands)
    }

    /// Its safe value is being written from now on. It was `safe` already, or not.
    fn begins(&mut self, safe: bool) {
        self.expected = self.wanted || safe;
        (self.under_way, self.wanted) = (Some(Span::ZERO), false);
    }

    /// Notes that it was written, and whether a write of the task's own was under way meanwhile. Returns what is to be said.
    fn wrote(&mut self, result: io::Result<()>, overlapped: bool) -> Said {
        (self.since, self.under_way) = (Some(Span::ZERO), None);
        self.written += 1;
        self.failed = result.is_err() || overlapped;
        if !self.failed {
            self.tried = Span::ZERO;
        }
        match result {
            Err(error) if !std::mem::replace(&mut self.said, true) => Said::Failed(error),
            Err(_) => Said::Nothing,
            Ok(()) if std::mem::take(&mut self.said) => Said::AtLast,
            Ok(()) if self.written == 1 && !self.expected => Said::Written,
            Ok(()) => Said::Nothing,
        }
    }

    /// Whether nothing is to be waited for.
    fn is_done(&self, ends: bool) -> bool {
        self.under_way.is_none() && !self.wanted && !(ends && self.failed && self.tried < RETRY_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::output::{PlannedWrite, SafeWrite, Watched};

    const STEP: Span = Span::from_millis(10);

    /// The looks, by number, at which the value is written of a task that ticks at the looks in `ticks`.
    fn writes(ticks: &[u64], looks: u64, safe_after: Span, fails: impl Fn(u64) -> bool) -> Vec<u64> {
        let (mut look, mut beats) = (Look::default(), 0);
        let acts = |at: u64| {
            beats += u64::from(ticks.contains(&at));
            let acts = look.act(beats, safe_after, false, false, STEP);
            if acts {
                look.begins(false);
                look.wrote(if fails(at) { Err(io::Error::other("no")) } else { Ok(()) }, false);
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

    /// Looks every 10 ms, of which those at which a write begins are returned; each returns `after` as many looks.
    fn wanted(
        wanted: &[u64],
        ticks: bool,
        ends: bool,
        after: u64,
        result: impl Fn(u64) -> (bool, bool),
    ) -> (Vec<u64>, Vec<u64>) {
        let (mut look, mut begun, mut done, mut ending) = (Look::default(), Vec::new(), Vec::new(), None);
        for at in 0..200 {
            if ending == Some(at) {
                let (works, overlapped) = result(at);
                look.wrote(if works { Ok(()) } else { Err(io::Error::other("no")) }, overlapped);
                ending = None;
            }
            let beats = if ticks { at + 1 } else { 1 };
            if look.act(beats, Span::from_seconds(60), wanted.contains(&at), ends, STEP) {
                look.begins(false);
                begun.push(at);
                ending = Some(at + after);
            }
            if look.is_done(ends) {
                done.push(at);
            }
        }
        (begun, done)
    }

    /// Its safe value is written nowhere.
    struct Nowhere;

    impl SafeWrite for Nowhere {
        fn write_safe(&self) -> io::Result<()> {
            Ok(())
        }

        fn plan(&self) -> Vec<PlannedWrite> {
            Vec::new()
        }
    }

    #[test]
    fn one_that_takes_a_target_over_is_watched_from_the_hand_over_on() {
        let (short, long) = (Span::from_millis(50), Span::from_millis(300));
        let watched = Arc::<Watched>::default();
        let guard = |task| Guard::new(task, watched.clone(), (short, long), Some(Box::new(Nowhere)));
        let (first, thread) = (guard("first"), GuardThread::default());
        first.beat();
        let second = guard("second");
        thread.add(vec![Arc::downgrade(&first), Arc::downgrade(&second)]);
        let latest = thread.guards();
        assert_eq!(latest.iter().map(|guard| guard.task()).collect::<Vec<_>>(), ["second"]);
        let mut look = Look::default();
        let mut looks = |most: u64| {
            (0..most).find(|_| look.act(second.beats(), second.safe_after(), false, false, STEP)).inspect(|_| {
                look.begins(false);
                look.wrote(Ok(()), false);
            })
        };
        assert_eq!(looks(20), None, "before its first tick it may take its time");
        first.beat();
        assert_eq!(looks(60), Some(31), "from the last tick of the one before");
        second.beat();
        assert_eq!(looks(60), Some(6));
        drop((first, second));
    }

    #[test]
    fn a_task_recovers_only_from_what_it_has_seen_and_never_at_the_end() {
        let guard = Guard::new("a", Arc::default(), (STEP, STEP), Some(Box::new(Nowhere)));
        assert!(guard.writing().is_some() && !guard.is_writing(), "until it is dropped");
        guard.trip().unwrap();
        let seen = guard.tripped().unwrap();
        assert!(guard.writing().is_none());
        guard.trip().unwrap();
        guard.release(seen);
        assert!(guard.writing().is_none(), "made safe again since");
        guard.release(guard.tripped().unwrap());
        let writing = guard.writing();
        assert!(writing.is_some() && guard.is_writing());
        guard.seal();
        drop(writing);
        assert!(guard.writing().is_none() && !guard.is_writing());
    }

    #[test]
    fn what_is_asked_for_is_written_once_and_again_if_it_may_not_be_there() {
        let well = |_| (true, false);
        assert_eq!(wanted(&[5], true, false, 1, well).0, [5]);
        // While a write is under way, and right after another one.
        assert_eq!(wanted(&[5, 7], true, false, 4, well).0, [5, 9]);
        assert_eq!(wanted(&[5, 7], false, false, 1, well).0, [5, 7]);
        // A write of the task's own may have come after it: also of one that ticks, if it is the end.
        assert_eq!(wanted(&[5], false, false, 1, |at| (true, at < 20)).0, [5, 15, 25]);
        assert_eq!(wanted(&[5], true, true, 1, |at| (true, at < 20)).0, [5, 15, 25]);
        // A task that ticks does it itself.
        assert_eq!(wanted(&[5], true, false, 1, |at| (at > 20, false)).0, [5]);
    }

    #[test]
    fn the_end_waits_for_what_is_under_way_and_for_a_second_for_what_fails() {
        let (begun, done) = wanted(&[5], true, true, 30, |_| (true, false));
        assert_eq!((begun, done.contains(&34), done.contains(&35)), (vec![5], false, true));
        let (begun, done) = wanted(&[5], true, true, 1, |_| (false, false));
        assert_eq!(begun[..3], [5, 15, 25]);
        let first = done.iter().find(|at| **at >= 5).unwrap();
        assert!((105..125).contains(first), "{first}");
        let (_, done) = wanted(&[5], true, false, 1, |_| (false, false));
        assert!(done.contains(&6), "where it is not the end, nothing waits");
    }
}
