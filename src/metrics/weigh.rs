//! What the evidence of a tick says: how its run was spent, and why its worker was woken late.
//!
//! Pure: arithmetic on what the worker's thread did, what the kernel counted for it, and what befell the process. Where several
//! ticks share the evidence, the least and the most that can be of one of them.

use super::cause::Cause;
use super::machine::{Bandwidth, Certainty, Stall, WorkerFacts};
use super::parts::Parts;
use super::timeline::{LOOK_BACK, Piece, Timeline};
use crate::channels::Evidence;
use crate::time::{Instant, Span};
use std::collections::{BTreeMap, VecDeque};

/// The most stalls that are remembered. None expires: each explains only delays at the time when it was, and a task may be as
/// slow as it likes. (After a step back of `tai` or `realtime` that time comes again.)
const STALLS: usize = 64;

/// How many ticks a verdict looks back for each release that it is on while many records wait, so that the judge takes them
/// faster than they come. What lies before is unknown.
const SHORT_LOOK_BACK: usize = 16;

/// The loop takes less than this between two ticks.
const OVERHEAD: Span = Span::from_micros(5);

/// The processor time of a page fault that reads a disk, at most.
const ASKING: Span = Span::from_micros(50);

/// More than a page fault without a disk costs on any machine.
const DEAR_FAULT: Span = Span::from_micros(20);

/// Fewer page faults without a disk are no reason to find out again what one costs.
const MANY_FAULTS: u32 = 16;

/// The threads of all workers, and what befell the process.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(super) by_worker: BTreeMap<usize, Thread>,
    stalls: VecDeque<Stall>,
    fault: Span, // processor time of a page fault
    fault_matters: bool,
    hurried: bool,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) facts: WorkerFacts,
    pub(super) timeline: Timeline,
}

/// The run of a tick, as far as the evidence determines it: if other ticks share the evidence, one of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    preempted: Span,
    slept: Span,
    faults: Span,
    stalled: Span,
    worked: Span,
}

/// What the evidence says of all ticks that share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    off: Span,       // not on the processor, though awake
    preempted: Span, // of that: waiting for it
    others: Span,    // time in it that is not the tick's run
    faults: Span,    // processor time of page faults
    asleep: Cause,   // what sleeping in a tick is called
    preempting: Cause,
    pub(super) switched: bool, // the processor ran another thread meanwhile
}

/// How a thread was switched away from its processor while it was awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switched {
    /// By its own will: it slept in a call, or was stopped.
    Voluntarily,
    /// By its own will, but not while it was awake: it was woken from its sleep, and gave it up again before it went on.
    InItsSleep,
    /// For another thread.
    Involuntarily,
    /// It did not.
    Never,
    /// There is no evidence.
    Unknown,
}

fn share(whole: Span, part: Span, of: Span) -> Span {
    let nanos = i128::from(whole.nanos()) * i128::from(part.nanos());
    Span::from_wide(nanos / i128::from(of.nanos().max(1)))
}

/// The length of the part of `from..to` that lies in `low..high`.
pub(super) fn overlap(from: Instant, to: Instant, low: Instant, high: Instant) -> Span {
    (to.min(high) - from.max(low)).max(Span::ZERO)
}

pub(super) fn mostly(part: Span, whole: Span) -> bool {
    part + part >= whole
}

impl Threads {
    /// When the latest tick of a worker that was judged had ended, or its latest wake-up without one.
    pub(super) fn judged_until(&self, worker: usize) -> Option<Instant> {
        self.by_worker.get(&worker)?.timeline.judged_until()
    }

    /// What a page fault costs on this machine now.
    pub(crate) fn faults_cost(&mut self, each: Span) {
        (self.fault, self.fault_matters) = (each, false);
    }

    /// Whether a verdict depended on what a page fault costs, since that was given.
    pub(crate) fn fault_matters(&self) -> bool {
        self.fault_matters
    }

