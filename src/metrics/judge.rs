//! Why releases were missed: verdicts on a record, based on what its worker did and what the kernel counted meanwhile.
//!
//! Pure except for the [`Accuser`] passed in; may allocate. `docs/causes.md` explains each rule. No verdict is given
//! without evidence: if the evidence leaves the cause open, it is [`Cause::Unknown`].

use super::cause::{By, Cause, Verdict, Verdicts};
use super::machine::Accuser;
use super::parts::Parts;
use super::weigh::{Run, Switched, Thread, Threads, Window, mostly, overlap};
use crate::channels::{Evidence, IdleWake, TickRecord};
use crate::pacing::GivenUp;
use crate::time::{Instant, Span};

/// What the judge needs to know about a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub(super) deadline: Span,
    pub(super) period: Span,
    pub(super) usual: Span, // run of a tick that misses nothing; zero if unknown
}

impl Threads {
    /// Enters what a worker did. Must be called before any record that it may affect is judged.
    pub(super) fn observe(&mut self, worker: usize, record: &TickRecord) {
        if let Some(thread) = self.by_worker.get_mut(&worker) {
            thread.timeline.add(record);
        }
    }

    /// Enters that a worker woke up and ran no tick. Must be called before this wake-up, or any record it may affect, is judged.
    pub(super) fn observe_idle(&mut self, worker: usize, wake: &IdleWake) {
        if let Some(thread) = self.by_worker.get_mut(&worker) {
            thread.timeline.add_idle(wake);
        }
    }

    /// Finds out why a wake-up without a tick came late. Must be called in order with the worker's records.
    pub(super) fn judge_idle(&mut self, worker: usize, wake: &IdleWake) {
        let position = self.by_worker.get_mut(&worker).and_then(|thread| thread.timeline.next(None, wake.ended));
        if let (Some(position), Some(evidence)) = (position, &wake.evidence) {
            self.weigh(worker, position, wake.ended - evidence.awake, evidence);
            self.has_waited_by(worker, wake.ended, evidence);
        }
    }

    /// Enters, from the worker's evidence, how long its thread had waited for a processor by `at`.
    fn has_waited_by(&mut self, worker: usize, at: Instant, evidence: &Evidence) {
        if let Some(waited) = evidence.run_queue {
            self.has_waited(worker, at, waited);
        }
    }

