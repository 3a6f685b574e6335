//! The virtual clock: it advances when something waits on it, with oversleeps on demand. `hertzd simulate` and the tests run the worker's
//! unchanged loop on it, an hour in a second.
//!
//! No real clock is read. Nothing blocks, except that clocks which advance in one order wait for their turns.

mod turns;

pub(crate) use turns::Leaving;

use crate::channels::{Evidence, EvidenceSource};
use crate::task::{Task, Tick, TickError};
use crate::time::{Clock, Instant, Span, Wake};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Recorded spans in time order. Each comes with its time in nanoseconds since the recording began.
pub(crate) type Recorded = Vec<(i128, Span)>;

/// The span in force at `at`: the last one at or before it, or else the first.
fn in_force(recorded: &Recorded, at: i128) -> Span {
    let after = recorded.partition_point(|(since, _)| *since <= at);
    recorded.get(after.saturating_sub(1)).map_or(Span::ZERO, |(_, span)| *span)
}

/// The span nearest to `at`; of two equally near, the earlier.
fn nearest(recorded: &Recorded, at: i128) -> Span {
    let after = recorded.partition_point(|(since, _)| *since < at);
    let around = recorded.get(after.saturating_sub(1)..).unwrap_or_default().iter().take(2);
    around.min_by_key(|(since, _)| since.abs_diff(at)).map_or(Span::ZERO, |(_, span)| *span)
}

/// How late sleeps end.
#[derive(Clone, Debug)]
pub(crate) enum Oversleeps {
    /// Late by the next of these spans, cycled. If the list is empty, sleeps end on time.
    Cycled(Vec<Span>),
    /// Late by as much as the recorded sleep that was due nearest to this one. Recorded times count from [`Instant::ZERO`].
    Recorded(Recorded),
}

#[derive(Debug)]
struct State {
    now: Instant,
    oversleeps: Oversleeps,
    sleeps: usize,
}

/// A clock that advances only when code sleeps, spins or works on it. Clones show the same time.
#[derive(Clone, Debug)]
pub struct SimClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    place: OnceLock<turns::Place>, // among clocks that advance in one order of time
}

impl SimClock {
    /// A clock that shows `now`. Each sleep ends late by the next of `oversleeps`, repeated in a cycle. If the list is empty, sleeps end on
    /// time.
    pub fn new(now: Instant, oversleeps: Vec<Span>) -> Self {
        Self::playing(now, Oversleeps::Cycled(oversleeps))
    }

    /// A clock that shows `now` and whose sleeps end late as given by `oversleeps`.
    pub(crate) fn playing(now: Instant, oversleeps: Oversleeps) -> Self {
        let state = Mutex::new(State { now, oversleeps, sleeps: 0 });
        Self(Arc::new(Shared { state, place: OnceLock::new() }))
    }

    /// Makes these clocks advance in one order of time, each on its own thread. A thread waits for its turn whenever its clock advances. It
    /// first waits in [`leaving`](Self::leaving), and takes part until the value returned there is dropped.
    pub(crate) fn in_one_order(clocks: &[Self]) {
        let places = turns::places(clocks.iter().map(Self::now).collect());
        for (clock, place) in clocks.iter().zip(places) {
            // The first place that a clock gets is final.
            let _ = clock.0.place.set(place);
        }
    }

    /// Waits for the clock's first turn. The other clocks wait for this one until the result is dropped.
    pub(crate) fn leaving(&self) -> Option<Leaving> {
        let leaving = self.0.place.get().map(turns::Place::leaving);
        self.advanced(self.now());
        leaving
    }

    fn advanced(&self, now: Instant) {
        if let Some(place) = self.0.place.get() {
            place.reached(now);
        }
    }

