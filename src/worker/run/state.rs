//! What a loop on the virtual clock will do from here on, as far as the loop itself decides it. For the simulation, which
//! compares it at two instants; allocates.

use super::Runner;
use crate::channels::TickSink;
use crate::pacing::Ahead;
use crate::time::{Clock, Instant, Span};

/// All that decides how the loop goes on, but for the grids of its tasks, its clock and what it has learned about sleeps. Times
/// are relative to an instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoopState {
    now: Span,
    tasks: (bool, Vec<Ahead>),
    oversleep: Option<Span>,
    awake: Option<(Span, Option<(Span, bool)>)>, // since when, and since when evidence counts
}

impl<C: Clock, S: TickSink> Runner<C, S> {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Sleeps made, and the time spent in spin tails.
    pub(crate) fn rested(&self) -> (u64, Span) {
        (self.wakes, self.spun)
    }

    /// Ticks that each task has run.
    pub(crate) fn ran(&self) -> impl Iterator<Item = u64> {
        self.set.schedule.accounts().map(|account| account.ran())
    }

    /// How it goes on from `at`; since when it was awake counts only if `tails` are always the same.
    pub(crate) fn state(&self, at: Instant, tails: bool) -> LoopState {
        let witness = self.witness.as_ref().map(|witness| witness.state(at));
        LoopState {
            now: self.clock.now() - at,
            tasks: self.set.schedule.ahead(at),
            oversleep: self.oversleep,
            awake: tails.then_some((self.woke - at, witness)),
        }
    }
}