    /// From now on many records wait, or not: verdicts look back less meanwhile, and are unknown more often.
    pub(crate) fn hurry(&mut self, hurried: bool) {
        self.hurried = hurried;
    }

    /// How many ticks a verdict on this many releases looks back.
    pub(super) fn look_back(&self, releases: u64) -> usize {
        let worth = usize::try_from(releases).unwrap_or(usize::MAX).saturating_mul(SHORT_LOOK_BACK);
        if self.hurried { worth.min(LOOK_BACK) } else { LOOK_BACK }
    }

    pub(super) fn add_worker(&mut self, number: usize, facts: WorkerFacts) {
        self.by_worker.insert(number, Thread { facts, timeline: Timeline::default() });
    }

    pub(super) fn remove_worker(&mut self, number: usize) {
        self.by_worker.remove(&number);
    }

    pub(crate) fn note_stall(&mut self, stall: Stall) {
        if self.stalls.len() == STALLS {
            self.stalls.pop_front();
        }
        self.stalls.push_back(stall);
    }

    /// By `at`, on its own clock, a worker's thread had waited this long for a processor in all.
    pub(crate) fn has_waited(&mut self, worker: usize, at: Instant, waited: Span) {
        if let Some(thread) = self.by_worker.get_mut(&worker) {
            thread.timeline.has_waited(at, waited);
        }
    }

