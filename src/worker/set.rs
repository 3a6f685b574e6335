//! A worker's tasks, and the exchange of one set of them for another while the worker runs.
//!
//! The new set is made on a cool thread, with room for everything; the hot thread fills in, between two ticks, what only
//! it knows: the accounts of the tasks that stay, and the instant at which the others begin. That is moving and
//! arithmetic: it allocates nothing and reads no clock. The old set goes back to be dropped where dropping is allowed.

use super::run::{Counts, Slot};
use crate::pacing::{Account, GivenUp, Grid, Overrun, Rate, Schedule};
use crate::time::{Instant, Span};

/// What decides when a task is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Where the grid of its releases begins: the worker's epoch and the task's phase.
    pub zero: Instant,
    /// Ticks per second.
    pub rate: Rate,
    /// What happens to debt.
    pub overrun: Overrun,
    /// Latest allowed finish, relative to the release.
    pub deadline: Span,
    /// Releases at or after this do not exist.
    pub end: Instant,
}

impl Pace {
    /// The account of a task whose tick 0 is the first release on its grid at `now` or later: a task that joins keeps
    /// its phase to the others.
    fn joining(&self, now: Instant) -> Account {
        Account::new(Grid::aligned(self.zero, now, self.rate), self.overrun, 0, self.end)
    }
}

/// One task of a new set.
pub enum Seat {
    /// The task at this position of the old set: phase, index, counts and state go on.
    Kept(usize),
    /// A task that begins now.
    New(Pace, Box<Slot>),
}

/// The tasks of a worker.
pub struct TaskSet {
    pub(super) schedule: Schedule,
    pub(super) slots: Vec<Option<Box<Slot>>>,
    pub(super) counts: Vec<Counts>,
    seats: Vec<Seat>,
    ended: Instant, // when another set took over
}

impl TaskSet {
    /// The set a worker starts with: slots in the order of the schedule's accounts.
    pub fn starting(schedule: Schedule, slots: Vec<Slot>) -> Self {
        let counts = vec![Counts::default(); slots.len()];
        let slots = slots.into_iter().map(|slot| Some(Box::new(slot))).collect();
        Self { schedule, slots, counts, seats: Vec::new(), ended: Instant::ZERO }
    }

    /// A set to be exchanged for a running one.
    pub fn to_exchange(seats: Vec<Seat>) -> Self {
        Self {
            schedule: Schedule::with_room_for(seats.len()),
            slots: Vec::with_capacity(seats.len()),
            counts: Vec::with_capacity(seats.len()),
            seats,
            ended: Instant::ZERO,
        }
    }

    /// Takes over from `old` at `now`, between two ticks. What is left in `old` is what was not kept.
    pub(super) fn take_over(&mut self, old: &mut Self, now: Instant) {
        old.ended = now;
        for seat in &mut self.seats {
            match std::mem::replace(seat, Seat::Kept(usize::MAX)) {
                Seat::Kept(position) => {
                    self.schedule.adopt(&old.schedule, position);
                    self.slots.push(old.slots[position].take());
                    self.counts.push(old.counts[position]);
                }
                Seat::New(pace, slot) => {
                    self.schedule.add(pace.joining(now), pace.deadline);
                    self.slots.push(Some(slot));
                    self.counts.push(Counts::default());
                }
            }
        }
    }

    /// What the tasks that were not kept had come to when they ended.
    pub fn left(&mut self) -> Left {
        let id = |slots: &[Option<Box<Slot>>], position: usize| slots[position].as_ref().map(|slot| slot.id);
        let mut left = Left::default();
        self.schedule.close(self.ended, |given_up| {
            left.given_up.extend(id(&self.slots, given_up.task).map(|id| (id, given_up)));
        });
        for (position, account) in self.schedule.accounts().enumerate() {
            let counts = Counts { ran: account.ran(), skipped: account.skipped(), ..self.counts[position] };
            left.tasks.extend(id(&self.slots, position).map(|id| (id, counts)));
        }
        left
    }
}

/// What tasks that were not kept had come to, by their numbers.
#[derive(Debug, Default)]
pub struct Left {
    /// What each had come to.
    pub tasks: Vec<(u32, Counts)>,
    /// Releases that no record tells of.
    pub given_up: Vec<(u32, GivenUp)>,
}
