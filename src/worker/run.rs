//! The hot loop: wait for the next release, run what is due, hand over a record.
//!
//! Time comes from the [`Clock`] that the loop is generic over, so that the same lines run on the kernel's clock and on
//! the virtual one. From the first tick to the last the loop does not allocate, lock, log or make a system call other
//! than the sleep. A task's panic is the one exception. The report after the last tick may allocate.

use super::control::Control;
use super::judge::{Returned, Verdict, judge};
use super::panic;
use super::set::TaskSet;
use super::slot::Counts;
use crate::channels::{Row, TickRecord, TickSink};
use crate::pacing::{Due, GivenUp, Next, Sleeps};
use crate::task::Tick;
use crate::time::{Clock, Instant, Span, Wake};
use crossbeam_channel::{Receiver, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The result of a worker's run.
#[derive(Debug, Default)]
pub struct Report {
    /// One for each task, in the order of declaration, with its number.
    pub tasks: Vec<(u32, Counts)>,
    /// Releases that no record tells of, with the number of their task.
    pub given_up: Vec<(u32, GivenUp)>,
    /// Sleeps made.
    pub wakes: u64,
    /// Time spent in spin tails.
    pub spun: Span,
    /// From the first look at the clock to the last.
    pub elapsed: Span,
}

/// The hot end of the exchange of task sets.
#[derive(Debug)]
pub struct Exchange {
    /// Where the new set is, once [`Control`] says so.
    pub incoming: Receiver<Box<TaskSet>>,
    /// Where the old one goes.
    pub outgoing: Sender<Box<TaskSet>>,
}

/// One worker's loop, ready to run.
pub struct Runner<C, S> {
    clock: C,
    sleeps: Sleeps,
    set: Box<TaskSet>,
    exchange: Option<Exchange>,
    sink: S,
    control: Arc<Control>,
    woke: Instant,
    oversleep: Option<Span>,
    wakes: u64,
    spun: Span,
}

impl<C: Clock, S: TickSink> Runner<C, S> {
    /// A loop over the tasks of `set`.
    pub fn new(clock: C, set: TaskSet, sleeps: Sleeps, sink: S, control: Arc<Control>) -> Self {
        let woke = clock.now();
        Self {
            clock,
            sleeps,
            set: Box::new(set),
            exchange: None,
            sink,
            control,
            woke,
            oversleep: None,
            wakes: 0,
            spun: Span::ZERO,
        }
    }

    /// Lets the set be exchanged while the loop runs.
    #[must_use]
    pub fn exchanging(self, exchange: Exchange) -> Self {
        Self { exchange: Some(exchange), ..self }
    }

    /// Runs until no release is left or a stop is asked for. Returns its tasks as well, and with the exchange those that it
    /// has not taken, to be dropped where closing a file may take its time.
    pub fn run(mut self) -> (Report, S, (Box<TaskSet>, Option<Exchange>)) {
        let began = self.clock.now();
        while !self.control.stopping() {
            if self.control.exchange_asked() {
                self.exchange();
            }
            let now = self.clock.now();
            match self.set.schedule.next(now) {
                Next::Run(due) => self.tick(due),
                Next::Rest(release) => self.rest(now, release),
                Next::Finished => break,
            }
        }
        let now = self.clock.now();
        let ended = self.set.close(now);
        let Self { set, exchange, sink, wakes, spun, .. } = self;
        let report = Report { tasks: ended.tasks, given_up: ended.given_up, wakes, spun, elapsed: now - began };
        (report, sink, (set, exchange))
    }

    fn tick(&mut self, due: Due) {
        let Due { task, n, release, skipped, missed, credit } = due;
        let set = &mut *self.set;
        let Some(slot) = set.slots[task].as_deref_mut() else { unreachable!("a set that runs has all its slots") };
        slot.values.fill(f64::NAN);
        let started = self.clock.now();
        self.control.begins(slot.id, n, started);
        let lateness = started - release;
        let tick = Tick { n, release, started, lateness, skipped, credit, period: slot.period };
        let result = catch_unwind(AssertUnwindSafe(|| slot.task.tick(&tick, &mut slot.values)));
        let finished = self.clock.now();
        self.control.ends();

        let returned = match &result {
            Ok(Ok(())) => Returned::Well,
            Ok(Err(error)) => Returned::Failed(*error),
            Err(_) => Returned::Panicked,
        };
        let response = finished - release;
        let Verdict { outcome, overrun, over_budget, over_limit, exits } =
            judge(slot, returned, finished - started, response, finished);
        let disabled = outcome.ends_task();
        if let Err(payload) = result {
            panic::pass_on(slot.id, n, payload, disabled);
        }
        let settled = match disabled {
            false => set.schedule.settle(task, started, finished),
            true => set.schedule.disable(task, started, finished),
        };
        if exits {
            self.control.fail(slot.id);
        }
        let well = !outcome.is_error();
        // A failed tick may have set some of its values; after a panic none can be trusted.
        if let (true, Some(rows)) = (returned != Returned::Panicked, &mut slot.rows) {
            rows.offer(Row { n, release, lateness, values: &slot.values });
        }

        let counts = &mut set.counts[task];
        counts.overruns += u64::from(overrun);
        counts.over_budget += u64::from(over_budget);
        counts.errors += u64::from(!well);
        counts.disabled = disabled;
        self.sink.offer(TickRecord {
            release,
            n,
            woke: self.woke - release,
            oversleep: self.oversleep.take(),
            lateness,
            response,
            missed,
            dropped: settled.skipped,
            task: slot.id,
            overrun,
            over_budget,
            over_limit,
            outcome,
        });
    }

    fn rest(&mut self, now: Instant, release: Instant) {
        self.control.rests(release);
        let plan = self.sleeps.plan(now, release);
        self.woke = now;
        if let Some(asked) = plan.sleep_until {
            let wake = self.clock.sleep_until(asked);
            self.woke = self.clock.now();
            self.wakes += 1;
            if wake == Wake::Interrupted {
                return;
            }
            self.oversleep = Some(self.woke - asked);
            self.sleeps.learn(asked, self.woke);
        }
        if plan.spin && self.woke < release {
            let spun = self.clock.spin_until(release) - self.woke;
            self.sleeps.spent(spun);
            self.spun += spun;
        }
        self.control.count_rest(self.wakes, self.spun);
    }

    /// Between two ticks: takes the new set, and hands the old one back.
    fn exchange(&mut self) {
        let Some(exchange) = &self.exchange else { return };
        let Ok(mut set) = exchange.incoming.try_recv() else {
            return;
        };
        set.take_over(&mut self.set, self.clock.now());
        std::mem::swap(&mut self.set, &mut set);
        // There is room: one set is under way at a time, and its sender polls for this one.
        let _ = exchange.outgoing.try_send(set);
    }
}
