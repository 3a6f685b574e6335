//! The hot loop: wait for the next release, run what is due, pass on a record.
//!
//! As much as possible is done before a release. The next tick is chosen and prepared before the sleep, its memory is warmed before the
//! spin, and the reading that ends the wait is the tick's `started`. If the wait ends too late for the choice to hold, the tick is handed
//! back and chosen again, so the order is the same as if it were chosen at the start.
//!
//! Time comes from the monotonic [`Clock`] over which the loop is generic, so the same lines run on the kernel's clock and on the virtual
//! one. Releases lie on a clock that is an offset ahead of it. From the first tick to the last, the loop does not allocate, lock or log.
//! Its only system calls are the sleep and those of its [`EvidenceSource`]. A task's panic is the one exception. The report after the last
//! tick may allocate.

mod rest;

use super::clock::ReleaseClock;
use super::control::Control;
use super::judge::{Returned, Verdict, judge};
use super::panic;
use super::set::{Exchange, TaskSet};
use super::slot::Slot;
use super::witness::Witness;
use crate::channels::{Basis, Counts, Evidence, EvidenceSource, IdleWake, NONE, Outcome, Row, TickRecord, TickSink};
use crate::pacing::{Due, GivenUp, Next, Sleeps};
use crate::task::{Reason, Tick, TickError};
use crate::time::{Clock, Instant, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The result of a worker's run.
#[derive(Debug, Default)]
pub struct Report {
    /// The number and counts of each task, in the order of declaration.
    pub tasks: Vec<(u32, Counts)>,
    /// Releases that no record reports, with the number of their task.
    pub given_up: Vec<(u32, GivenUp)>,
    /// Sleeps made.
    pub wakes: u64,
    /// Time spent in spin tails, without interruptions that made a spin end late.
    pub spun: Span,
    /// At the end, the target of the spin tail cost more than allowed.
    pub fell_short: bool,
    /// From the first clock reading to the last.
    pub elapsed: Span,
}

/// One worker's loop, ready to run.
pub struct Runner<C, S> {
    clock: ReleaseClock<C>,
    sleeps: Sleeps,
    set: Box<TaskSet>,
    exchange: Option<Exchange>,
    sink: S,
    control: Arc<Control>,
    known: Option<Instant>, // the last clock reading, if almost nothing was done since
    woke: Instant,
    oversleep: Option<Span>,
    wakes: u64,
    spun: Span,
    tail: Option<(Span, Span)>, // not yet counted: length of the spin before the running tick, and how late it ended
    witness: Option<Witness>,
}

/// A prepared tick; only its start is missing.
struct Ready {
    due: Due,
    tick: Tick,
    until: Instant, // the choice of this tick holds until then
}

impl<C: Clock, S: TickSink> Runner<C, S> {
    /// A loop over the tasks of `set`, on a monotonic clock.
    pub fn new(monotonic: C, set: TaskSet, sleeps: Sleeps, sink: S, control: Arc<Control>) -> Self {
        let offset = control.offset();
        control.adopted(offset);
        let clock = ReleaseClock::new(monotonic, offset);
        let woke = clock.now();
        Self {
            clock,
            sleeps,
            set: Box::new(set),
            exchange: None,
            sink,
            control,
            known: None,
            woke,
            oversleep: None,
            wakes: 0,
            spun: Span::ZERO,
            tail: None,
            witness: None,
        }
    }

    /// Takes evidence from `source` for each missed release or, if `each_tick`, for each tick.
    #[must_use]
    pub fn with_evidence(self, source: Box<dyn EvidenceSource>, each_tick: bool) -> Self {
        Self { witness: Some(Witness::new(source, each_tick, self.woke)), ..self }
    }

    /// Allows an exchange of the set while the loop runs.
    #[must_use]
    pub fn exchanging(self, exchange: Exchange) -> Self {
        Self { exchange: Some(exchange), ..self }
    }

    /// Runs until no release is left or a stop is requested. Also returns the tasks and the exchange, with any set it has not taken. Drop
    /// them on a thread that may block, because closing a file may take time.
    pub fn run(mut self) -> (Report, S, (Box<TaskSet>, Option<Exchange>)) {
        let began = self.clock.monotonic(self.clock.now());
        loop {
            if self.control.asks_for_something() {
                if self.control.stopping() {
                    break;
                }
                self.follow_steps();
                if self.control.exchange_asked() {
                    self.exchange();
                }
                self.known = None;
            }
            // If ticks follow one another directly, the end of one is the start of the next.
            let now = self.known.take().unwrap_or_else(|| self.clock.now());
            match self.set.schedule.next(now) {
                Next::Run(due) => {
                    let mut ready = self.make_ready(due, Instant::MAX);
                    self.tick(&mut ready, now);
                }
                Next::Rest(release) => {
                    let now = self.idle(now);
                    let mut ready = None;
                    if let (Some(started), Some(ready)) = (self.rest(now, release, &mut ready), &mut ready) {
                        self.tick(ready, started);
                    }
                }
                Next::Finished => break,
            }
        }
        self.count_tail();
        let now = self.idle(self.clock.now());
        let elapsed = self.clock.monotonic(now) - began;
        let ended = self.set.close(now);
        for slot in self.set.slots.iter_mut().flatten() {
            let _ = catch_unwind(AssertUnwindSafe(|| slot.task.ended()));
        }
        let fell_short = self.sleeps.falls_short();
        let Self { set, exchange, sink, wakes, spun, .. } = self;
        let report = Report { tasks: ended.tasks, given_up: ended.given_up, wakes, spun, fell_short, elapsed };
        (report, sink, (set, exchange))
    }

    /// Prepares a tick. The choice of this tick holds until `until`.
    fn make_ready(&mut self, due: Due, until: Instant) -> Ready {
        let slot = slot(&mut self.set.slots, due.task);
        slot.values.fill(NONE);
        self.control.prepares(due.n);
        let Due { n, release, skipped, credit, .. } = due;
        let period = slot.period;
        Ready { due, until, tick: Tick { n, release, started: release, lateness: Span::ZERO, skipped, credit, period } }
    }

    #[inline(never)] // its code has one address, which is prefetched
    fn tick(&mut self, ready: &mut Ready, started: Instant) {
        let Due { task, n, release, missed, stepped, jumped, .. } = ready.due;
        let set = &mut *self.set;
        let running = slot(&mut set.slots, task);
        self.control.begins(running.id, n, self.clock.monotonic(started));
        let lateness = started - release;
        // Written in place: a copy would wait for the preceding stores, including those that miss the caches.
        (ready.tick.started, ready.tick.lateness) = (started, lateness);
        if let Some(flow) = &mut running.flow {
            flow.take(self.clock.monotonic(started));
        }
        let result = catch_unwind(AssertUnwindSafe(|| running.task.tick(&ready.tick, &mut running.values)));
        let finished = self.clock.now();
        self.control.ends();
        self.known = Some(finished);
        set.warm_following();
        let slot = slot(&mut set.slots, task);

        let returned = match &result {
            Ok(Ok(())) => Returned::Well,
            Ok(Err(error)) => Returned::Failed(*error),
            Err(_) => Returned::Panicked,
        };
        let response = finished - release;
        let Verdict { outcome, overrun, over_budget, over_limit, exits } =
            judge(slot, returned, finished - started, response, self.clock.monotonic(finished));
        let disabled = outcome.ends_task();
        if let Err(payload) = result {
            self.known = None; // passing it on takes time
            panic::pass_on(slot.id, n, payload, disabled);
        }
        if disabled {
            self.known = None;
            // After a panic the task may be in any state.
            let _ = catch_unwind(AssertUnwindSafe(|| slot.task.disabled()));
        }
        let settled = match disabled {
            false => set.schedule.settle(task, started, finished),
            true => set.schedule.disable(task, started, finished),
        };
        if exits {
            self.control.fail(slot.id);
        }
        let well = !outcome.is_error();
        let mut basis = Basis::Good;
        if let Some(flow) = &mut slot.flow {
            if let Some(stuck) = &mut flow.stuck {
                stuck.mark(&mut slot.values, self.clock.monotonic(release));
            }
            basis = flow.basis();
        }
        if !well || disabled {
            basis = basis.max(basis_of_failed(&outcome, &mut slot.values));
        }
        // A failed tick may have set some of its values. After a panic, no value can be trusted.
        if let (true, Some(rows)) = (returned != Returned::Panicked, &mut slot.rows) {
            rows.offer(Row { n, basis, release, lateness, values: &slot.values });
        }
        if let Some(flow) = &mut slot.flow {
            if basis < Basis::Failed {
                // If the task panics here, the age is unknown.
                (flow.age, flow.origin) = catch_unwind(AssertUnwindSafe(|| (slot.task.age(), slot.task.origin())))
                    .unwrap_or((Span::MAX, None));
            }
            flow.give((slot.id, n), self.clock.monotonic(release), &slot.values, basis);
        }

        let account = set.schedule.account(task);
        let next = account.next().map(|(_, release)| release);
        if overrun || over_budget || !well || disabled || missed + settled.skipped > 0 {
            let counts = &mut set.counts[task];
            counts.overruns += u64::from(overrun);
            counts.over_budget += u64::from(over_budget);
            counts.errors += u64::from(!well);
            counts.disabled = disabled;
            (counts.ran, counts.skipped) = (account.ran(), account.skipped());
            slot.live.store(counts, next);
        } else {
            slot.live.ran(account.ran(), next);
        }
        let id = slot.id;
        let age = slot.flow.as_ref().and_then(|flow| flow.age(self.clock.monotonic(finished)));
        let gave_up = set.schedule.gave_up(); // also of other tasks
        let missed_any = overrun || missed + settled.skipped > 0 || gave_up;
        let evidence = self.evidence(finished, missed_any);
        self.sink.offer(TickRecord {
            release,
            n,
            woke: self.woke - release,
            oversleep: self.oversleep.take(),
            lateness,
            response,
            missed,
            stepped,
            jumped,
            dropped: settled.skipped,
            task: id,
            overrun,
            over_budget,
            over_limit,
            after_loss: false, // set by the sink
            outcome,
            age,
            evidence,
        });
    }

    /// Takes evidence at `now`, if something was `missed` or every tick takes it.
    fn evidence(&mut self, now: Instant, missed: bool) -> Option<Evidence> {
        let evidence = self.witness.as_mut()?.take(now, missed);
        self.known = self.known.filter(|_| evidence.is_none()); // taking evidence takes time
        evidence
    }

    /// No tick runs at `now`. Reports what no tick reports: a sleep that ended too late for any tick, or releases given up since the last
    /// evidence. Returns the time afterwards.
    fn idle(&mut self, now: Instant) -> Instant {
        let gave_up = self.set.schedule.gave_up();
        let sleep = self.oversleep.take().map(|oversleep| (self.woke - oversleep, self.woke));
        if sleep.is_none() && !gave_up {
            return now;
        }
        let evidence = self.evidence(now, true);
        self.sink.woke_idle(IdleWake { sleep, ended: now, after_loss: false, evidence });
        self.clock.now()
    }

    /// Counts the last spin tail, once its tick has run.
    fn count_tail(&mut self) {
        if let Some((spun, late)) = self.tail.take() {
            self.spun += self.sleeps.spent(spun, late);
        }
        self.control.count_tails(self.spun, self.sleeps.falls_short());
    }

    /// Between two ticks: follows a step of the clock of releases.
    fn follow_steps(&mut self) {
        let offset = self.control.offset();
        let Some(by) = self.clock.adopt(offset) else { return };
        self.control.adopted(offset);
        self.set.schedule.step(by, self.clock.now());
        self.set.show_step();
        self.sleeps.step(by);
        self.woke = self.woke + by;
        if let Some(witness) = &mut self.witness {
            witness.step(by);
        }
    }

    /// Between two ticks: takes the new set and sends the old one back.
    fn exchange(&mut self) {
        let Some(exchange) = &self.exchange else { return };
        let Ok(mut set) = exchange.incoming.try_recv() else {
            return;
        };
        set.take_over(&mut self.set, self.clock.now());
        std::mem::swap(&mut self.set, &mut set);
        // The channel has room: only one set is on its way at a time, and its sender polls for the old one.
        let _ = exchange.outgoing.try_send(set);
    }
}

/// What the values of a tick rest on that failed or ended its task. An error of one value makes that one bad, unless the tick has set it.
#[cold]
#[inline(never)]
fn basis_of_failed(outcome: &Outcome, values: &mut [f64]) -> Basis {
    if let Some(column) = outcome.error().and_then(TickError::column)
        && let Some(value) = values.get_mut(column).filter(|value| value.to_bits() == NONE.to_bits())
    {
        *value = Reason::Failed.value();
    }
    outcome.basis().unwrap_or_default()
}

/// The task at this position.
fn slot(slots: &mut [Option<Box<Slot>>], task: usize) -> &mut Slot {
    let Some(slot) = slots[task].as_deref_mut() else { unreachable!("a set that runs has all its slots") };
    slot
}

#[cfg(test)]
mod tests;
