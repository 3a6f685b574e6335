//! The builder thread's work: it reads the configuration, opens devices and recordings, starts workers and sets them up, and closes what
//! has ended. May block.
//!
//! Threads it starts inherit its signal mask: they leave all signals to others.

use super::assemble::{Assembled, assemble};
use super::cpu_places::AllowedCpus;
use super::diff::{Change, Diff, Sections};
use super::grants;
use super::joints::{Joints, flows, go_on, joints};
use super::loader::Loader;
use super::prepared::{Prepared, WantedWorker};
use super::running::{WaitingWorker, WantedTask};
use super::spare_descriptors;
use crate::channels;
use crate::config::{Config, Scheduling, WorkerConfig};
use crate::daemon::busy::Busy;
use crate::daemon::failure::Failure;
use crate::daemon::metrics::metrics_thread::Feed;
use crate::daemon::outputs::guard_thread::GuardThread;
use crate::daemon::outputs::left_meanwhile::Meanwhile;
use crate::daemon::outputs::plan_file::PlanFile;
use crate::daemon::plan::{self, TaskTerms};
use crate::io::Keeper;
use crate::kinds::output::Targets;
use crate::log::Message;
use crate::recording::Recordings;
use crate::safety::{LiveOutputs, Owed};
use crate::site::Site;
use crate::sys::clock::KernelClock;
use crate::sys::memory;
use crate::sys::thread::{Bandwidth, helper};
use crate::time::Clock;
use crate::worker::{Assignment, Refusal, Slot, Worker};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::any::Any;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// How often to check that the plan of safe values still exists.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The builder's first activity.
pub(super) const READING: &str = "reading the configuration";

/// The bandwidth that each worker gives back when it ends, by worker name.
pub(crate) type Held = BTreeMap<String, Bandwidth>;

pub(super) enum Job {
    Prepare(Arc<Sections>, Arc<Joints>, Held),
    Write(Box<Prepared>),
    Close(Box<dyn Any + Send>),
    UpdatePlan,
    Finish(Sender<()>),
}

/// What main sees of the builder at any time.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) memory_locked: AtomicBool,
    busy: Mutex<Option<Busy>>,
    pub(super) plan_trouble: Mutex<Option<String>>,
    pub(super) owed: Mutex<Option<String>>,
    pub(super) left: Mutex<Option<String>>, // by earlier processes; `None` once this start can no longer be refused
    pub(super) stops: Arc<AtomicBool>,      // whether the process is about to end
}

impl Shared {
    pub(super) fn begin(&self, activity: String) {
        debug!("{activity}");
        self.set(Some(Busy { activity, since: KernelClock::monotonic().now() }));
    }

    fn set(&self, busy: Option<Busy>) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = busy;
    }

    pub(super) fn busy(&self) -> Option<Busy> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn show_left(&self, left: Option<String>) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }

    fn show_owed(&self, owed: impl Iterator<Item = String>) {
        let all: Vec<_> = owed.collect();
        *self.owed.lock().unwrap_or_else(PoisonError::into_inner) = (!all.is_empty()).then(|| all.join("; "));
    }

    /// Runs `work`. A panic in it (a user's own kind, or a task being dropped) becomes an error that names the current activity.
    fn caught<T>(&self, work: impl FnOnce() -> T) -> Result<T, String> {
        helper::caught(work).map_err(|text| {
            let activity = self.busy().map(|busy| busy.activity).unwrap_or_default();
            format!("{text}, while {activity}; please report this")
        })
    }
}

pub(super) struct BuilderLoop {
    pub(super) load: Loader,
    pub(super) site: Site, // each start and reload borrows a copy
    pub(super) owed: Arc<Owed>,
    pub(super) targets: Arc<Targets>,
    pub(super) guard: Arc<GuardThread>,
    pub(super) plan: PlanFile,
    pub(super) allowed: Arc<AllowedCpus>,
    pub(super) done: Sender<()>,
    pub(super) recordings: Recordings,
    pub(super) next_task: u32,
    pub(super) next_worker: usize,
    pub(super) rooms: BTreeMap<String, usize>, // channel capacity of each worker, by name
    pub(super) locked: Option<Result<(), Refusal>>, // None: not tried yet
    pub(super) _latency: Option<File>,         // while it is open, CPUs stay out of deep sleep
    pub(super) contended: Option<String>,      // targets that another hertzd also has
    pub(super) shared: Arc<Shared>,
}

