//! The virtual clock: it advances when something waits on it, with oversleeps on demand. The worker's loop runs on it
//! unchanged, in `hertzd simulate` and in tests, an hour in a second.
//!
//! No real clock is read and nothing blocks.

use crate::channels::{Evidence, EvidenceSource};
use crate::task::{Task, Tick, TickError};
use crate::time::{Clock, Instant, Span, Wake};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct State {
    now: Instant,
    oversleeps: Vec<Span>,
    sleeps: usize,
}

/// A clock that advances only when code sleeps, spins or works on it. Clones show the same time.
#[derive(Clone, Debug)]
pub struct SimClock(Arc<Mutex<State>>);

impl SimClock {
    /// A clock that shows `now`. Each sleep ends late by the next of `oversleeps`, repeated in a cycle; if there are none,
    /// sleeps end on time.
    pub fn new(now: Instant, oversleeps: Vec<Span>) -> Self {
        Self(Arc::new(Mutex::new(State { now, oversleeps, sleeps: 0 })))
    }

    /// Advances by `span`; a negative one steps the clock back.
    pub fn advance(&self, span: Span) {
        let mut state = self.state();
        state.now = state.now + span;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        self.state().now
    }

    fn sleep_until(&self, at: Instant) -> Wake {
        let mut state = self.state();
        let late = match state.oversleeps.len() {
            0 => Span::ZERO,
            count => state.oversleeps[state.sleeps % count],
        };
        state.sleeps += 1;
        state.now = state.now.max(at + late);
        Wake::Reached
    }

    fn spin_until(&self, at: Instant) -> Instant {
        let mut state = self.state();
        state.now = state.now.max(at);
        state.now
    }
}

/// The evidence of a thread on the virtual clock: whenever it is awake it has the processor.
#[derive(Clone, Copy, Debug)]
pub struct NeverPreempted;

impl EvidenceSource for NeverPreempted {
    fn mark(&mut self, _: Span, _: bool) {}

    fn take(&mut self, awake: Span, _: bool, missed: bool) -> Evidence {
        Evidence { awake, cpu: awake, run_queue: missed.then_some(Span::ZERO), ..Evidence::default() }
    }
}

/// Replaces a task on the virtual clock: its ticks take the scripted time and do nothing.
#[derive(Debug)]
pub struct Scripted {
    clock: SimClock,
    run: Vec<Span>,
    ticks: usize,
}

impl Scripted {
    /// A task whose ticks take the times in `run`, repeated in a cycle; if it is empty, no time.
    pub fn new(clock: SimClock, run: Vec<Span>) -> Self {
        Self { clock, run, ticks: 0 }
    }
}

impl Task for Scripted {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        if !self.run.is_empty() {
            self.clock.advance(self.run[self.ticks % self.run.len()]);
            self.ticks += 1;
        }
        Ok(())
    }
}
