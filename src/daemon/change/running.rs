//! The running workers, each with its configuration and tasks. Owned by main; nothing here blocks.

use super::grants;
use crate::channels::LiveCounts;
use crate::config::{ClockKind, Scheduling, WorkerConfig};
use crate::daemon::plan::{self, Epoch, TaskTerms, Window};
use crate::daemon::watch::clock::{ClockStep, ClockWatch};
use crate::daemon::watch::meter::Meter;
use crate::daemon::watch::stall::{Stall, StallLooks, Streak, Watch};
use crate::metrics::Progress;
use crate::pacing::Overrun;
use crate::sys::clock::KernelClock;
use crate::sys::thread::{self, Bandwidth};
use crate::time::{Clock, Instant, NANOS_PER_SECOND, Span};
use crate::worker::{Activity, Ended, Flow, Granted, NextTask, Report, Slot, TaskSet, Worker, WorkerEnd};
use std::collections::HashMap;
use std::sync::Arc;
use tracing::debug;

/// Time from starting a worker to its first release: enough for the worker to be asleep by then.
pub(super) const LEAD: Span = Span::from_millis(5);

/// A task that runs.
#[derive(Debug)]
pub(crate) struct RunningTask {
    /// Its number; never reused.
    pub(crate) id: u32,
    /// Its index in the configuration.
    pub(crate) index: usize,
    pub(crate) terms: TaskTerms,
    /// Its worker's counts.
    live: Arc<LiveCounts>,
}

impl RunningTask {
    /// Ticks it has run.
    pub(crate) fn ran(&self) -> u64 {
        self.live.read().counts.ran
    }

    /// Due releases at `now` on its worker's clock and their outcome, computed without the metrics thread.
    pub(crate) fn progress(&self, now: Instant) -> Progress {
        let TaskTerms { rate, turn, overrun, .. } = &self.terms;
        Progress::of(&self.live.read(), *rate, turn.deadline(), *overrun == Overrun::Delay, now)
    }
}

/// A task that is to run: newly built, or already running.
pub(crate) struct WantedTask {
    /// Its index in the configuration.
    pub(crate) index: usize,
    pub(crate) terms: TaskTerms,
    /// `None`: the task of this name continues.
    pub(crate) slot: Option<Slot>,
    /// New links for a task that continues, if its links change.
    pub(crate) flow: Option<Box<Flow>>,
}

/// A worker's thread that is set up and waits for its tasks.
pub(crate) struct WaitingWorker {
    /// Its number; never reused.
    pub(crate) number: usize,
    pub(crate) worker: Worker,
    pub(crate) granted: Granted,
}

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) config: WorkerConfig,
    pub(crate) worker: Worker,
    /// Its number in the metrics.
    pub(crate) number: usize,
    pub(crate) granted: Granted,
    /// Its tasks in the order of declaration, as in its task set.
    pub(crate) tasks: Vec<RunningTask>,
    /// On the monotonic clock; `None`: it has not begun.
    pub(crate) began: Option<Instant>,
    pub(crate) watch: Watch,
    pub(crate) streak: Streak,
    /// Its clock, once it has begun, if that clock can be stepped.
    pub(crate) clock: Option<ClockWatch>,
    pub(crate) meter: Meter,
    pub(crate) end: Option<WorkerEnd>,
    counts_taken: bool,                   // the final counts
    next_tasks: Option<Vec<RunningTask>>, // of the set handed over but not yet taken
    slots: Vec<Slot>,                     // of its tasks, until it begins
    asked_again: bool,                    // its policy was requested again
    epoch: Epoch,
    last: Instant, // no releases at or after this; on its clock
}

impl Running {
    /// A worker that is to begin with these tasks.
    pub(crate) fn new(config: WorkerConfig, waiting: WaitingWorker, wanted: Vec<WantedTask>) -> Self {
        let WaitingWorker { number, worker, granted } = waiting;
        let mut slots = Vec::with_capacity(wanted.len());
        let mut tasks = Vec::with_capacity(wanted.len());
        for WantedTask { index, terms, slot, .. } in wanted {
            let Some(slot) = slot else { unreachable!("a new worker's tasks are new") };
            tasks.push(RunningTask { id: slot.id, index, terms, live: slot.live.clone() });
            slots.push(slot);
        }
        Self {
            config,
            worker,
            number,
            granted,
            tasks,
            began: None,
            watch: Watch::default(),
            streak: Streak::default(),
            clock: None,
            meter: Meter::default(),
            end: None,
            counts_taken: false,
            next_tasks: None,
            slots,
            asked_again: false,
            epoch: Epoch::At(Instant::ZERO),
            last: Instant::MAX,
        }
    }

