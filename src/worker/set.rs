//! A worker's tasks, and the exchange of one set of them for another while the worker runs.
//!
//! A cool thread makes the new set, with room for everything. Between two ticks the hot thread moves the accounts of the remaining tasks
//! into it and starts the new tasks at that instant. It allocates nothing and reads no clock. The old set goes back to a thread that may
//! free memory and close files.

use super::flow::Flow;
use super::slot::Slot;
use crate::channels::Counts;
use crate::pacing::{Account, GivenUp, Grid, Overrun, Rate, Schedule, Turn};
use crate::sys::cache::warm;
use crate::time::{Instant, Span};
use crossbeam_channel::{Receiver, Sender};

/// How many ticks ahead a task's state is prefetched: first its entry and slot (5), then the memory behind their pointers (2).
const WARMED_AHEAD: [usize; 2] = [2, 5];

/// The parameters that determine when a task is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The start of its grid of releases: the worker's epoch plus the task's phase.
    pub zero: Instant,
    /// Ticks per second.
    pub rate: Rate,
    /// What happens to debt.
    pub overrun: Overrun,
    /// The task's precedence on its worker.
    pub turn: Turn,
    /// Releases at or after this do not exist.
    pub end: Instant,
}

impl Pace {
    /// An account whose tick 0 is the first release on the task's grid at `now` or later, so that a task that joins keeps its phase
    /// relative to the others.
    fn joining(&self, now: Instant) -> Account {
        Account::new(Grid::aligned(self.zero, now, self.rate), self.overrun, 0, self.end)
    }
}

/// A task of the next set.
pub enum NextTask {
    /// A task of the old set: phase, index, counts and state continue.
    Kept {
        /// Its position in the old set.
        position: usize,
        /// Its new precedence.
        turn: Turn,
        /// Its new links, if they have changed.
        flow: Option<Box<Flow>>,
    },
    /// A task that begins now.
    New(Pace, Box<Slot>),
}

/// The tasks of a worker.
pub struct TaskSet {
    pub(super) schedule: Schedule,
    pub(super) slots: Vec<Option<Box<Slot>>>,
    pub(super) counts: Vec<Counts>, // `ran` is as of the tick that last changed one of the other counts
    next: Vec<NextTask>,
    #[expect(clippy::vec_box, reason = "the hot thread frees no memory, not even that of a box")]
    old_flows: Vec<Box<Flow>>, // of tasks that continue; dropped with this set, on another thread
    ended: Instant, // when another set took over
}

impl TaskSet {
    /// A worker's first set: slots in the order of the schedule's accounts.
    pub fn starting(schedule: Schedule, slots: Vec<Slot>) -> Self {
        let counts = vec![Counts::default(); slots.len()];
        let show = |(account, slot): (&Account, &Slot)| show_beginning(slot, account);
        schedule.accounts().zip(&slots).for_each(show);
        let slots = slots.into_iter().map(|slot| Some(Box::new(slot))).collect();
        Self { schedule, slots, counts, next: Vec::new(), old_flows: Vec::new(), ended: Instant::ZERO }
    }

    /// A set to exchange for a running one.
    pub fn to_exchange(next: Vec<NextTask>) -> Self {
        Self {
            schedule: Schedule::with_room_for(next.len()),
            slots: Vec::with_capacity(next.len()),
            counts: Vec::with_capacity(next.len()),
            old_flows: Vec::with_capacity(next.len()),
            next,
            ended: Instant::ZERO,
        }
    }

