//! From the running set to the wanted set. A start is a change from nothing.
//!
//! The builder has already done everything that can fail, without touching the running set. Here nothing is refused and nothing waits. Each
//! worker that stays takes its new tasks between two ticks, the others are asked to end, and main polls until all have done so. Then the
//! new workers begin.

use super::assemble::Asides;
use super::builder::Builder;
use super::builder_loop::Held;
use super::diff::{Diff, Sections};
use super::joints::Joints;
use super::prepared::{Prepared, WantedWorker};
use super::running::{LEAD, Running};
use crate::channels::Counts;
use crate::config::Scheduling;
use crate::daemon::disk::flight_thread::FlightThread;
use crate::daemon::disk::recorder_thread::RecorderThread;
use crate::daemon::failure::Failure;
use crate::daemon::metrics::metrics_thread::{MetricsThread, NewWorker};
use crate::daemon::outputs::guard_thread::GuardThread;
use crate::log;
use crate::site::Aside;
use crate::snapshot;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use crate::worker::{Ended, WorkerEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{error, info};

/// Limit for the kernel to free the bandwidth of workers that have ended: their threads need processor time to exit.
const GIVEN_BACK_WITHIN: Span = Span::from_seconds(2);

/// The threads beside the workers.
pub(crate) struct Threads {
    pub(crate) metrics: MetricsThread,
    pub(crate) recorder: RecorderThread,
    pub(crate) flight: FlightThread,
    pub(crate) builder: Builder,
    pub(crate) guard: Arc<GuardThread>,
}

/// The running set; empty at first.
#[derive(Default)]
pub(crate) struct RunningSet {
    /// In the order of declaration.
    pub(crate) workers: Vec<Running>,
    /// Workers that a change ends.
    pub(crate) leaving: Vec<Running>,
    pub(crate) sections: Arc<Sections>,
    /// The links between its tasks: what they take from each other, and give.
    pub(crate) joints: Arc<Joints>,
    asides: Asides,
    /// The files that the configuration was read from.
    pub(crate) files: Vec<PathBuf>,
    /// When the run began, on the monotonic clock; `None`: not yet.
    pub(crate) epoch: Option<Instant>,
    /// Whether its tasks write nothing.
    pub(crate) is_shadow: bool,
    length: Option<Span>, // of the run
    change: Option<UnderWay>,
}

/// A change in progress.
struct UnderWay {
    diff: Diff,
    known: BTreeMap<u32, String>, // all tasks of the old and the new set, by number
    ended: Vec<Ended>,
}

impl RunningSet {
    /// An empty set whose run covers exactly the releases with `r(n) − epoch` below `length`; `None`: all.
    pub(crate) fn new(length: Option<Span>, is_shadow: bool) -> Self {
        Self { length, is_shadow, ..Self::default() }
    }

    /// The bandwidth that each worker gives back when it ends, by name.
    pub(crate) fn held(&self) -> Held {
        self.workers.iter().map(|running| (running.config.name.clone(), running.bandwidth())).collect()
    }

    /// All workers that have a thread.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Running> {
        self.workers.iter().chain(&self.leaving)
    }

    /// Like [`all`](Self::all).
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Running> {
        self.workers.iter_mut().chain(&mut self.leaving)
    }

    /// Whether a worker runs on a clock that can be stepped.
    pub(crate) fn follows_clocks(&self) -> bool {
        self.workers.iter().chain(&self.leaving).any(|running| running.clock.is_some())
    }

    /// Whether a worker is asleep and does not know yet that its clock was stepped. Interrupts such workers.
    pub(crate) fn sleeps_over_a_step(&self) -> bool {
        let sleeps = |running: &&Running| running.clock.is_some() && running.worker.sleeps_over_a_step();
        self.workers.iter().chain(&self.leaving).filter(sleeps).count() > 0
    }

    /// Whether every worker has run a tick.
    pub(crate) fn has_ticked(&self) -> bool {
        !self.workers.is_empty() && self.workers.iter().all(|running| running.worker.doing().ticks > 0)
    }

    /// The workers that the start is waiting for. A worker that ended because the run's length leaves it no release is not counted.
    pub(crate) fn before_first_tick(&self) -> impl Iterator<Item = &Running> {
        let from_the_start = |running: &&Running| running.began.is_some() && running.began == self.epoch;
        let waits = |running: &&Running| running.worker.doing().ticks == 0 && !running.worker.is_finished();
        self.workers.iter().filter(from_the_start).filter(waits)
    }

    /// Whether every worker can take part in a change: none has ended, and none has been in a tick for longer than `patience`.
    pub(crate) fn can_change(&self, patience: Span) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::System("reloading", io::Error::other(text)));
        for running in &self.workers {
            if running.worker.is_finished() {
                return refuse(format!("worker {} has run its last tick", running.config.name));
            }
            if let Some(tick) = running.running_tick().filter(|(.., lasting)| *lasting > patience) {
                return refuse(running.not_returned(tick));
            }
        }
        Ok(())
    }

    /// Begins the change to `prepared`; [`advance`](Self::advance) completes it.
    pub(crate) fn begin(&mut self, prepared: Prepared, threads: &mut Threads) {
        let mut old: BTreeMap<String, Running> = std::mem::take(&mut self.workers)
            .into_iter()
            .map(|running| (running.config.name.clone(), running))
            .collect();
        let number = |wanted: &WantedWorker| match &wanted.fresh {
            Some((waiting, _)) => waiting.number,
            None => old[&wanted.config.name].number,
        };
        let numbers: Vec<_> = prepared.workers.iter().map(number).collect();
        let new_tasks = prepared.new_tasks(&numbers);
        let Prepared { workers, outputs, sections, files, diff, joints, mut asides, beginnings: _ } = prepared;
        let alarms = asides.values_mut().filter_map(|aside| aside.alarm.take()).collect();
        self.asides.extend(asides);
        // Recorder and metrics must know the new tasks before their first tick.
        threads.recorder.add(outputs);
        threads.metrics.add_tasks(new_tasks, alarms);
        for WantedWorker { config, tasks, fresh } in workers {
            self.workers.push(match fresh {
                Some((waiting, feed)) => {
                    let (number, thread) = (waiting.number, waiting.worker.id());
                    let granted = waiting.granted.clone();
                    let asked = config.clone();
                    threads.metrics.add_worker(NewWorker { number, config: asked, granted, thread, feed });
                    Running::new(config, waiting, tasks)
                }
                None => {
                    let Some(mut running) = old.remove(&config.name) else { unreachable!("it goes on") };
                    running.exchange(config, tasks);
                    running
                }
            });
        }
        self.leaving = old.into_values().collect();
        let known = self.all().flat_map(Running::known_tasks).map(|task| (task.id, task.terms.name.clone())).collect();
        (self.sections, self.files, self.joints) = (sections, files, joints);
        self.change = Some(UnderWay { diff, known, ended: Vec::new() });
    }

    /// Continues the change in progress. Returns what changed, once the change is complete.
    ///
    /// # Errors
    /// A worker that requires its policy has lost it to another program. The change cannot be completed.
    pub(crate) fn advance(&mut self, threads: &mut Threads) -> Result<Option<Diff>, String> {
        if self.is_under_way(threads) {
            return Ok(None);
        }
        if let Some(why) = self.workers.iter().find_map(Running::must_not_run) {
            return Err(why);
        }
        // A worker may have taken its tasks and ended since the last check.
        self.take_exchanged(&threads.builder);
        Ok(self.complete(threads))
    }

    /// Whether some worker still has to take its new tasks, to end, or to get its policy.
    fn is_under_way(&mut self, threads: &mut Threads) -> bool {
        self.take_exchanged(&threads.builder);
        let stay = self.leaving.iter_mut().filter_map(|running| (!running.has_ended()).then_some(&mut running.worker));
        let staying = stay.map(|worker| worker.stop()).count();
        if staying > 0 || self.workers.iter().any(Running::is_exchanging) {
            return true;
        }
        // The ended workers' bandwidth is free by now, or will be within a period: the kernel needs that long.
        let period = |running: &Running| match running.config.scheduling {
            Scheduling::Deadline { period, .. } => period,
            _ => Span::ZERO,
        };
        let patience = self.leaving.iter().map(period).max().unwrap_or(Span::ZERO) + GIVEN_BACK_WITHIN;
        let awaiting = self.workers.iter_mut().map(|running| usize::from(running.is_awaiting_policy(patience)));
        awaiting.sum::<usize>() > 0
    }

    /// Takes back the old task sets of workers that have taken their new tasks.
    fn take_exchanged(&mut self, builder: &Builder) {
        for mut old in self.workers.iter_mut().filter_map(Running::exchanged) {
            let ended = old.ended();
            let asides: Vec<_> = ended.tasks.iter().filter_map(|(id, _)| self.asides.remove(id)).collect();
            asides.iter().for_each(Aside::leave);
            if let Some(change) = &mut self.change {
                change.ended.push(ended);
            }
            builder.close((old, asides));
        }
    }

    /// The workers that run, including those of a change in progress. At the start, also those that wait.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = &Running> {
        self.all().filter(|running| self.epoch.is_none() || running.began.is_some())
    }

    /// The number of their tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.in_force().map(|running| running.tasks.len()).sum()
    }

    /// What is wrong apart from the ticks of its tasks, one clause each.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = String> {
        self.asides.values().filter_map(Aside::trouble)
    }

    /// How far the run is past its length; `None`: it is not.
    pub(crate) fn past_length(&self, now: Instant) -> Option<Span> {
        let past = now - (self.epoch? + self.length?);
        (past >= Span::ZERO).then_some(past)
    }

    /// Time until the first worker that still runs reaches the end of the run; zero if it is past that. `None`: no worker is left, or the
    /// run has no length.
    pub(crate) fn until_end(&self, now: Instant) -> Option<Span> {
        self.length?;
        let ticking = self.all().filter(|running| running.began.is_some() && !running.worker.is_finished());
        ticking.map(|running| (-running.past_end(now)).max(Span::ZERO)).min()
    }

    /// Whether every worker has ended. Once the run is past its length, a worker that waits to begin counts as ended. So does one that has
    /// delayed the end without advancing for a time that `is_too_long`.
    pub(crate) fn has_ended(&mut self, now: Instant, is_too_long: impl Fn(Span) -> bool) -> bool {
        let over = self.past_length(now).is_some();
        let hangs = |running: &Running| running.began.is_none() || is_too_long(running.overdue(now));
        // Ask every worker: that also fetches how it ended.
        self.all_mut().filter_map(|running| (!(running.has_ended() || over && hangs(running))).then_some(())).count()
            == 0
    }

    fn complete(&mut self, threads: &mut Threads) -> Option<Diff> {
        let UnderWay { diff, known: mut removed, ended } = self.change.take()?;
        let mut counts: Vec<_> = ended.iter().flat_map(|ended| &ended.tasks).copied().collect();
        let mut numbers = Vec::new();
        for mut running in self.leaving.drain(..) {
            numbers.push(running.number);
            // If the run is past its length, they were handed over already.
            running.final_counts().into_iter().for_each(|ended| threads.metrics.tasks_ended(ended));
            let worker = &running.config.name;
            match &running.end {
                Some(WorkerEnd::Finished(finished)) => counts.extend_from_slice(&finished.report.tasks),
                Some(WorkerEnd::Died) => error!(worker, "the thread of worker {worker} died; please report this"),
                _ => {}
            }
            threads.builder.close(running);
        }
        // A worker that ended before it took its new tasks keeps the old ones.
        self.workers.iter().flat_map(|running| &running.tasks).for_each(|task| drop(removed.remove(&task.id)));
        let epoch = KernelClock::monotonic().now() + LEAD;
        let first = *self.epoch.get_or_insert(epoch);
        let length = self.length.map(|length| first + length - epoch);
        self.workers.iter_mut().filter(|running| running.began.is_none()).for_each(|new| new.begin(epoch, length));
        ended.into_iter().for_each(|ended| threads.metrics.tasks_ended(ended));
        let ids: Vec<u32> = removed.keys().copied().collect();
        let asides: Vec<_> = ids.iter().filter_map(|id| self.asides.remove(id)).collect();
        if !asides.is_empty() {
            threads.builder.close(asides);
        }
        threads.recorder.forget(&ids);
        threads.metrics.remove_tasks(ids);
        threads.metrics.remove_workers(numbers);
        counts.iter().for_each(|(id, counts)| log_ended(removed.get(id), counts));
        Some(diff)
    }

    /// The run ends, so a change in progress will not complete. Logs the tasks that it has ended so far and that the summary leaves out.
    /// Returns the final counts of tasks in the sets that workers have given back.
    pub(crate) fn abandon_change(&mut self, builder: &Builder) -> Vec<Ended> {
        self.take_exchanged(builder);
        let Some(UnderWay { known, ended, .. }) = self.change.take() else { return Vec::new() };
        ended.iter().flat_map(|ended| &ended.tasks).for_each(|(id, counts)| log_ended(known.get(id), counts));
        // A task that moved from a worker that ended to one that stays appears in the summary as a task of the latter.
        let staying = self.workers.iter().filter(|running| running.began.is_some());
        let staying: BTreeSet<&String> =
            staying.flat_map(|running| &running.tasks).map(|task| &task.terms.name).collect();
        for running in &self.leaving {
            let Some(WorkerEnd::Finished(finished)) = &running.end else { continue };
            for (id, counts) in &finished.report.tasks {
                log_ended(known.get(id).filter(|name| staying.contains(name)), counts);
            }
        }
        ended
    }
}

/// Logs the final counts of a task that a reload has ended; `None`: the reload has not ended it.
fn log_ended(task: Option<&String>, counts: &Counts) {
    let Some(task) = task else { return };
    let Counts { ran, skipped, overruns, errors, .. } = *counts;
    let snapshot::Counts { due, met, missed, .. } = snapshot::Counts::of(ran, skipped, overruns);
    let outcome = log::outcome(due, overruns, skipped);
    info!(task, due, met, missed, ran, skipped, overruns, errors, "{task}: ended by the reload; {outcome}");
}
