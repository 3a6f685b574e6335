//! Start-up, in the order in which things must happen.

use super::assemble::{Built, build, facts};
use super::change::Reloads;
use super::metrics_thread::{Collector, Feed};
use super::plan::{self, Epoch, Window};
use super::recorder_thread::Recording;
use super::watch::Told;
use super::{Daemon, Failure, Running, clock, tick_feed};
use crate::channels;
use crate::config::{ClockKind, Config, WorkerConfig};
use crate::log::{Message, Output};
use crate::recording::{Recordings, TaskOutput};
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::{memory, signals, thread};
use crate::time::{Clock, Instant, NANOS_PER_SECOND, Span};
use crate::worker::{Assignment, Refusal, Slot, Standing, TaskSet, Worker};
use crossbeam_channel::{Sender, unbounded};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use tracing::{info, warn};

/// From the start signal to the first release: long enough for every worker to be asleep by then.
pub(super) const LEAD: Span = Span::from_millis(5);

/// A worker's thread that waits for its start.
struct Waiting {
    worker: Worker,
    number: usize,
}

impl Daemon {
    /// Everything is made and runs when this returns.
    pub(super) fn start(mut config: Config, length: Option<Span>, output: Box<dyn Output>) -> Result<Self, Failure> {
        let host = Host::read();
        signals::catch_interrupts().map_err(|reason| Failure::System("handling signals", reason))?;
        memory::limit_arenas();
        let mut next_id = 0;
        let mut recordings = Recordings::default();
        let built = build(&mut config, |_| true, &mut next_id, &mut recordings)?;

        // What is spawned here leaves signals to this thread.
        let blocked = thread::with_signals_blocked(|| {
            let (feed, ticks) = tick_feed::feed();
            let collector =
                Collector::spawn(output, feed).map_err(|reason| Failure::System("the metrics thread", reason))?;
            let recording = Recording::spawn(ticks).map_err(|reason| Failure::System("the recorder thread", reason))?;
            Ok((collector, recording))
        });
        let (collector, recording) = blocked.map_err(|reason| Failure::System("blocking signals", reason))??;
        let done = unbounded();
        let mut next_worker = 0;
        let waiting = spawn_workers(&config, |_| true, &collector, &done.0, &mut next_worker)?;

        // Every thread exists, and so does its stack: what is locked now is all there is.
        let locked = memory::lock().map(drop).map_err(|reason| lock_refusal(&reason));
        if let Err(refusal) = &locked {
            warn!(message_id = Message::PrivilegeRefused.id(), worker = "all", "{refusal}");
        }
        let memory_locked = memory::locked_bytes() > 0;
        let _latency = hold_cpu_latency();
        let workers = set_up_all(waiting, &config, &locked)?.into_values().collect();

        let epoch = KernelClock::monotonic().now() + LEAD;
        let mut daemon = Self {
            host,
            ids: Vec::new(),
            workers,
            collector,
            recording,
            recordings,
            done,
            next_id,
            next_worker,
            epoch,
            end: length.map(|length| epoch + length),
            locked,
            memory_locked,
            _latency,
            reloads: Reloads::default(),
            told: Told::nothing_yet(epoch),
            config,
        };
        daemon.enter(built);
        Ok(daemon)
    }

    /// Locks what has been added since the start, where memory may be locked at all.
    pub(super) fn lock_memory(&mut self) {
        if self.locked.is_ok() {
            self.locked = memory::lock().map(drop).map_err(|reason| lock_refusal(&reason));
            if let Err(refusal) = &self.locked {
                warn!(message_id = Message::PrivilegeRefused.id(), worker = "all", "{refusal}");
            }
            self.memory_locked = self.locked.is_ok() && memory::locked_bytes() > 0;
        }
    }

    /// Lets these be recorded; before metrics know of their tasks.
    pub(super) fn record(&self, streams: Vec<TaskOutput>) {
        let ticks = streams.iter().filter_map(|stream| Some((stream.id, stream.ticks.clone()?)));
        self.collector.record_ticks(ticks.collect());
        self.recording.add(streams);
    }

    /// Starts every worker with its tasks.
    fn enter(&mut self, built: Vec<Built>) {
        self.ids = built.iter().map(|built| built.slot.id).collect();
        let mut slots: Vec<Vec<Slot>> = self.workers.iter().map(|_| Vec::new()).collect();
        let mut streams = Vec::new();
        let mut known = Vec::new();
        for Built { index, slot, stream } in built {
            let task = &self.config.tasks[index];
            known.push((slot.id, facts(task, self.workers[task.worker].number)));
            streams.extend(stream);
            slots[task.worker].push(slot);
        }
        self.record(streams);
        self.collector.add_tasks(known);
        for (index, slots) in slots.into_iter().enumerate() {
            self.enter_worker(index, self.epoch, slots);
        }
    }

    /// Starts one worker; the first releases lie at `epoch` of the monotonic clock, or as soon as its own clock has it.
    pub(super) fn enter_worker(&mut self, index: usize, epoch: Instant, slots: Vec<Slot>) {
        let length = self.end.map(|end| end - epoch);
        let kind = self.config.workers[index].clock;
        let running = &mut self.workers[index];
        running.began = epoch;
        running.epoch = match kind {
            ClockKind::Monotonic => Epoch::At(epoch),
            // The next whole second that leaves time to start: machines that start in the same second agree on tick 0.
            ClockKind::Tai | ClockKind::Realtime => {
                let second = i128::from(NANOS_PER_SECOND);
                let soon = (clock(kind).now() + LEAD).nanos();
                Epoch::Aligned(Instant::from_nanos((soon + second - 1).div_euclid(second) * second))
            }
        };
        running.end = length.map_or(Instant::MAX, |length| running.epoch.start() + length);
        running.order = slots.iter().map(|slot| slot.id).collect();
        let tasks = plan::of_worker(&self.config.tasks, index).map(|task| &self.config.tasks[task]);
        let schedule = plan::schedule(tasks, running.epoch, Window { first_tick: 0, length });
        running.worker.start(TaskSet::starting(schedule, slots));
    }
}