    /// Starts the worker. Its first releases are at `epoch` of the monotonic clock, or on another clock at the next whole second that
    /// leaves time to start. No release comes `length` after that or later.
    pub(crate) fn begin(&mut self, epoch: Instant, length: Option<Span>) {
        self.began = Some(epoch);
        let (worker, count) = (&self.config.name, self.tasks.len());
        debug!(worker, "{worker}: begins with {count} tasks");
        self.epoch = match self.config.clock {
            ClockKind::Monotonic => Epoch::At(epoch),
            // The next whole second that leaves time to start, so that machines that start in the same second agree on tick 0.
            kind @ (ClockKind::Tai | ClockKind::Realtime) => {
                let offset = self.clock.insert(ClockWatch::new(plan::clock(kind))).offset;
                self.worker.set_offset(offset);
                let second = i128::from(NANOS_PER_SECOND);
                let soon = (KernelClock::monotonic().now() + LEAD + offset).nanos();
                Epoch::Aligned(Instant::from_nanos((soon + second - 1).div_euclid(second) * second))
            }
        };
        self.last = length.map_or(Instant::MAX, |length| self.epoch.start() + length);
        let tasks = self.tasks.iter().map(|task| &task.terms);
        let schedule = plan::schedule(tasks, self.epoch, Window { first_tick: 0, length });
        self.worker.start(TaskSet::starting(schedule, std::mem::take(&mut self.slots)), epoch);
    }

    /// Hands over the worker's new tasks if they differ from the current ones. Tasks that continue keep everything; the others begin at
    /// their next release on the grid.
    pub(crate) fn exchange(&mut self, config: WorkerConfig, wanted: Vec<WantedTask>) {
        self.config = config;
        let mut tasks = Vec::with_capacity(wanted.len());
        let mut next = Vec::with_capacity(wanted.len());
        let mut moved = wanted.len() != self.tasks.len();
        let positions: HashMap<&str, usize> =
            self.tasks.iter().enumerate().map(|(position, task)| (task.terms.name.as_str(), position)).collect();
        for (position, WantedTask { index, terms, slot, flow }) in wanted.into_iter().enumerate() {
            let (id, live) = match slot {
                Some(slot) => {
                    let known = (slot.id, slot.live.clone());
                    next.push(NextTask::New(self.epoch.pace(&terms, self.last), Box::new(slot)));
                    moved = true;
                    known
                }
                None => {
                    let Some(&kept) = positions.get(terms.name.as_str()) else { unreachable!("it runs already") };
                    moved |= kept != position || flow.is_some() || terms.turn != self.tasks[kept].terms.turn;
                    next.push(NextTask::Kept { position: kept, turn: terms.turn, flow });
                    (self.tasks[kept].id, self.tasks[kept].live.clone())
                }
            };
            tasks.push(RunningTask { id, index, terms, live });
        }
        let (worker, count) = (&self.config.name, tasks.len());
        if moved {
            debug!(worker, "{worker}: handing over a new set of {count} tasks");
            self.worker.exchange(TaskSet::to_exchange(next));
            self.next_tasks = Some(tasks);
        } else {
            self.tasks = tasks;
        }
    }

    /// The bandwidth that its thread gives back when it ends.
    pub(crate) fn bandwidth(&self) -> Bandwidth {
        match self.config.scheduling {
            Scheduling::Deadline { runtime, period } if self.granted.policy == "deadline" => {
                Bandwidth::of(runtime, period)
            }
            _ => Bandwidth::default(),
        }
    }

    /// Whether its policy is still to be granted. Call this once the threads that give back bandwidth have ended: the first call asks the
    /// kernel, for up to `patience`. Another program may have taken the bandwidth; see [`must_not_run`](Self::must_not_run).
    pub(super) fn is_awaiting_policy(&mut self, patience: Span) -> bool {
        if self.granted.awaited == Bandwidth::default() {
            return false;
        }
        if !std::mem::replace(&mut self.asked_again, true) {
            self.worker.promote(patience);
        }
        let Some(mut granted) = self.worker.promoted() else { return !self.worker.is_finished() };
        if grants::lacks_required(&self.config, &granted).is_none() {
            grants::report_refused(std::iter::once((self.config.name.as_str(), &mut granted)), None);
            grants::report(&self.config.name, self.worker.id(), &granted);
        }
        let earlier = std::mem::replace(&mut self.granted, granted);
        self.granted.refused.extend(earlier.refused);
        false
    }

    /// Why it must not begin: it requires a policy that it was not granted.
    pub(super) fn must_not_run(&self) -> Option<String> {
        grants::lacks_required(&self.config, &self.granted).filter(|_| self.began.is_none())
    }