    /// Uses the evidence of a tick that was released then: enters why its worker was woken late, and returns the least and the
    /// most of what was off the processor that can have been in its run.
    pub(super) fn weigh(
        &mut self,
        worker: usize,
        position: usize,
        release: Instant,
        evidence: &Evidence,
    ) -> ([Run; 2], Window) {
        let Some(Thread { facts, timeline }) = self.by_worker.get(&worker) else {
            unreachable!("its record has a position")
        };
        let Piece { started, finished, .. } = timeline.piece(position);
        let run = finished - started;
        let since = finished - evidence.awake;
        let first = timeline.first_since(since, position);
        let (wake, earlier) = timeline.wake_up_of(first, since, self.look_back(1));
        let sleep = timeline.piece(wake).sleep.filter(|(_, woke)| *woke >= since || wake < first);
        let before = sleep.map_or(since, |(asked, _)| asked);
        let queue = evidence.run_queue.map(|waited| waited - earlier - timeline.waited_before(wake, before));
        let off = (evidence.awake - evidence.cpu).max(Span::ZERO);
        let waited_for_something = evidence.voluntary > 0;
        let used = evidence.cpu + position.checked_sub(1).map_or(Span::ZERO, |before| timeline.piece(before).owed);
        // Interrupts and the host take the processor without a switch to another thread.
        let switched = evidence.involuntary > 0 || waited_for_something || queue.is_none_or(|queue| queue > OVERHEAD);
        let how_switched = match switched {
            _ if waited_for_something && off <= OVERHEAD => Switched::InItsSleep,
            _ if waited_for_something => Switched::Voluntarily,
            true => Switched::Involuntarily,
            false => Switched::Never,
        };

        // The wake-up.
        // Who waits for a processor is not stopped.
        let waited = queue.unwrap_or(Span::ZERO).max(Span::ZERO);
        let mut late = Span::ZERO;
        let mut late_cause = Cause::Unknown;
        if let Some((asked, woke)) = sleep {
            late = woke - asked;
            late_cause = match queue {
                _ if mostly(self.stalled(facts.clock, asked, woke, how_switched).min(late - waited), late) => {
                    Cause::Stalled
                }
                Some(queue) if mostly(queue - off, late) => {
                    if self.throttled(facts, woke, late, used) {
                        Cause::Throttled
                    } else {
                        Cause::Preempted
                    }
                }
                Some(queue) if !mostly(queue.min(late), late) => Cause::WokenLate,
                _ => Cause::Unknown,
            };
        }

        // Awake, and not on the processor: waiting for it, or asleep in a tick.
        let in_late = if late_cause == Cause::Preempted || late_cause == Cause::Throttled { late } else { Span::ZERO };
        let preempted = match queue {
            _ if !waited_for_something => off,
            Some(queue) => (queue - in_late).max(Span::ZERO).min(off),
            None if evidence.involuntary == 0 => Span::ZERO,
            None => off, // to be called unknown
        };
        let preempting = match queue {
            None if waited_for_something && evidence.involuntary > 0 => Cause::Unknown,
            _ if self.throttled(facts, finished, preempted, used) => Cause::Throttled,
            _ => Cause::Preempted,
        };
        let pages = evidence.major_faults > 0 && evidence.major_faults.saturating_mul(2) >= evidence.voluntary;
        let asleep = if pages { Cause::PageFault } else { Cause::Waited };
        let ready = timeline.ready(position).max(release);
        let stalled =
            |from, to| self.stalled(facts.clock, from, to, how_switched).min(off - (waited - in_late).max(Span::ZERO));
        let gap = Some(started - ready).filter(|gap| *gap > OVERHEAD).map_or(Span::ZERO, |gap| gap.min(off));
        let gap_cause = match mostly(preempted, off) {
            _ if off <= OVERHEAD => Cause::Unknown,
            _ if gap > Span::ZERO && mostly(stalled(ready, started).min(gap), started - ready) => Cause::Stalled,
            true => preempting,
            false => Cause::Unknown,
        };
        let others = (evidence.awake - run - gap).max(Span::ZERO);
        let times = |span: Span, count: u32| share(span, Span::from_nanos(count.into()), Span::from_nanos(1));
        // To ask a disk for pages takes processor time too, on fast disks more than the disk takes.
        let asking = if pages { times(ASKING, evidence.major_faults) } else { Span::ZERO };
        let faults = times(self.fault, evidence.minor_faults) + asking;
        let fault_matters = evidence.minor_faults >= MANY_FAULTS && times(DEAR_FAULT, evidence.minor_faults) >= run;
        let window = Window { off, preempted, others, faults, asleep, preempting, switched };
        let runs = window.runs(run, off - gap, stalled(started, finished).max(Span::ZERO));
        let owed = match facts.bandwidth {
            Some(Bandwidth::Reserved { runtime }) => (used - runtime).max(Span::ZERO),
            _ => Span::ZERO,
        };

        let Some(Thread { timeline, .. }) = self.by_worker.get_mut(&worker) else { unreachable!("found above") };
        (first..=position).for_each(|position| timeline.change(position, |piece| piece.gap = gap_cause));
        timeline.change(position, |piece| piece.owed = owed);
        if sleep.is_some() {
            timeline.change(wake, |piece| piece.late = late_cause);
        }
        self.fault_matters |= fault_matters;
        (runs, window)
    }

    /// How much of the time from `from` to `to` the process was stopped. A stop of unknown length counts only if the thread
    /// gave up the processor meanwhile; one that may have been of another processor, only if the thread lost its own as well,
    /// and to no other thread; one while the log was written, only if the thread was woken in its sleep.
    pub(super) fn stalled(&self, clock: usize, from: Instant, to: Instant, switched: Switched) -> Span {
        let length = to - from;
        let within = |stall: &Stall| {
            let fits = length.nanos() / 4 >= stall.least.nanos() / 5;
            let applies = match (switched, stall.certainty) {
                (Switched::InItsSleep, Certainty::Certain | Certainty::Writing)
                | (Switched::Voluntarily, Certainty::Certain) => true,
                (Switched::Never, Certainty::Certain | Certainty::Late) => stall.least > Span::ZERO,
                (Switched::Involuntarily | Switched::Unknown, Certainty::Certain) => stall.least > Span::ZERO,
                _ => false,
            };
            let overlap = overlap(from, to, stall.from[clock], stall.to[clock]).min(stall.most);
            if fits && applies { overlap } else { Span::ZERO }
        };
        self.stalls.iter().fold(Span::ZERO, |sum, stall| sum + within(stall))
    }

