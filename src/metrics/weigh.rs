//! Weighs the evidence of a tick: how its run was spent, and why its worker was woken late.
//!
//! Pure arithmetic on what the worker's thread did, what the kernel counted for it, and what affected the whole process. If several ticks
//! share the evidence, the result is a range: the least and the most that can belong to one of them.

use super::cause::Cause;
use super::machine::{Bandwidth, Certainty, Stall, WorkerFacts};
use super::parts::Parts;
use super::timeline::{LOOK_BACK, Piece, Timeline};
use crate::channels::Evidence;
use crate::time::{Instant, Span};
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of stalls that are remembered. None expires: a stall only explains delays at the time it happened, and a task may be
/// arbitrarily slow. (After `tai` or `realtime` steps back, the same times come again.)
const STALLS: usize = 64;

/// How many ticks per missed release a verdict looks back while many records are waiting, so that the judge keeps up with them. Anything
/// earlier is unknown.
const SHORT_LOOK_BACK: usize = 16;

/// The loop takes less than this between two ticks.
const OVERHEAD: Span = Span::from_micros(5);

/// The maximum processor time of a page fault that reads from a disk.
const ASKING: Span = Span::from_micros(50);

/// More than a page fault without a disk costs on any machine.
const DEAR_FAULT: Span = Span::from_micros(20);

/// With fewer page faults without a disk, measuring their cost again is not worthwhile.
const MANY_FAULTS: u32 = 16;

/// The threads of all workers, and what affected the whole process.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(super) by_worker: BTreeMap<usize, Thread>,
    stalls: VecDeque<Stall>,
    fault: Span, // processor time of one page fault
    fault_matters: bool,
    hurried: bool,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) facts: WorkerFacts,
    pub(super) timeline: Timeline,
}

/// The run of a tick, as far as the evidence determines it: one of several possibilities if other ticks share the evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    preempted: Span,
    slept: Span,
    faults: Span,
    stalled: Span,
    worked: Span,
}

/// What the evidence shows for all ticks that share it, taken together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    off: Span,       // awake, but not on the processor
    preempted: Span, // of that: waiting for the processor
    others: Span,    // awake time outside the tick's run
    faults: Span,    // processor time of page faults
    asleep: Cause,   // the cause that sleeping in a tick counts as
    preempting: Cause,
    pub(super) switched: bool, // the processor ran another thread meanwhile
}

/// How a thread that was awake lost its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switched {
    /// Voluntarily: it slept in a call, or was stopped.
    Voluntarily,
    /// Voluntarily, but not while it was awake: it was woken from its sleep, and gave up the processor again before it continued.
    InItsSleep,
    /// To another thread.
    Involuntarily,
    /// It kept the processor.
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
    /// When the worker's last judged tick ended, or its last judged wake-up without a tick.
    pub(super) fn judged_until(&self, worker: usize) -> Option<Instant> {
        self.by_worker.get(&worker)?.timeline.judged_until()
    }

    /// Sets the current cost of a page fault on this machine.
    pub(crate) fn faults_cost(&mut self, each: Span) {
        (self.fault, self.fault_matters) = (each, false);
    }

    /// Whether a verdict has depended on the cost of a page fault since that cost was last set.
    pub(crate) fn fault_matters(&self) -> bool {
        self.fault_matters
    }

    /// Sets whether many records are waiting. While they are, verdicts look back less far and are unknown more often.
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

    /// Enters a reading: by `at`, on its own clock, a worker's thread had waited this long for a processor in total.
    pub(crate) fn has_waited(&mut self, worker: usize, at: Instant, waited: Span) {
        if let Some(thread) = self.by_worker.get_mut(&worker) {
            thread.timeline.has_waited(at, waited);
        }
    }

    /// Uses the evidence of a tick that was released at `release`. Enters why its worker was woken late. Returns the least and the most
    /// off-processor time that can belong to the tick's run.
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
        // Interrupts and the host take the processor away without a switch to another thread.
        let switched = evidence.involuntary > 0 || waited_for_something || queue.is_none_or(|queue| queue > OVERHEAD);
        let how_switched = match switched {
            _ if waited_for_something && off <= OVERHEAD => Switched::InItsSleep,
            _ if waited_for_something => Switched::Voluntarily,
            true => Switched::Involuntarily,
            false => Switched::Never,
        };

        // The wake-up.
        // A thread that waits for a processor is not stopped.
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

        // Awake but not on the processor: waiting for it, or asleep in a tick.
        let in_late = if late_cause == Cause::Preempted || late_cause == Cause::Throttled { late } else { Span::ZERO };
        let preempted = match queue {
            _ if !waited_for_something => off,
            Some(queue) => (queue - in_late).max(Span::ZERO).min(off),
            None if evidence.involuntary == 0 => Span::ZERO,
            None => off, // counts as unknown below
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
        // Requesting pages from a disk also takes processor time; with a fast disk, more than the disk itself takes.
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

    /// How long the process was stopped between `from` and `to`. Some stalls count only under a condition. A stall of unknown length: the
    /// thread gave up its processor meanwhile. A stall that may have affected only another processor: the thread lost its own processor
    /// too, but not to another thread. A stall while the log was written: the thread was woken in its sleep.
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

    /// Whether a wait of this length for the processor, which ended at `to`, was caused by a bandwidth limit. The thread has `used` this
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

    /// How long hertzd's workers on the same CPU were awake between `from` and `to`. If only part of that time is remembered, the rest is
    /// assumed to be equally busy. Before its first tick, a worker was not busy.
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

    /// The thread itself and those of workers pinned to the same CPU, if their clock is the same, so that times can be compared.
    fn beside<'a>(&'a self, facts: &'a WorkerFacts) -> impl Iterator<Item = &'a Thread> {
        let same = |other: &WorkerFacts| {
            std::ptr::eq(other, facts) || facts.cpu.is_some() && (other.cpu, other.clock) == (facts.cpu, facts.clock)
        };
        self.by_worker.values().filter(move |thread| same(&thread.facts))
    }
}

impl Window {
    /// The least and the most of the window's content that a run of this length can have. `off` is the time off the processor within ticks.
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
    /// Adds the parts of a run to the parts of the delay.
    pub(super) fn enter(self, parts: &mut Parts, window: Window, usual: Span, deadline: Span) {
        parts.add(window.preempting, None, self.preempted);
        parts.add(window.asleep, None, self.slept);
        parts.add(Cause::PageFault, None, self.faults);
        parts.add(Cause::Stalled, None, self.stalled);
        // Work that misses the deadline on its own counts in full, whatever else happened in the run. The cost of page faults is known
        // within a factor of two.
        let surely = self.worked - self.faults;
        let alone = self.preempted + self.slept + self.faults;
        let worked = if surely > deadline { self.worked + alone } else { self.worked - usual };
        parts.add(Cause::RanLong, None, worked);
    }
}
