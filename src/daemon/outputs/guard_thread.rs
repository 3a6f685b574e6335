//! The guard thread. If an output's task stops ticking, it gets the output's safe value written. If the process is about to end, or a
//! worker has kept its CPU for too long, it does so for all outputs.
//!
//! It sleeps, and at each wake-up checks a counter of each output. If granted, its priority is above every worker, so that a worker that
//! hogs a CPU cannot delay it. A write may block for as long as the device takes, so other threads make the writes (`safe_writers`).
//! Without outputs there is no guard thread.

use super::guard_grant::GuardGrant;
use super::guard_look::{AGAIN_EVERY, Look, Said};
use super::held_output;
use super::readbacks::Readbacks;
use super::safe_orders::{Ordered, SafeOrders};
use super::safe_writers::{SafeWriters, Wrote};
use crate::io::Keeper;
use crate::log::{Message, lines};
use crate::safety::{Guard, HeldFor, MadeSafe};
use crate::snapshot::{GuardSummary, TaskSummary};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::signals;
use crate::sys::thread::{helper, let_all_end};
use crate::sys::usage::RunQueue;
use crate::time::{Clock, Instant, Span};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use tracing::{error, warn};

/// How often the thread checks.
const LOOK_EVERY: Span = Span::from_millis(10);

/// Between two checks, at most this much time counts, plus the time that this thread waited for a CPU. In a longer gap the process was
/// stopped, and its workers with it.
const AT_MOST: Span = Span::from_millis(40);

/// How long main waits for the writes at the end of a run: a device might not respond, or no processor time might be left.
const PATIENCE: Span = Span::from_seconds(4);

/// A write that takes longer is reported.
const LONG: Span = Span::from_seconds(1);

/// The guard thread, if there is one, as main and the builder see it.
#[derive(Debug, Default)]
pub(crate) struct GuardThread {
    guards: Mutex<Vec<Weak<Guard>>>, // of this daemon's outputs
    orders: SafeOrders,
    running: AtomicBool, // the thread exists
    settled: AtomicU64,
    grant: Arc<GuardGrant>,
    readbacks: Arc<Readbacks>,
}

impl GuardThread {
    /// Guards these outputs too.
    pub(crate) fn add(&self, opened: Vec<Weak<Guard>>) {
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        guards.retain(|guard| guard.strong_count() > 0);
        guards.extend(opened);
    }

    /// The guards of outputs that are open and have begun, in the order they were opened. Only the newest guard of each target counts: when
    /// a reload hands a target over, the old task stops ticking, and that is no fault.
    pub(crate) fn guards(&self) -> Vec<Arc<Guard>> {
        latest(self.open().into_iter().filter(|guard| guard.has_begun() && guard.is_open()).collect())
    }

    /// Like [`guards`](Self::guards), but never waits for the lock: a worker may keep the thread that holds it from the CPU. If the lock is
    /// taken, uses the guards `known` so far.
    fn guards_unless_locked(&self, known: &mut Vec<Weak<Guard>>) -> Vec<Arc<Guard>> {
        match self.guards.try_lock() {
            Ok(guards) => known.clone_from(&guards),
            Err(TryLockError::Poisoned(guards)) => known.clone_from(&guards.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        latest(known.iter().filter_map(Weak::upgrade).filter(|guard| guard.has_begun() && guard.is_open()).collect())
    }

    /// Adds to these tasks whether another thread holds their target at its safe value, and the value in force.
    pub(crate) fn show_held(&self, tasks: &mut [Box<TaskSummary>], now: Instant) {
        for guard in self.guards() {
            if let Some(task) = tasks.iter_mut().find(|task| task.task == guard.task()) {
                held_output::show(task, &guard, now);
            }
        }
    }

    /// Like [`guards`](Self::guards), plus outputs that have not begun, if no other output has their target yet: the plan must list an output
    /// before it writes.
    pub(crate) fn planned(&self) -> Vec<Arc<Guard>> {
        let open: Vec<_> = self.open().into_iter().filter(|guard| guard.is_open()).collect();
        let begun: HashSet<_> = open.iter().filter(|guard| guard.has_begun()).map(|guard| guard.target()).collect();
        latest(open.into_iter().filter(|guard| guard.has_begun() || !begun.contains(&guard.target())).collect())
    }

    fn open(&self) -> Vec<Arc<Guard>> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }

    /// The reason for each output that should hold its safe value but does not.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.guards().iter().filter_map(|guard| guard.trouble()).collect()
    }