impl BuilderLoop {
    pub(super) fn run(mut self, jobs: &Receiver<Job>, prepared: &Sender<Result<Prepared, Failure>>) {
        loop {
            let job = match jobs.recv_timeout(LOOK_EVERY) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => {
                    let is_written = self.plan.write_left(&self.guard.planned(), false);
                    if self.plan.is_amiss() || is_written {
                        self.update_plan("is gone, or does not have all outputs");
                    }
                    self.contended = self.targets.ask_for_locks();
                    self.say_what_is_owed();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match job {
                Job::Prepare(running, joints, held) => {
                    let result = self.answer(|builder| builder.prepare(&running, &joints, &held));
                    if result.as_ref().is_ok_and(Prepared::is_written) {
                        self.has_started();
                        self.update_plan("still has outputs of an earlier run that were made safe");
                    }
                    // Without a receiver the result is dropped here.
                    let _ = prepared.send(result);
                }
                Job::Write(wanted) => {
                    self.shared.begin("writing what outputs begin with".into());
                    let result = self.answer(|builder| builder.write(*wanted));
                    if result.is_ok() {
                        self.has_started();
                    }
                    // A new output on an earlier run's target has taken that target over.
                    self.update_plan("does not follow what has become of the targets");
                    let _ = prepared.send(result);
                }
                Job::Close(ended) => {
                    self.shared.begin("closing the files and devices of tasks that ended".into());
                    let meanwhile = self.write_left_meanwhile();
                    if let Err(text) = self.shared.caught(|| drop(ended)) {
                        error!("the builder thread {text}");
                    }
                    drop(meanwhile);
                    // Another process must not write safe values for outputs that are closed.
                    self.update_plan("still has outputs that are closed");
                    self.shared.set(None);
                }
                Job::UpdatePlan => self.update_plan("does not follow what has become of the targets"),
                Job::Finish(reply) => {
                    self.make_left_safe();
                    let _ = reply.send(());
                    return;
                }
            }
        }
    }

    fn has_started(&mut self) {
        self.plan.has_started();
        self.show_left();
    }

    /// Runs one step of preparing a set; a panic becomes an error. If the set is refused, its outputs leave the plan, so that no other
    /// process writes them.
    fn answer(&mut self, work: impl FnOnce(&mut Self) -> Result<Prepared, Failure>) -> Result<Prepared, Failure> {
        let shared = self.shared.clone();
        let result = shared
            .caught(|| work(self))
            .unwrap_or_else(|text| Err(Failure::System("the builder thread", io::Error::other(text))));
        if result.is_err() && self.plan.is_written() {
            self.update_plan("still has outputs of a configuration that was refused");
        }
        if let (Err(_), Some(tasks)) = (&result, self.plan.left_by_start()) {
            warn!("{}", still_owed(&tasks));
        }
        shared.set(None);
        result
    }

    /// At the end of the process, writes the safe values that earlier processes left: nothing else will. A target may have become free
    /// since the last try.
    fn make_left_safe(&mut self) {
        if self.plan.left().is_none() {
            return;
        }
        self.shared.begin("writing the safe values that an earlier run has left".into());
        if self.plan.write_left_at_end(&self.guard.planned()) {
            self.update_plan("still has outputs of an earlier run that were written");
        }
        self.show_left();
    }

    /// Shows main what a start has still to write.
    fn show_left(&self) {
        self.shared.show_left(self.plan.left_by_start());
    }

    /// Until the result is dropped, another thread writes left outputs if this thread waits long for a device.
    fn write_left_meanwhile(&self) -> Option<Meanwhile> {
        let (shared, contended) = (self.shared.clone(), self.contended.clone());
        let shows = move |left, owed: Option<String>| {
            shared.show_left(left);
            shared.show_owed(owed.into_iter().chain(contended.clone()));
        };
        self.plan.write_left_meanwhile(&self.guard, &self.shared.stops, Box::new(shows))
    }

    /// Rewrites the plan of safe values. If that fails, `but` says what is wrong with the existing plan.
    fn update_plan(&mut self, but: &str) {
        self.owed.close_settled();
        self.plan.try_update(&self.guard.planned(), but);
        self.shared.plan_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.plan.trouble);
        self.say_what_is_owed();
    }

    fn say_what_is_owed(&self) {
        self.shared.show_owed(self.plan.owed().into_iter().chain(self.contended.clone()));
    }

