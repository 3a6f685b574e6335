//! The hot loop: wait for the next release, run what is due, hand over a record.
//!
//! Time comes from the [`Clock`] that the loop is generic over, so that the same lines run on the kernel's clock and
//! on the virtual one. From the first tick to the last nothing here allocates, locks, logs or makes a system call other
//! than the sleep; a task's panic is the one exception, and ends the task. What comes after the last tick may.

use super::control::Control;
use super::panic;
use super::set::TaskSet;
use crate::channels::{Outcome, TickRecord, TickSink};
use crate::channels::{Row, RowSender};
use crate::config::{LimitAction, OnError};
use crate::pacing::{Account, Due, GivenUp, LeakyBucket, Next, Sleeps};
use crate::task::{Task, Tick};
use crate::time::{Clock, Instant, Span, Wake};
use crossbeam_channel::{Receiver, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A task in its place on a worker.
pub struct Slot {
    /// Its number; no two tasks of a process have the same.
    pub id: u32,
    /// The task.
    pub task: Box<dyn Task>,
    /// Latest allowed finish, relative to the release.
    pub deadline: Span,
    /// Longest allowed run, if there is one.
    pub budget: Option<Span>,
    /// One period, rounded up.
    pub period: Span,
    /// What an error leads to.
    pub on_error: OnError,
    /// How many overruns are too many, and what they lead to.
    pub limit: Option<(LeakyBucket, LimitAction)>,
    /// One for each of the task's columns.
    pub values: Vec<f64>,
    /// Where rows of values go; `None`: nowhere.
    pub rows: Option<RowSender>,
}

/// What a task's slot counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ticks run.
    pub ran: u64,
    /// Releases given up.
    pub skipped: u64,
    /// Ticks whose response exceeded the deadline.
    pub overruns: u64,
    /// Ticks whose run exceeded the budget.
    pub over_budget: u64,
    /// Ticks that returned an error or panicked.
    pub errors: u64,
    /// The task was ended before the run was.
    pub disabled: bool,
}

/// What a worker's run came to.
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
    /// Where the new set lies, once [`Control`] says so.
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

    /// Runs until no release is left or somebody asks for a stop.
    pub fn run(mut self) -> (Report, S) {
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
        (self.close(now, now - began), self.sink)
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

        let (run, response) = (finished - started, finished - release);
        let overrun = response > slot.deadline;
        let over_budget = slot.budget.is_some_and(|budget| run > budget);
        let over_limit = overrun && slot.limit.as_mut().is_some_and(|(bucket, _)| bucket.overrun(finished));
        let at_limit = slot.limit.as_ref().filter(|_| over_limit).map(|(_, action)| *action);
        let limited = at_limit.is_some_and(|action| action != LimitAction::Warn);

        let outcome = match result {
            Ok(Ok(())) if limited => Outcome::Limited(None),
            Ok(Ok(())) => Outcome::Done,
            Ok(Err(error)) if limited => Outcome::Limited(Some(error)),
            Ok(Err(error)) if slot.on_error == OnError::Continue => Outcome::Failed(error),
            Ok(Err(error)) => Outcome::Ended(error),
            Err(payload) => {
                panic::pass_on(slot.id, n, payload);
                Outcome::Panicked
            }
        };
        let disabled = outcome.ends_task();
        let settled = match disabled {
            false => set.schedule.settle(task, started, finished),
            true => set.schedule.disable(task, started, finished),
        };
        let exits = match outcome {
            Outcome::Ended(_) => slot.on_error == OnError::Exit,
            Outcome::Limited(Some(_)) if slot.on_error == OnError::Exit => true,
            Outcome::Limited(_) => at_limit == Some(LimitAction::Exit),
            _ => false,
        };
        if exits {
            self.control.fail(slot.id);
        }
        let well = !outcome.is_error();
        // A failed tick may have set some of its values; after a panic none can be trusted.
        if let (true, Some(rows)) = (outcome != Outcome::Panicked, &mut slot.rows) {
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

    /// Between two ticks: takes the set that lies ready, and hands the old one back.
    fn exchange(&mut self) {
        let Some(exchange) = &self.exchange else { return };
        let Ok(mut set) = exchange.incoming.try_recv() else {
            return;
        };
        set.take_over(&mut self.set, self.clock.now());
        std::mem::swap(&mut self.set, &mut set);
        // There is room: one set is under way at a time, and whoever sent it waits for this one, looking in now and then.
        let _ = exchange.outgoing.try_send(set);
    }

    fn close(&mut self, now: Instant, elapsed: Span) -> Report {
        let TaskSet { schedule, slots, counts, .. } = &mut *self.set;
        let id = |position: usize| slots[position].as_ref().map_or(u32::MAX, |slot| slot.id);
        let mut given_up = Vec::new();
        schedule.close(now, |what| given_up.push((id(what.task), what)));
        let with_account = |(position, account): (usize, &Account)| {
            let counts = Counts { ran: account.ran(), skipped: account.skipped(), ..counts[position] };
            (id(position), counts)
        };
        let tasks = schedule.accounts().enumerate().map(with_account).collect();
        Report { tasks, given_up, wakes: self.wakes, spun: self.spun, elapsed }
    }
}