    /// The old set, once the worker has taken the new one. From then on `tasks` are the new ones.
    pub(super) fn exchanged(&mut self) -> Option<Box<TaskSet>> {
        self.next_tasks.as_ref()?;
        let old = self.worker.exchanged()?;
        self.tasks = self.next_tasks.take()?;
        let worker = &self.config.name;
        debug!(worker, "{worker}: took its new set; the old one is closed");
        Some(old)
    }

    /// Whether it has been handed a new set and can still take it.
    pub(super) fn is_exchanging(&self) -> bool {
        self.next_tasks.is_some() && !self.worker.is_finished()
    }

    /// Its current tasks and those of a set it was handed: the numbers that the recorder and the metrics know.
    pub(super) fn known_tasks(&self) -> impl Iterator<Item = &RunningTask> {
        self.tasks.iter().chain(self.next_tasks.iter().flatten())
    }

    /// Tells the worker its new clock offset after a step or a suspension, as of `now` on the monotonic clock. Returns a step to report.
    pub(crate) fn follow_clock(&mut self, now: Instant) -> Option<ClockStep> {
        let clock = self.clock.as_mut()?;
        let before = clock.offset;
        if clock.look(now) {
            self.worker.set_offset(clock.offset);
            // Setting a clock back does not prolong the run; see `Account::step`.
            if self.last < Instant::MAX {
                self.last = self.last + (clock.offset - before).min(Span::ZERO);
            }
        }
        clock.report(now)
    }

    /// The running task's number, its tick, and how long that tick has run; `None`: no tick runs.
    pub(crate) fn running_tick(&self) -> Option<(u32, u64, Span)> {
        match self.worker.doing().now {
            Activity::Runs { task, n, since } if !self.worker.is_finished() => {
                Some((task, n, KernelClock::monotonic().now() - since))
            }
            _ => None,
        }
    }

    /// The message that a tick of this task has not returned for too long.
    pub(crate) fn not_returned(&self, (task, n, lasting): (u32, u64, Span)) -> String {
        format!("tick {n} of task {} has not returned for {lasting}", self.task_name(task))
    }

    /// Why it does not advance, if it has stalled for long enough to show.
    pub(crate) fn stall(&self, StallLooks { watched, patience }: StallLooks) -> Option<Stall> {
        if self.began.is_none() || self.worker.is_finished() {
            return None;
        }
        let deadline = |id| self.deadline_of(id).map_or(patience, |deadline| deadline.min(patience));
        self.watch.lasting(KernelClock::monotonic().now(), self.worker.doing(), watched, deadline)
    }

    /// Time since its run reached its length, on its clock; negative before that.
    pub(super) fn past_end(&self, now: Instant) -> Span {
        now + self.clock.as_ref().map_or(Span::ZERO, |clock| clock.offset) - self.last
    }

    /// How long the end of the run has waited at `now` for this worker without it advancing. Zero or less: it has ended, or it advances.
    pub(crate) fn overdue(&self, now: Instant) -> Span {
        if self.began.is_none() || self.worker.is_finished() {
            return Span::ZERO;
        }
        self.past_end(now).min(self.watch.still_for(now, self.worker.doing()))
    }

    /// The deadline of the task with this number.
    pub(crate) fn deadline_of(&self, id: u32) -> Option<Span> {
        self.known_tasks().find(|task| task.id == id).map(|task| task.terms.turn.deadline())
    }

    /// Reads its processor time, if a reading is due.
    pub(crate) fn measure(&mut self, now: Instant) {
        // The kernel may reuse the number of a thread that has ended.
        if self.began.is_some()
            && self.meter.is_due(now)
            && !self.worker.is_finished()
            && let Some(cpu_time) = thread::cpu_time_of(self.worker.id())
        {
            self.meter.enter(now, cpu_time, self.worker.rested().1);
        }
    }

    /// The name of its task with this number.
    pub(crate) fn task_name(&self, id: u32) -> &str {
        self.known_tasks().find(|task| task.id == id).map_or("?", |task| &task.terms.name)
    }

    /// Whether its thread has ended. The first time, also fetches how it ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.end.is_none() {
            self.end = self.worker.take_end();
        }
        self.end.is_some()
    }

    /// The final counts of its tasks, only at the first call after it has ended.
    pub(crate) fn final_counts(&mut self) -> Option<Ended> {
        let Some(WorkerEnd::Finished(finished)) = &self.end else { return None };
        let first = !std::mem::replace(&mut self.counts_taken, true);
        let Report { tasks, given_up, .. } = &finished.report;
        first.then(|| Ended { tasks: tasks.clone(), given_up: given_up.clone() })
    }
}