    /// Advances by `span`; a negative one steps the clock back.
    pub fn advance(&self, span: Span) {
        let now = {
            let mut state = self.state();
            state.now = state.now + span;
            state.now
        };
        self.advanced(now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        self.state().now
    }

    fn sleep_until(&self, at: Instant) -> Wake {
        let mut state = self.state();
        let late = match &state.oversleeps {
            Oversleeps::Cycled(spans) if spans.is_empty() => Span::ZERO,
            Oversleeps::Cycled(spans) => spans[state.sleeps % spans.len()],
            Oversleeps::Recorded(recorded) => nearest(recorded, at.nanos()),
        };
        state.sleeps += 1;
        state.now = state.now.max(at + late);
        let now = state.now;
        drop(state);
        self.advanced(now);
        Wake::Reached
    }

    fn spin_until(&self, at: Instant) -> Instant {
        let now = {
            let mut state = self.state();
            state.now = state.now.max(at);
            state.now
        };
        self.advanced(now);
        now
    }
}

/// The evidence of a thread on the virtual clock: whenever it is awake, it has the processor.
#[derive(Clone, Copy, Debug)]
pub struct NeverPreempted;

impl EvidenceSource for NeverPreempted {
    fn mark(&mut self, _: Span, _: bool) {}

    fn take(&mut self, awake: Span, _: bool, missed: bool) -> Evidence {
        Evidence { awake, cpu: awake, run_queue: missed.then_some(Span::ZERO), ..Evidence::default() }
    }
}

/// How long ticks take.
#[derive(Clone, Debug)]
pub(crate) enum Runs {
    /// The next of these spans, cycled. If the list is empty, ticks take no time.
    Cycled(Vec<Span>),
    /// As long as the recorded tick in force. Its time counts from the given instant, the release of tick 0.
    Recorded(Instant, Recorded),
}

/// Replaces a task on the virtual clock: its ticks take the scripted time and do nothing.
#[derive(Debug)]
pub(crate) struct Scripted {
    clock: SimClock,
    runs: Runs,
    ticks: usize,
}

impl Scripted {
    /// A task whose ticks take the times in `run`, repeated in a cycle. If the list is empty, ticks take no time.
    #[cfg(test)]
    pub(crate) fn new(clock: SimClock, run: Vec<Span>) -> Self {
        Self::playing(clock, Runs::Cycled(run))
    }

    /// A task whose ticks take as long as given by `runs`.
    pub(crate) fn playing(clock: SimClock, runs: Runs) -> Self {
        Self { clock, runs, ticks: 0 }
    }

    /// The time on the task's clock.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl Task for Scripted {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        let run = match &self.runs {
            Runs::Cycled(spans) if spans.is_empty() => return Ok(()),
            Runs::Cycled(spans) => spans[self.ticks % spans.len()],
            Runs::Recorded(zero, recorded) => in_force(recorded, tick.release.nanos() - zero.nanos()),
        };
        self.ticks += 1;
        self.clock.advance(run);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(micros: i64) -> Span {
        Span::from_micros(micros)
    }

    #[test]
    fn a_recording_is_played_by_its_times_not_in_its_order() {
        let recorded = vec![(0, us(1)), (1_000, us(2)), (3_000, us(3))];
        let at =
            |instants: [i128; 6], of: fn(&Recorded, i128) -> Span| instants.map(|at| of(&recorded, at).nanos() / 1_000);
        assert_eq!(at([-5, 0, 999, 1_000, 2_999, 9_000], in_force), [1, 1, 1, 2, 2, 3]);
        assert_eq!(at([-5, 500, 501, 1_999, 2_000, 2_001], nearest), [1, 1, 2, 2, 2, 3]);
        assert_eq!((in_force(&Vec::new(), 7), nearest(&Vec::new(), 7)), (Span::ZERO, Span::ZERO));
    }

    #[test]
    fn a_recorded_sleep_ends_late_at_its_own_time() {
        let second = 1_000_000_000;
        let recorded = vec![(second, us(10)), (2 * second, us(5_000)), (3 * second, us(20))];
        let clock = SimClock::playing(Instant::ZERO, Oversleeps::Recorded(recorded));
        for (asked, woke) in [(1_900_000, 1_905_000), (2_600_000, 2_600_020)] {
            clock.sleep_until(Instant::ZERO + us(asked));
            assert_eq!(clock.now(), Instant::ZERO + us(woke));
        }
    }
}