    /// The verdicts on a record. `terms` do not matter if nothing was missed in it. Each of a worker's records is judged once, in the order
    /// in which they were observed.
    pub(super) fn judge(
        &mut self,
        worker: usize,
        record: &TickRecord,
        terms: Terms,
        accuser: &mut dyn Accuser,
    ) -> Verdicts {
        let next = |thread: &mut Thread| thread.timeline.next(Some(record.task), record.started());
        let position = self.by_worker.get_mut(&worker).and_then(next);
        let missed = record.overrun || record.skipped() > 0;
        // The evidence of a tick that missed nothing itself may explain releases that another task gave up.
        let evidence = record.evidence.filter(|evidence| missed || evidence.run_queue.is_some());
        let Some(position) = position.filter(|_| missed || evidence.is_some()) else {
            return verdicts(record, None, None);
        };
        let runs = evidence.map(|evidence| self.weigh(worker, position, record.release, &evidence));
        if let Some(evidence) = &evidence {
            self.has_waited_by(worker, record.finished(), evidence);
        }
        if !missed {
            return Verdicts::default();
        }
        let deadline = if record.overrun { terms.deadline } else { terms.period };
        let look_back = self.look_back(record.skipped().max(1));
        let delays = |from| {
            let mut parts = Parts::default();
            parts.add(Cause::Stalled, None, record.jumped.min(record.started() - from));
            let window = (from, record.started());
            self.delays(worker, record.task, (position, false), window, look_back, &mut parts);
            parts
        };
        let late = delays(record.release);
        // Work that takes longer than `alone` is to blame, whatever else happened. A cause that affects the whole machine is to blame if it
        // explains `excess`.
        let verdict = |alone: Span, excess: Span| {
            let of = |run: Option<(Run, Window)>| {
                let mut parts = late.clone();
                match run {
                    Some((run, window)) => run.enter(&mut parts, window, terms.usual, alone),
                    None => parts.add(Cause::Unknown, None, record.run() - terms.usual),
                }
                parts.winner(excess)
            };
            match runs {
                // If other ticks share the evidence, the verdict must be the same whichever tick the evidence belongs to.
                Some(([least, most], window)) => {
                    let (least, most) = (of(Some((least, window))), of(Some((most, window))));
                    if least.0 == most.0 { most } else { (Cause::Unknown, None, most.2) }
                }
                None => of(None),
            }
        };
        let mut own = verdict(deadline, record.response - deadline);
        // A tick whose own work took too long is to blame for its own miss, but not for other delays of the releases behind it.
        let mut behind = verdict(Span::MAX, record.response - terms.period);
        let mut before = (record.missed > 0).then(|| {
            let oldest = -i128::from(terms.period.nanos()) * i128::from(record.missed);
            delays(record.release.plus_nanos(oldest)).winner(Span::MAX)
        });
        let same = own.0 == behind.0;
        for (cause, by, time) in before.iter_mut().chain([&mut own]).chain((!same).then_some(&mut behind)) {
            if *cause == Cause::Preempted && by.is_none() {
                let from = record.finished() - record.response.max(*time);
                let switched = runs.is_none_or(|(_, window)| window.switched);
                *by = self.who(worker, (from, record.finished()), *time, switched, accuser);
            }
        }
        if same {
            behind.1 = own.1; // ask for the culprit only once
        }
        if let Some(thread) = self.by_worker.get_mut(&worker) {
            thread.timeline.change(position, |piece| piece.missed = Some((behind.0, behind.1)));
        }
        verdicts(record, before, Some((own, behind)))
    }

    /// The verdict on releases of a task that were given up at `given_up.at` without a record, when its worker had ended.
    pub(super) fn given_up(&self, worker: usize, task: u32, given_up: &GivenUp) -> Verdict {
        let count = given_up.count;
        if given_up.disabled {
            return Verdict::plain(Cause::Disabled, count);
        }
        let mut parts = Parts::default();
        parts.add(Cause::Stalled, None, given_up.jumped.min(given_up.oldest));
        let last = self.by_worker.get(&worker).and_then(|thread| thread.timeline.len().checked_sub(1));
        if let Some(last) = last {
            let window = (given_up.at - given_up.oldest, given_up.at);
            self.delays(worker, task, (last, true), window, last + 1, &mut parts);
        }
        let (cause, by, time) = parts.winner(Span::MAX);
        Verdict { cause, by, time, count }
    }