    /// Takes over from `old` at `now`, between two ticks. Tasks that are not kept stay in `old`.
    pub(super) fn take_over(&mut self, old: &mut Self, now: Instant) {
        old.ended = now;
        for task in &mut self.next {
            let taken = NextTask::Kept { position: usize::MAX, turn: Span::ZERO.into(), flow: None };
            match std::mem::replace(task, taken) {
                NextTask::Kept { position, turn, flow } => {
                    self.schedule.adopt(&old.schedule, position, turn);
                    let mut slot = old.slots[position].take();
                    if let (Some(slot), Some(flow)) = (&mut slot, flow) {
                        self.old_flows.extend(slot.link(flow));
                    }
                    self.slots.push(slot);
                    self.counts.push(old.counts[position]);
                }
                NextTask::New(pace, slot) => {
                    let account = pace.joining(now);
                    show_beginning(&slot, &account);
                    self.schedule.add(account, pace.turn);
                    self.slots.push(Some(slot));
                    self.counts.push(Counts::default());
                }
            }
        }
    }

    /// Prefetches memory of the next ticks while the thread does something else: first a task's entry and slot, later the memory behind
    /// their pointers.
    pub(super) fn warm_following(&self) {
        let [reached, kept] = WARMED_AHEAD.map(|others| self.schedule.coming(others));
        if let Some(task) = reached {
            self.warm_reached(task);
        }
        if let Some(task) = kept {
            self.warm_kept(task);
        }
    }

    /// Prefetches a task's schedule entry and slot.
    pub(super) fn warm_kept(&self, task: usize) {
        warm(self.schedule.kept_of(task));
        if let Some(slot) = &self.slots[task] {
            // One line each; the rest is needed only when something goes wrong.
            warm(&slot.id);
            warm(&slot.values);
        }
    }

    /// Prefetches the memory behind a task's pointers.
    pub(super) fn warm_reached(&self, task: usize) {
        if let Some(slot) = &self.slots[task] {
            warm(&*slot.task);
            warm(slot.live.written_each_tick());
            warm(&*slot.values);
        }
    }

    /// Publishes the position of the grids after a step of the clock. Until then each task shows its previous next release.
    pub(super) fn show_step(&mut self) {
        let Self { schedule, slots, counts, .. } = self;
        for (position, account) in schedule.accounts().enumerate() {
            let Some(slot) = &slots[position] else { continue };
            let counts = &mut counts[position];
            counts.ran = account.ran();
            // No tick reports releases that came up after the task was disabled.
            let passed = if counts.disabled { account.skipped() - counts.skipped } else { 0 };
            if !counts.disabled {
                counts.skipped = account.skipped();
            }
            slot.live.step(counts, account.next().map(|(_, release)| release), account.end(), passed);
        }
    }

    /// The final counts of the tasks that were not kept, once another set has taken over.
    pub fn ended(&mut self) -> Ended {
        self.close(self.ended)
    }

    /// Gives up the remaining releases at `now`. Returns the final counts of the tasks in the set.
    pub(super) fn close(&mut self, now: Instant) -> Ended {
        let Self { schedule, slots, counts, .. } = self;
        let id = |position: usize| slots[position].as_ref().map(|slot| slot.id);
        let mut ended = Ended::default();
        schedule.close(now, |given_up| ended.given_up.extend(id(given_up.task).map(|id| (id, given_up))));
        for (position, account) in schedule.accounts().enumerate() {
            let counts = Counts { ran: account.ran(), skipped: account.skipped(), ..counts[position] };
            if let Some(slot) = &slots[position] {
                slot.live.store(&counts, None); // nothing is due any more
                ended.tasks.push((slot.id, counts));
            }
        }
        ended
    }
}

/// The hot end of the exchange of task sets.
#[derive(Debug)]
pub struct Exchange {
    /// Delivers the new set, once [`Control`] announces it.
    pub incoming: Receiver<Box<TaskSet>>,
    /// Takes the old set.
    pub outgoing: Sender<Box<TaskSet>>,
}

fn show_beginning(slot: &Slot, account: &Account) {
    slot.live.begins(account.next().map(|(_, release)| release), account.end());
}

/// The final counts of tasks, with their numbers.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// In the order of the set.
    pub tasks: Vec<(u32, Counts)>,
    /// Releases that no record reports.
    pub given_up: Vec<(u32, GivenUp)>,
}