    fn prepare(&mut self, running: &Sections, joined: &Joints, held: &Held) -> Result<Prepared, Failure> {
        self.owed.close_settled();
        self.shared.begin(READING.into());
        // First, so that leftovers are known even if the configuration is refused or cannot be read to the end.
        let taken = self.plan.take_left();
        self.show_left();
        let meanwhile = self.write_left_meanwhile();
        let mut config = self.load.load()?;
        taken?;
        let anywhere = self.allowed.prepare(&config.workers, self.next_worker == 0);
        let sections = Arc::new(Sections::of(&config));
        let diff = Diff::between(running, &sections);
        for file in &config.files {
            debug!("read {}", file.display());
        }
        let shared = &self.shared;
        let building = |task: &str| shared.begin(format!("opening what task {task} uses"));
        let begins = |task: &str| diff.tasks.get(task) != Some(&Change::Kept);
        let built = assemble(&mut config, &self.site, begins, &mut self.next_task, &mut self.recordings, building);
        // From here on, only these outputs write to their targets.
        drop(meanwhile);
        self.show_left();
        let (mut built, asides) = built?;
        self.guard.add(built.values_mut().flat_map(|built| std::mem::take(&mut built.guards)).collect());
        self.plan.refuse_left_since(&self.guard.planned())?;
        let new = built.iter_mut().map(|(index, built)| (*index, std::mem::take(&mut built.joint))).collect();
        let joints = Arc::new(joints(&config, new, joined));
        go_on(&joints, joined, |task| sections.differ_in_worker_at_most(running, task));
        let mut flows = flows(&config, &joints, joined, &diff).map_err(Failure::Config)?;
        shared.begin("starting workers".into());
        let priority = |worker: &WorkerConfig| match worker.scheduling {
            Scheduling::Fifo { priority } | Scheduling::Rr { priority } => Some(priority),
            Scheduling::Deadline { .. } | Scheduling::Other => None,
        };
        let highest = config.workers.iter().filter_map(priority).max();
        self.plan
            .update(&self.guard.planned())
            .map_err(|reason| Failure::System("writing the plan of safe values", reason))?;
        if self.plan.write_left(&self.guard.planned(), true) {
            self.update_plan("still has outputs of an earlier run that were written");
        }
        self.guard
            .guard(highest, &self.site.common::<Keeper>())
            .map_err(|reason| Failure::System("starting the thread that writes safe values", reason))?;
        let mut fresh = self.start_workers(&config, &diff, held, &anywhere)?;

        let Config { workers, tasks, files } = config;
        let (mut outputs, mut beginnings) = (Vec::new(), Vec::new());
        let mut of_worker: Vec<Vec<WantedTask>> = workers.iter().map(|_| Vec::new()).collect();
        // From here on nothing can be refused, except by devices in the second step.
        for (index, config) in tasks.into_iter().enumerate() {
            let mut flow = flows.remove(&index);
            let slot = built.remove(&index).map(|Assembled { slot, output, beginnings: first, .. }| {
                outputs.extend(output);
                beginnings.extend(first.into_iter().map(|first| (config.section.clone(), first)));
                Slot { flow: flow.take(), ..slot }
            });
            of_worker[config.worker].push(WantedTask { index, terms: TaskTerms::of(&config), slot, flow });
        }
        let wanted = |(config, tasks): (WorkerConfig, Vec<WantedTask>)| {
            let fresh = fresh.remove(&config.name);
            WantedWorker { config, tasks, fresh }
        };
        let workers = workers.into_iter().zip(of_worker).map(wanted).collect();
        Ok(Prepared { workers, outputs, sections, files, diff, joints, asides, beginnings })
    }

    /// Warns if a worker's record channel is too small for tasks that join it: a worker that continues keeps its channel.
    fn warn_of_channel(&self, worker: &str, wanted: usize) {
        if let Some(room) = self.rooms.get(worker).filter(|room| **room < wanted) {
            warn!(
                worker,
                room,
                wanted,
                "{worker}: with its new tasks the channel of its records should have room for {wanted} parts in place of {room}: \
                 records of a burst may be dropped; to enlarge it, restart the worker by a change of a key of its section"
            );
        }
    }