    /// How many outputs ended without their safe value but have it now, so that their targets can be closed.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::SeqCst)
    }

    /// After a refused start, logs which outputs are left without their safe values.
    pub(crate) fn report_owed(&self) {
        for guard in self.guards().iter().filter(|guard| guard.is_wanted()) {
            let (task, what) = (guard.task(), guard.says());
            error!(
                task,
                "{task}: its safe value, {what}, could not be written and is still owed: if there is a runtime directory, the next start or `hertzd safe` \
                 writes it"
            );
        }
    }

    /// The results of reading outputs back.
    pub(crate) fn readbacks(&self) -> &Readbacks {
        &self.readbacks
    }

    /// Starts the thread if there are outputs and no thread yet, and has the keeper read their targets back. `highest`: the highest
    /// priority of the workers. The thread asks for more.
    ///
    /// # Errors
    /// The system's reason for refusing a thread.
    pub(crate) fn guard(self: &Arc<Self>, highest: Option<u8>, keeper: &Keeper) -> io::Result<()> {
        self.grant.be_above(highest);
        let guards: Vec<_> = self.open().into_iter().filter(|guard| guard.is_open()).collect();
        if guards.iter().any(|guard| guard.readback().is_some()) {
            let shared = self.clone();
            self.readbacks.start(keeper, move || shared.guards())?;
        }
        if guards.is_empty() || self.running.load(Ordering::Relaxed) {
            return Ok(());
        }
        let shared = self.clone();
        helper::spawn("hertzd-guard", move || shared.run())?;
        self.running.store(true, Ordering::Relaxed);
        signals::hold_second_end();
        Ok(())
    }

    /// The priority that the thread asked for and has; `None`: there is no thread.
    pub(crate) fn summary(&self) -> Option<GuardSummary> {
        self.grant.summary()
    }

    /// Requests the safe values of all outputs now. Does not wait.
    pub(crate) fn make_safe(&self) {
        self.orders.give();
    }

    /// Like [`make_safe`](Self::make_safe), for the last time: no output recovers afterwards.
    pub(crate) fn make_safe_for_good(&self) {
        self.orders.give_last();
    }

    /// Makes all outputs safe at the end of a run and waits for the writes, for a limited time. Returns which were not written, and why.
    pub(crate) fn make_safe_and_wait(&self) -> Option<String> {
        if !self.running.load(Ordering::Relaxed) {
            return None;
        }
        let order = self.orders.give_last();
        let until = KernelClock::monotonic().now() + PATIENCE;
        while !self.orders.is_done(order) {
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
        self.not_safe()
    }

    /// Which outputs lack their safe values at the end, and why. Includes those of a reload that was in progress.
    pub(crate) fn not_safe(&self) -> Option<String> {
        // With safe = "hold" there is no safe value to write.
        let guards = self.guards().into_iter().filter(|guard| !guard.keeps_what_it_has());
        let troubles: Vec<_> = guards.filter_map(|guard| guard.trouble()).collect();
        (!troubles.is_empty()).then(|| {
            let text = format!("not all safe values were written: {}", troubles.join("; "));
            warn!("{text}");
            text
        })
    }

    fn run(&self) {
        let mut asked = 0; // last requested priority
        self.grant.promote_guard(&mut asked);
        let mut writers = SafeWriters::new(self.grant.clone());
        let clock = KernelClock::monotonic();
        let (mut looks, mut before): (BTreeMap<usize, Look>, Instant) = (BTreeMap::new(), clock.now());
        let (mut taken, mut known) = (0, Vec::new()); // orders taken; known guards
        let (queue, mut waited) = (RunQueue::of_this_thread(), Span::ZERO);
        loop {
            let wrote = writers.wait(LOOK_EVERY);
            self.grant.promote_guard(&mut asked);
            let now = clock.now();
            let waited_before = waited;
            waited = queue.as_ref().and_then(RunQueue::waited).unwrap_or(waited);
            let passed = (now - before).min(AT_MOST + (waited - waited_before));
            before = now;
            let mut said = Vec::new();
            for Wrote { guard, safe: MadeSafe { result, trip, request, overlapped } } in wrote {
                guard.set_hanging(false);
                let look = looks.entry(key(&guard)).or_default();
                if result.is_ok() {
                    guard.is_held_now(now);
                }
                if result.is_ok() && !overlapped {
                    self.settled.fetch_add(guard.settle(trip, request).into(), Ordering::SeqCst);
                }
                let still = if look.expected { Span::ZERO } else { look.still_before };
                said.push((guard, still, look.wrote(result, overlapped)));
            }
            let (Ordered { latest, is_last }, second_end) = (self.orders.look(), signals::second_end());
            let ends = second_end.is_some() || is_last;
            let all = latest > taken || second_end.is_some() && taken < u64::MAX;
            taken = if second_end.is_some() { u64::MAX } else { latest };
            let (guards, mut hanging) = (self.guards_unless_locked(&mut known), Vec::new());
            // Workers begin only after the last output, whose device may be slow. Until then no first tick is due.
            let begins = known.iter().filter_map(Weak::upgrade).any(|guard| guard.is_open() && !guard.has_begun());
            looks.retain(|at, look| look.under_way.is_some() || guards.iter().any(|guard| key(guard) == *at));
            for guard in &guards {
                if ends {
                    guard.seal();
                }
                guard.end_hold();
                let (look, owed) = (looks.entry(key(guard)).or_default(), guard.is_wanted());
                let beats = guard.awaited_beats().filter(|beats| *beats > 0 || !begins);
                if look.act(beats, guard.safe_after(), owed || all, ends, passed) {
                    let for_another = if owed { HeldFor::Owed } else { HeldFor::Still };
                    guard.is_to_be_held(if all { HeldFor::Order } else { for_another });
                    look.begins(guard.tripped().is_some());
                    writers.give(guard.clone());
                }
                if look.under_way.is_some_and(|since| since > LONG) {
                    guard.set_hanging(true);
                    if look.hangs(LONG) {
                        hanging.push(guard.clone());
                    }
                }
            }
            writers.keep_up();
            // Start all writes before logging anything.
            for (guard, still, result) in said {
                say(&guard, still, result);
            }
            hanging.iter().for_each(|guard| say_it_hangs(guard));
            if looks.values().all(|look| look.is_done(ends)) {
                self.orders.are_done(latest);
                if let Some(signal) = second_end {
                    lines::settle(Span::from_millis(100));
                    let_all_end();
                    std::process::exit(128 + signal);
                }
            }
        }
    }
}