    /// Whether a wait for the processor of this length, which ended at `to`, is one for bandwidth. The thread has `used` this
    /// much of a reservation.
    fn throttled(&self, facts: &WorkerFacts, to: Instant, waited: Span, used: Span) -> bool {
        match facts.bandwidth {
            None => false,
            Some(Bandwidth::Reserved { runtime }) => waited > OVERHEAD && used.nanos() / 9 >= runtime.nanos() / 10,
            Some(Bandwidth::Shared { runtime, period }) => {
                let idle = period - runtime;
                let most = Span::from_nanos(idle.nanos() / 10 * 11) + Span::from_millis(1);
                if waited > most || waited.nanos() < idle.nanos() / 5 {
                    return false;
                }
                let before = to - waited;
                let busy = self.busy(facts, before - period, before);
                busy.nanos() / 85 >= runtime.nanos() / 100
            }
        }
    }

    /// How long our workers on the same CPU were awake from `from` to `to`. Where only a part of that time is remembered, they
    /// were as busy in the rest; before a worker's first tick it was not.
    fn busy(&self, facts: &WorkerFacts, from: Instant, to: Instant) -> Span {
        let of = |thread: &Thread| {
            let mut known = to;
            let mut mine = Span::ZERO;
            for (position, piece) in (0..thread.timeline.len()).rev().zip(thread.timeline.backwards()) {
                if piece.finished < from {
                    return mine;
                }
                let ready = thread.timeline.ready(position);
                mine += overlap(ready, piece.finished, from, to);
                known = known.min(ready);
            }
            match thread.timeline.is_cut_off() && from < known && known < to {
                true => share(mine, to - from, to - known),
                false => mine,
            }
        };
        self.beside(facts).fold(Span::ZERO, |sum, thread| sum + of(thread))
    }

    /// The thread itself, and those of workers that are pinned to the same CPU and whose times can be compared.
    fn beside<'a>(&'a self, facts: &'a WorkerFacts) -> impl Iterator<Item = &'a Thread> {
        let same = |other: &WorkerFacts| {
            std::ptr::eq(other, facts) || facts.cpu.is_some() && (other.cpu, other.clock) == (facts.cpu, facts.clock)
        };
        self.by_worker.values().filter(move |thread| same(&thread.facts))
    }
}

impl Window {
    /// The least and the most that a run of this length can have of what is in the window, `off` of which was off the
    /// processor in ticks.
    fn runs(&self, run: Span, off: Span, stalled: Span) -> [Run; 2] {
        let of = |off: Span, faults: Span| {
            let preempted = share(off, self.preempted, self.off);
            let slept = off - preempted;
            let stalled = stalled.min(off);
            let from_sleep = stalled.min(slept);
            Run {
                preempted: preempted - (stalled - from_sleep),
                slept: slept - from_sleep,
                faults: faults.min(run - off).max(Span::ZERO),
                stalled,
                worked: (run - off - faults).max(Span::ZERO),
            }
        };
        let least = |of: Span| (of - self.others).max(Span::ZERO).min(run);
        [of(least(off), least(self.faults)), of(off.min(run), self.faults)]
    }
}

impl Run {
    /// Enters the parts of a run into those of its delay.
    pub(super) fn enter(self, parts: &mut Parts, window: Window, usual: Span, deadline: Span) {
        parts.add(window.preempting, None, self.preempted);
        parts.add(window.asleep, None, self.slept);
        parts.add(Cause::PageFault, None, self.faults);
        parts.add(Cause::Stalled, None, self.stalled);
        // Work that misses the deadline alone does so however much else there was in the run. What page faults cost is known
        // within a factor of two.
        let surely = self.worked - self.faults;
        let alone = self.preempted + self.slept + self.faults;
        let worked = if surely > deadline { self.worked + alone } else { self.worked - usual };
        parts.add(Cause::RanLong, None, worked);
    }
}