    /// Starts and sets up the threads of the new workers, by name; they then wait for their tasks. Workers that end give back the bandwidth
    /// they held.
    fn start_workers(
        &mut self,
        config: &Config,
        diff: &Diff,
        held: &Held,
        anywhere: &[usize],
    ) -> Result<BTreeMap<String, (WaitingWorker, Feed)>, Failure> {
        let mut spawned = Vec::new();
        for (index, worker) in config.workers.iter().enumerate() {
            let room = plan::records(plan::of_worker(&config.tasks, index).map(|task| &config.tasks[task]), worker);
            if diff.workers.get(worker.name.as_str()) == Some(&Change::Kept) {
                self.warn_of_channel(&worker.name, room);
                continue;
            }
            spawned.push((worker, spawn(worker, room, anywhere, self.done.clone())?));
            self.rooms.insert(worker.name.clone(), room);
        }
        // All threads and their stacks exist by now, so everything is locked.
        match self.locked {
            None => {
                self.lock_memory();
                self._latency = hold_cpu_latency();
            }
            Some(Ok(())) => self.lock_memory(),
            Some(Err(_)) => {}
        }
        let ends = |name: &str| diff.workers.get(name) != Some(&Change::Kept);
        let mut freed: Bandwidth = held.iter().filter(|(name, _)| ends(name)).map(|(_, held)| *held).sum();
        let mut fresh = BTreeMap::new();
        for (config, (worker, feed)) in spawned {
            let granted = grants::set_up(&worker, config, freed)?;
            freed = freed.without(granted.awaited);
            fresh.insert(config.name.clone(), (WaitingWorker { number: self.next_worker, worker, granted }, feed));
            self.next_worker += 1;
        }
        let granted = fresh.iter_mut().map(|(name, (waiting, _))| (name.as_str(), &mut waiting.granted));
        grants::report_refused(granted, self.locked.as_ref().and_then(|locked| locked.as_ref().err()));
        Ok(fresh)
    }

    /// Writes a set's initial outputs. If a device refuses, closes the set.
    fn write(&self, mut wanted: Prepared) -> Result<Prepared, Failure> {
        let _meanwhile = self.write_left_meanwhile();
        match wanted.write(self.site.common::<Keeper>().pool()) {
            Ok(()) => {
                self.owed.finish_takeovers();
                self.site.common::<LiveOutputs>().begin();
                spare_descriptors::report();
                Ok(wanted)
            }
            Err(failure) => {
                // Drop first: safe values written by this drop must come before those still owed, not after.
                drop(wanted);
                self.owed.cancel_takeovers();
                Err(failure)
            }
        }
    }

    fn lock_memory(&mut self) {
        let locked = grants::lock_memory().map(drop);
        if let Err(refusal) = &locked {
            warn!(message_id = Message::PrivilegeRefused.id(), worker = "all", "{refusal}");
        }
        self.shared.memory_locked.store(locked.is_ok() && memory::locked_bytes() > 0, Ordering::Relaxed);
        self.locked = Some(locked);
    }
}

/// The message that a start leaves safe values of earlier processes unwritten for these tasks.
pub(super) fn still_owed(tasks: &str) -> String {
    format!(
        "safe values that an earlier run has left are still owed, those of {tasks}: `hertzd safe` writes them, or the next start"
    )
}

/// Starts a worker's thread, which then waits, and returns the receiving end of its channel, with a capacity of `room` record parts.
/// `anywhere`: the CPUs for a worker with the `deadline` policy; empty: those of the calling thread.
pub(crate) fn spawn(
    worker: &WorkerConfig,
    room: usize,
    anywhere: &[usize],
    done: Sender<()>,
) -> Result<(Worker, Feed), Failure> {
    let (sender, ticks) = channels::ticks(room);
    let assignment = Assignment {
        name: worker.name.clone(),
        cpus: worker.cpus.clone(),
        anywhere: anywhere.to_vec(),
        scheduling: worker.scheduling,
        evidence: worker.evidence,
        tail: worker.spin.tail(),
        ticks: sender,
    };
    let (worker, panics) =
        Worker::spawn(assignment, done).map_err(|reason| Failure::System("starting a worker's thread", reason))?;
    Ok((worker, Feed { ticks, panics }))
}

fn hold_cpu_latency() -> Option<File> {
    memory::hold_cpu_latency()
        .inspect(|_| debug!("/dev/cpu_dma_latency held at 0 µs"))
        .inspect_err(|reason| {
            info!("/dev/cpu_dma_latency not held ({reason}): wake-ups from deep CPU sleep may be late");
        })
        .ok()
}