/// Keeps only the newest guard of each target.
fn latest(mut open: Vec<Arc<Guard>>) -> Vec<Arc<Guard>> {
    let mut targets = HashSet::new();
    open.reverse();
    open.retain(|guard| targets.insert(guard.target()));
    open.reverse();
    open
}

fn key(guard: &Arc<Guard>) -> usize {
    Arc::as_ptr(guard).addr()
}

/// Logs the result of a write. `still`: how long the task has not ticked, if that was the reason; otherwise zero.
fn say(guard: &Guard, still: Span, result: Said) {
    let (message_id, task, still_ns) = (Message::OutputSafe.id(), guard.task(), still.nanos());
    let stands = if still > Span::ZERO { format!("has not ticked for {still}, and ") } else { String::new() };
    match result {
        Said::Failed(reason) => error!(
            message_id,
            task,
            still_ns,
            "{task}: {stands}{} could not be written: {reason}; it is tried again every {AGAIN_EVERY}",
            guard.says_unless_locked()
        ),
        Said::Written if guard.keeps_what_it_has() => error!(
            message_id,
            task,
            still_ns,
            "{task}: has not ticked for {still}; by safe = \"hold\" nothing was written: its target keeps what was written last, whether that is \
             safe or not. It writes again when it has recovered"
        ),
        Said::Written => error!(
            message_id,
            task,
            still_ns,
            "{task}: has not ticked for {still}, so its safe value was written; it writes again when it has recovered"
        ),
        Said::AtLast => warn!(message_id, task, still_ns, "{task}: {} was written at last", guard.says_unless_locked()),
        Said::Nothing => {}
    }
}

