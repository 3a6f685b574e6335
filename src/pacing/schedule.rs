//! Many rates on one thread: which task runs next, or how long to rest.
//!
//! Among the due tasks, the one with the earliest deadline runs. Ties go first to a task that has had to give up releases on two occasions
//! while it waited, then to producers before their consumers, then to the task whose last run is longest ago (so that overload starves no
//! task), then to the one declared first. Tasks are never interrupted. A step costs at most log(tasks). Time is an argument; nothing blocks,
//! and nothing allocates after construction.

#[cfg(test)]
mod tests;

use super::credit::{Account, Settled};
use super::queue::Queue;
use crate::time::{Instant, Span};

/// A tick to run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// Position of the task in the order of declaration.
    pub task: usize,
    /// Index of the tick.
    pub n: u64,
    /// The instant it was meant to start; at or before `now`.
    pub release: Instant,
    /// Releases given up since the task's previous tick: those given up when that tick finished, plus `missed`.
    pub skipped: u64,
    /// Releases given up just now, because something else delayed the worker.
    pub missed: u64,
    /// The largest step of the clock since the task's previous tick; zero if there was none.
    pub stepped: Span,
    /// How much lateness clock steps added to this release, or to the oldest release given up since the previous tick.
    pub jumped: Span,
    /// Credit when the task's previous tick finished; negative for debt.
    pub credit: Span,
}

/// What to do next; see [`Schedule::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this tick, then call [`Schedule::settle`].
    Run(Due),
    /// Nothing is due before this instant.
    Rest(Instant),
    /// No release is left.
    Finished,
}

/// A tick prepared before its release; see [`Schedule::prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The result that [`Schedule::next`] would return.
    pub due: Due,
    /// The end (exclusive) of the interval, starting at `due.release`, in which that result holds.
    pub until: Instant,
}

/// Given-up releases that no tick can report; see [`Schedule::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenUp {
    /// Position of the task in the order of declaration.
    pub task: usize,
    /// How many releases were given up.
    pub count: u64,
    /// How late the oldest of them was when it was given up; the others follow one period apart.
    pub oldest: Span,
    /// When they were given up.
    pub at: Instant,
    /// How much lateness clock steps added to the oldest of them.
    pub jumped: Span,
    /// The task had been ended before, so these releases were not late.
    pub disabled: bool,
}

#[derive(Clone, Debug)]
#[repr(align(64))] // an entry spans no more cache lines than it fills
struct Entry {
    account: Account,
    credit: Span,  // when the previous tick finished
    skipped: u64,  // by the previous tick
    missed: u64,   // since then, and not yet reported
    stepped: Span, // since then: the largest step of the clock
    jumped: Span,  // lateness that such steps added to the next release
    late: bool,    // the previous tick ended after the next release
    disabled: bool,
}

/// The precedence of a task on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    own: Span,   // the deadline, relative to the release
    ahead: Span, // the deadline used while the task keeps up: the earliest of its own and its consumers'
    place: u64,  // among equal deadlines, while it keeps up: producers come before consumers
}

/// Bits for the number of ticks that had run when a task last ran: enough for decades at a million a second. The bits above hold its place.
const TURNS: u32 = 50;

/// The place, among equal deadlines, of a task without consumers. Zero is the place of a task that waited too long.
const LAST: u64 = u64::MAX << TURNS;

impl From<Span> for Turn {
    fn from(deadline: Span) -> Self {
        Self { own: deadline, ahead: deadline, place: LAST }
    }
}

impl Turn {
    /// The same turn for a task whose values are read by a task with turn `other`.
    #[must_use]
    pub(crate) fn before(self, other: Self) -> Self {
        let (ahead, place) = other.key();
        let step = 1 << TURNS;
        let (ahead, place) = self.key().min((ahead, (place - step).max(step)));
        Self { ahead, place, ..self }
    }

    /// Its own deadline, relative to the release.
    pub(crate) fn deadline(self) -> Span {
        self.own
    }

    /// The sort key for tasks that keep up and are released together: the least runs first.
    pub(crate) fn key(self) -> (Span, u64) {
        (self.ahead, self.place)
    }

    /// The standing of a task whose last tick, or the one before, ended before its next release. `ran` counts the ticks of all tasks by then.
    fn keeps_up(self, ran: u64) -> Standing {
        Standing { deadline: self.ahead, place: self.place | ran }
    }

    /// The standing of a task whose last two ticks each ended after its next release, so the next tick is not released together with others.
    fn is_late(self, ran: u64) -> Standing {
        Standing { deadline: self.own, place: LAST | ran }
    }

    /// The standing of a task that had to give up releases on two occasions since its last tick, because something else ran while it was
    /// due.
    fn waits(self, ran: u64) -> Standing {
        Standing { deadline: self.own, place: ran }
    }
}

/// Decides which due task runs next: the earliest deadline, then the place, then the last run that is longest ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    deadline: Span, // relative to the release
    place: u64,     // the low bits count the ticks of all tasks when its last one had run
}

impl Standing {
    fn ran(self) -> u64 {
        self.place & !LAST
    }
}