    /// Divides the time from `from` to `to`, in which `task` waited, among the causes of the wait. Looks back over `look_back` ticks from
    /// the one at position `last`, then over the history before all ticks that are kept. The run of the tick at `last` itself counts only
    /// if `with_last` is true.
    fn delays(
        &self,
        worker: usize,
        task: u32,
        (last, with_last): (usize, bool),
        (from, to): (Instant, Instant),
        look_back: usize,
        parts: &mut Parts,
    ) {
        let Some(Thread { facts, timeline }) = self.by_worker.get(&worker) else { return };
        let mut covered = if with_last { timeline.piece(last).finished } else { timeline.piece(last).started };
        parts.add(Cause::Unknown, None, overlap(covered, to, from, to));
        for position in (0..=last).rev().take(look_back) {
            let piece = timeline.piece(position);
            let part = |low: Instant, high: Instant| overlap(low, high, from, to);
            if let Some(ran) = piece.task.filter(|_| position < last || with_last) {
                let time = part(piece.started, piece.finished);
                let stalled = self.stalled(facts.clock, piece.started, piece.finished, Switched::Unknown).min(time);
                let (cause, by) = match piece.missed {
                    Some((machine @ (Cause::Stalled | Cause::Throttled), by)) => (machine, by),
                    _ if mostly(stalled, time) => (Cause::Stalled, None),
                    _ if ran != task => (Cause::Blocked, Some(By::Task(ran))),
                    missed => (piece.behind(), missed.and_then(|(_, by)| by)),
                };
                parts.add(cause, by, time);
            }
            // The time that a step jumped over lies between the instants before and after the step.
            let explained = if piece.stepped { parts.of(Cause::Stalled) } else { Span::ZERO };
            let ready = timeline.ready(position);
            let explained_before = if piece.sleep.is_none() { explained } else { Span::ZERO };
            parts.add(piece.gap, None, part(ready, piece.started) - explained_before);
            let mut asleep_from = ready;
            if let Some((asked, woke)) = piece.sleep {
                let late = match piece.late {
                    // The thread's own evidence is missing, but there is evidence about the whole process.
                    Cause::Unknown
                        if mostly(self.stalled(facts.clock, asked, woke, Switched::Unknown), woke - asked) =>
                    {
                        Cause::Stalled
                    }
                    late => late,
                };
                parts.add(late, None, part(asked, woke));
                asleep_from = asked;
            }
            let before = timeline.finished_before(position);
            if piece.after_loss {
                parts.add(Cause::Unknown, None, part(before.unwrap_or(from), asleep_from) - explained);
            }
            // It sleeps only while nothing is due: everything that had come up by then had been given up.
            covered = before.unwrap_or(asleep_from).min(asleep_from);
            if covered <= from || piece.stepped {
                return;
            }
            if position == 0 && timeline.history().end().is_some() {
                return timeline.history().delays(task, from, parts);
            }
        }
        parts.add(Cause::Unknown, None, overlap(from, covered, from, to));
    }

    /// Who kept a worker from the processor for `time` between these instants.
    fn who(
        &self,
        worker: usize,
        (from, to): (Instant, Instant),
        time: Span,
        switched: bool,
        accuser: &mut dyn Accuser,
    ) -> Option<By> {
        let facts = &self.by_worker.get(&worker)?.facts;
        let cpu = facts.cpu?;
        let ran = |thread: &Thread| {
            let ticks = thread.timeline.backwards().take_while(|piece| piece.finished > from);
            // A tick that lasted the whole time was itself preempted by the worker.
            let within = ticks.filter(|piece| piece.started > from || piece.finished < to);
            within.fold(Span::ZERO, |sum, piece| sum + overlap(piece.started, piece.finished, from, to))
        };
        let others = self.by_worker.iter().filter(|(number, thread)| {
            **number != worker && (thread.facts.cpu, thread.facts.clock) == (facts.cpu, facts.clock)
        });
        let most = others.map(|(number, thread)| (ran(thread), *number)).max();
        match most {
            Some((ran, number)) if mostly(ran, time) => Some(By::Worker(number)),
            _ => accuser.who(cpu, facts.priority, time, switched),
        }
    }
}

type Winner = (Cause, Option<By>, Span);

/// The verdicts on a record, from three winners: `before` for what preceded the tick, and in `tick` one for the tick and one for what
/// waited behind it. `None`: nothing is known.
fn verdicts(record: &TickRecord, before: Option<Winner>, tick: Option<(Winner, Winner)>) -> Verdicts {
    let unknown = (Cause::Unknown, None, Span::ZERO);
    let verdict = |winner: Option<Winner>, count| {
        let (cause, by, time) = winner.unwrap_or(unknown);
        (count > 0).then_some(Verdict { cause, by, time, count })
    };
    // What waits behind the task's own long run is the task's debt.
    let after = tick.map(|(_, (cause, by, time))| match cause {
        Cause::RanLong => (Cause::OwnDebt, None, time),
        _ => (cause, by, time),
    });
    let own = tick.map(|(own, _)| own);
    Verdicts {
        before: verdict(before, record.missed),
        overrun: verdict(own, u64::from(record.overrun)),
        after: verdict(after, record.dropped),
        known: 0,
    }
}

#[cfg(test)]
mod tests;