/// Makes the threads of those workers that `wanted` chooses by their places, and sets them up; by place.
pub(super) fn start_workers(
    config: &Config,
    wanted: impl Fn(usize) -> bool,
    collector: &Collector,
    done: &Sender<()>,
    next_worker: &mut usize,
    locked: &Result<(), Refusal>,
) -> Result<BTreeMap<usize, Running>, Failure> {
    let waiting = spawn_workers(config, wanted, collector, done, next_worker)?;
    let numbers = waiting.values().map(|waiting| waiting.number).collect();
    set_up_all(waiting, config, locked).inspect_err(|_| collector.remove_workers(numbers))
}

/// Makes the threads of those workers that `wanted` chooses by their places; they then wait.
fn spawn_workers(
    config: &Config,
    wanted: impl Fn(usize) -> bool,
    collector: &Collector,
    done: &Sender<()>,
    next_worker: &mut usize,
) -> Result<BTreeMap<usize, Waiting>, Failure> {
    let spawn_all = || {
        let chosen = config.workers.iter().enumerate().filter(|(index, _)| wanted(*index));
        let spawned = chosen.map(|(index, worker)| {
            let hertz = plan::of_worker(&config.tasks, index).map(|task| config.tasks[task].rate.hertz()).sum();
            Ok((index, spawn(worker, hertz, collector, done, next_worker)?))
        });
        spawned.collect::<Result<BTreeMap<_, _>, _>>()
    };
    thread::with_signals_blocked(spawn_all).map_err(|reason| Failure::System("blocking signals", reason))?
}

fn set_up_all(
    waiting: BTreeMap<usize, Waiting>,
    config: &Config,
    locked: &Result<(), Refusal>,
) -> Result<BTreeMap<usize, Running>, Failure> {
    let set_up_one = |(index, Waiting { worker, number }): (usize, Waiting)| {
        let standing = set_up(&worker, &config.workers[index], locked)?;
        Ok((index, Running::waiting(worker, number, standing)))
    };
    waiting.into_iter().map(set_up_one).collect()
}

/// Makes a worker's thread, which then waits.
fn spawn(
    worker: &WorkerConfig,
    hertz: f64,
    collector: &Collector,
    done: &Sender<()>,
    next_worker: &mut usize,
) -> Result<Waiting, Failure> {
    let (ticks, receiver) = channels::ticks(plan::room(hertz, 0.5, 4_096));
    let assignment = Assignment {
        name: worker.name.clone(),
        cpus: worker.cpus.clone(),
        scheduling: worker.scheduling,
        clock: clock(worker.clock),
        tail: plan::tail(worker.spin),
        ticks,
    };
    let mut spawned = Worker::spawn(assignment, done.clone())
        .map_err(|reason| Failure::System("starting a worker's thread", reason))?;
    let panics = spawned.take_panics();
    collector.add_worker(worker.name.clone(), Feed { ticks: receiver, panics });
    let number = *next_worker;
    *next_worker += 1;
    Ok(Waiting { worker: spawned, number })
}

/// Lets a worker set itself up, and tells once what was refused.
fn set_up(worker: &Worker, asked: &WorkerConfig, locked: &Result<(), Refusal>) -> Result<Standing, Failure> {
    let mut standing = worker.set_up().map_err(|reason| Failure::System("starting a worker", reason))?;
    if standing.not_realtime && asked.require_realtime {
        // The policy's refusal stands first.
        let Some(Refusal { what, reason, remedy, .. }) = standing.refused.first() else {
            unreachable!("it was refused")
        };
        let text = format!(
            "worker {}: {what} refused: {reason}; nothing was started, since require-realtime is set; {remedy}",
            asked.name
        );
        return Err(Failure::Permission(text));
    }
    for refusal in &standing.refused {
        warn!(message_id = Message::PrivilegeRefused.id(), worker = asked.name, "{}: {refusal}", asked.name);
    }
    info!(
        worker = asked.name,
        thread = worker.id().number(),
        policy = standing.policy,
        priority = standing.priority,
        cpus = ?standing.cpus,
        "{}: granted {} {}",
        asked.name,
        standing.policy,
        standing.priority
    );
    // Told once for all workers; the summary shows it beside each.
    standing.refused.extend(locked.as_ref().err().cloned());
    Ok(standing)
}

fn lock_refusal(reason: &io::Error) -> Refusal {
    let meaning = "a page may have to be fetched in the middle of a tick";
    let remedy = "grant it with LimitMEMLOCK=infinity or AmbientCapabilities=CAP_IPC_LOCK in the unit, or run as root";
    Refusal::new("locking memory", reason, meaning, remedy)
}

fn hold_cpu_latency() -> Option<File> {
    memory::hold_cpu_latency()
        .inspect_err(|reason| {
            info!("/dev/cpu_dma_latency not held ({reason}): wake-ups may be later when the CPU was idle for long");
        })
        .ok()
}