/// The tasks of one worker.
#[derive(Clone, Debug)]
pub struct Schedule {
    entries: Vec<Entry>,
    turns: Vec<Turn>,            // of the entries
    standings: Vec<Standing>,    // one per entry; kept apart because all due tasks are compared before any of them runs
    runs: u64,                   // ticks that have run
    waiting: Queue<()>,          // by release
    ready: Queue<u64>,           // by absolute deadline, then by place and last run
    idle_until: Option<Instant>, // the latest end of a disabled task
    gave_up: bool,               // since the last call of `gave_up`
}

impl Schedule {
    /// A schedule of `tasks` in the order of declaration. Each is an account and a deadline relative to the release.
    pub fn new(tasks: impl IntoIterator<Item = (Account, impl Into<Turn>)>) -> Self {
        let tasks: Vec<_> = tasks.into_iter().collect();
        let mut schedule = Self::with_room_for(tasks.len());
        for (account, turn) in tasks {
            schedule.add(account, turn.into());
        }
        schedule
    }

    /// An empty schedule with room for `tasks` tasks: adding that many allocates nothing.
    pub(crate) fn with_room_for(tasks: usize) -> Self {
        Self {
            entries: Vec::with_capacity(tasks),
            turns: Vec::with_capacity(tasks),
            standings: Vec::with_capacity(tasks),
            runs: 0,
            waiting: Queue::with_room_for(tasks),
            ready: Queue::with_room_for(tasks),
            idle_until: None,
            gave_up: false,
        }
    }

    /// Adds a task after the others.
    pub(crate) fn add(&mut self, account: Account, turn: Turn) {
        let none = Span::ZERO;
        let (credit, stepped, jumped) = (none, none, none);
        self.push(
            Entry { account, credit, skipped: 0, missed: 0, stepped, jumped, late: false, disabled: false },
            turn,
            turn.keeps_up(self.runs),
        );
    }

    /// Adds the task at `position` of another schedule after the others, with a new turn. Its phase, index and counts continue. Must not be
    /// called while one of its ticks is running.
    pub(crate) fn adopt(&mut self, other: &Self, position: usize, turn: Turn) {
        let (before, standing) = (other.turns[position], other.standings[position]);
        let ran = standing.ran();
        let standing = match standing {
            standing if standing == before.keeps_up(ran) => turn.keeps_up(ran),
            standing if standing == before.is_late(ran) => turn.is_late(ran),
            _ => turn.waits(ran),
        };
        self.runs = self.runs.max(ran);
        self.push(other.entries[position].clone(), turn, standing);
    }

    fn push(&mut self, entry: Entry, turn: Turn, standing: Standing) {
        self.entries.push(entry);
        self.turns.push(turn);
        self.standings.push(standing);
        self.wait(self.entries.len() - 1);
    }

    /// Queues a task for its next release.
    fn wait(&mut self, task: usize) {
        let Entry { account, disabled, .. } = &self.entries[task];
        match account.next() {
            Some(_) if *disabled => self.idle_until = self.idle_until.max(Some(account.end())),
            Some((_, release)) => self.waiting.push((release, (), task)),
            None => {}
        }
    }

    /// Marks the task as due since `release`.
    fn ready(&mut self, task: usize, release: Instant) {
        let Standing { deadline, place } = self.standings[task];
        self.ready.push((release + deadline, place, task));
    }

    /// The clock was stepped by `by` and now shows `now`; see [`Account::step`]. Must not be called while a tick is running. Debt from
    /// before the step is forgiven as if the next tick started at that moment.
    pub(crate) fn step(&mut self, by: Span, now: Instant) {
        self.waiting.clear();
        self.ready.clear();
        self.idle_until = None;
        let before = now - by;
        for task in 0..self.entries.len() {
            let entry = &mut self.entries[task];
            entry.missed += if entry.disabled { entry.account.close(before) } else { entry.account.admit(before) };
            let late = |account: &Account, now| account.next().map_or(Span::ZERO, |(_, release)| now - release);
            let late_before = late(&entry.account, before).max(Span::ZERO);
            entry.account.step(by, now);
            entry.jumped += (late(&entry.account, now) - late_before).max(Span::ZERO);
            if by.nanos().unsigned_abs() > entry.stepped.nanos().unsigned_abs() {
                entry.stepped = by;
            }
            self.wait(task);
        }
    }