fn say_it_hangs(guard: &Guard) {
    let (message_id, task, what) = (Message::OutputSafe.id(), guard.task(), guard.says_unless_locked());
    error!(
        message_id,
        task,
        "{task}: {what} is being written, and the write has not returned for {LONG}: look at the device, or switch off what it drives"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::{PlannedWrite, SafeWrite, Watched};

    const STEP: Span = Span::from_millis(10);

    /// Writes no safe value.
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
        first.begins();
        first.beat();
        let second = guard("second");
        thread.add(vec![Arc::downgrade(&first), Arc::downgrade(&second)]);
        let names = |guards: Vec<Arc<Guard>>| guards.iter().map(|guard| guard.task().to_owned()).collect::<Vec<_>>();
        assert_eq!([names(thread.guards()), names(thread.planned())], [["first"], ["first"]]);
        second.begins();
        assert_eq!([names(thread.guards()), names(thread.planned())], [["second"], ["second"]]);
        let (mut known, mut none) = (Vec::new(), Vec::new());
        assert_eq!(names(thread.guards_unless_locked(&mut known)), ["second"]);
        let locked = thread.guards.lock().unwrap();
        assert_eq!(names(thread.guards_unless_locked(&mut known)), ["second"], "nothing is waited for");
        assert!(thread.guards_unless_locked(&mut none).is_empty());
        drop(locked);
        let mut look = Look::default();
        let mut looks = |most: u64| {
            (0..most).find(|_| look.act(second.awaited_beats(), second.safe_after(), false, false, STEP)).inspect(
                |_| {
                    look.begins(false);
                    look.wrote(Ok(()), false);
                },
            )
        };
        assert_eq!(looks(20), None, "before its first tick it may take its time");
        first.beat();
        assert_eq!(looks(60), Some(31), "from the last tick of the one before");
        second.beat();
        assert_eq!(looks(60), Some(6));
        // Another thread may be about to drop the guards.
        first.leaves();
        first.close();
        assert_eq!(names(thread.planned()), ["second"]);
        second.leaves();
        assert_eq!(names(thread.guards()), ["second"], "its last write may not return");
        second.close();
        assert!(thread.planned().is_empty(), "what is closed is in no plan");
        drop((first, second));
    }

    #[test]
    fn a_safe_value_that_is_owed_outlasts_a_refused_takeover() {
        let watched = Arc::<Watched>::default();
        let guard = |task, writer| Guard::new(task, watched.clone(), (STEP, STEP), writer);
        let (left, thread) = (guard("left", Some(Box::new(Nowhere))), GuardThread::default());
        left.begins();
        left.leaves();
        left.leave_unsafe(Instant::ZERO);
        left.close();
        let refused = guard("refused", None);
        thread.add(vec![Arc::downgrade(&left), Arc::downgrade(&refused)]);
        assert!(refused.begin_takeover());
        refused.has_target();
        refused.begins();
        let names = |guards: Vec<Arc<Guard>>| guards.iter().map(|guard| guard.task().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(thread.guards()), ["refused"]);
        // It is closed while another thread still holds the guard.
        refused.leaves();
        refused.trip().unwrap();
        refused.close();
        left.cancel_takeover();
        assert_eq!([names(thread.guards()), names(thread.planned())], [["left"], ["left"]]);
        assert!(left.is_wanted() && !refused.is_wanted() && refused.tripped().is_some());
        let safe = refused.make_safe();
        assert!(!refused.settle(safe.trip, safe.request) && left.is_wanted());
        let safe = left.make_safe();
        assert!(left.settle(safe.trip, safe.request) && !left.is_owed());
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
}