    /// The next release still to come; `None` if no release is left or a tick is already due.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.waiting.first().filter(|_| self.ready.is_empty()).map(|(release, ..)| release)
    }

    /// What to do at `now`.
    ///
    /// A tick is returned once: run it and call [`settle`](Self::settle). A call that is early or repeated, or whose `now` went back,
    /// returns how long to rest and changes nothing.
    pub fn next(&mut self, now: Instant) -> Next {
        while let Some((release, (), task)) = self.waiting.first() {
            if release > now {
                break;
            }
            self.waiting.pop();
            self.ready(task, release);
        }
        while let Some((.., task)) = self.ready.pop() {
            let entry = &mut self.entries[task];
            let missed = entry.account.admit(now);
            entry.missed += missed;
            self.gave_up |= missed > 0;
            let Some((n, release)) = entry.account.next() else {
                continue;
            };
            if missed > 0 {
                // The task has moved to a later release, so another task may now have the earlier deadline.
                // The first time it keeps its place: one stall of the worker in the middle of a chain must not turn the chain around.
                if entry.missed > missed {
                    let ran = self.standings[task].ran();
                    self.standings[task] = self.turns[task].waits(ran);
                }
                self.ready(task, release);
                continue;
            }
            if release > now {
                // The clock went back between two calls.
                self.waiting.push((release, (), task));
                continue;
            }
            let skipped = entry.skipped + entry.missed;
            let Entry { missed, stepped, jumped, credit, .. } = *entry;
            return Next::Run(Due { task, n, release, skipped, missed, stepped, jumped, credit });
        }
        match self.waiting.first() {
            Some((release, ..)) => Next::Rest(release),
            // The releases of a disabled task still come up, and are skipped.
            None => match self.idle_until {
                Some(until) if now < until => Next::Rest(until),
                _ => Next::Finished,
            },
        }
    }

    /// The task that will probably run after `others` more due tasks; `None` if fewer are due. Used to prefetch.
    pub(crate) fn coming(&self, others: usize) -> Option<usize> {
        self.ready.peek(others)
    }

    /// Whether [`next`](Self::next) gave up releases of any task since the last call of this method.
    pub(crate) fn gave_up(&mut self) -> bool {
        std::mem::take(&mut self.gave_up)
    }

    /// Decides in advance what is due at `release`, the instant up to which [`next`](Self::next) said to rest. The result is the tick that
    /// `next` would return at any instant from `release` up to [`Prepared::until`]. As with `next`, a tick is returned once. `None` if no
    /// tick is due then.
    pub(crate) fn prepare(&mut self, release: Instant) -> Option<Prepared> {
        let Next::Run(due) = self.next(release) else { return None };
        // Another task that is released while this one waits may have an earlier deadline.
        let admitted = self.entries[due.task].account.admitted_until();
        let until = self.waiting.first().map_or(admitted, |(release, ..)| release.min(admitted));
        Some(Prepared { due, until })
    }

    /// Takes back a tick of `task` that was returned but has not begun. The next call decides as if it had not been returned.
    pub(crate) fn hand_back(&mut self, task: usize) {
        if let Some((_, release)) = self.entries[task].account.next() {
            self.waiting.push((release, (), task));
        }
    }

    /// Records the tick of `task` that ran from `started` to `finished`.
    pub fn settle(&mut self, task: usize, started: Instant, finished: Instant) -> Settled {
        self.runs += 1;
        let entry = &mut self.entries[task];
        let settled = entry.account.settle(started, finished);
        entry.credit = settled.credit;
        entry.skipped = settled.skipped;
        (entry.missed, entry.stepped, entry.jumped) = (0, Span::ZERO, Span::ZERO);
        if let Some((_, release)) = entry.account.next() {
            let turn = self.turns[task];
            // Like a stall of the worker, one that falls into a tick must not turn a chain around.
            let was_late = std::mem::replace(&mut entry.late, release < finished);
            let is_late = was_late && entry.late;
            self.standings[task] = if is_late { turn.is_late(self.runs) } else { turn.keeps_up(self.runs) };
            self.waiting.push((release, (), task));
        }
        settled
    }

    /// Records the tick of `task` as [`settle`](Self::settle) does, and disables the task. Its later releases count as
    /// skipped.
    pub(crate) fn disable(&mut self, task: usize, started: Instant, finished: Instant) -> Settled {
        let entry = &mut self.entries[task];
        let settled = entry.account.settle(started, finished);
        (entry.missed, entry.stepped, entry.jumped) = (0, Span::ZERO, Span::ZERO);
        entry.disabled = true;
        if entry.account.next().is_some() {
            self.idle_until = self.idle_until.max(Some(entry.account.end()));
        }
        settled
    }

    /// Ends every task at `now`: gives up releases that have not run and whose slot has passed. Later releases do not exist.
    ///
    /// Calls `given_up` for the releases that no tick has reported.
    pub fn close(&mut self, now: Instant, mut given_up: impl FnMut(GivenUp)) {
        self.waiting.clear();
        self.ready.clear();
        for (task, entry) in self.entries.iter_mut().enumerate() {
            let count = entry.missed + entry.account.close(now);
            if count > 0 {
                let oldest = now - entry.account.oldest_of_last(count);
                let (jumped, disabled) = (entry.jumped, entry.disabled);
                given_up(GivenUp { task, count, oldest, at: now, jumped, disabled });
            }
            entry.missed = 0;
        }
    }

    /// The stored state of the task at `position`, for prefetching.
    pub(crate) fn kept_of(&self, position: usize) -> &impl Sized {
        &self.entries[position]
    }

    /// The account of the task at `position`.
    pub fn account(&self, position: usize) -> &Account {
        &self.entries[position].account
    }

    /// The accounts, in the order of declaration.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.entries.iter().map(|entry| &entry.account)
    }
}
