//! What the metrics thread finds out in each round for the judge of causes: stalls of the process, how long workers waited for a CPU, and
//! who took it from them.
//!
//! Reads clocks and /proc, some microseconds a round. For the metrics thread only.

use super::heartbeat::Heart;
use super::suspects::Suspects;
use crate::config::{ClockKind, Scheduling, WorkerConfig};
use crate::daemon::plan;
use crate::metrics::{Bandwidth, MONOTONIC, REALTIME, TAI, Threads, WorkerFacts};
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::memory;
use crate::sys::thread::ThreadId;
use crate::sys::usage::RunQueue;
use crate::time::{Clock, Instant, Span};
use crate::worker::Granted;
use std::collections::BTreeMap;

/// While ticks with many page faults are late, the cost of a page fault is measured at most this often.
const TRY_EVERY: Span = Span::from_seconds(1);

/// Everything that is watched.
#[derive(Debug)]
pub(crate) struct Witnesses {
    heart: Heart,
    pub(crate) suspects: Suspects,
    workers: BTreeMap<usize, Watched>,
    shared: Option<Bandwidth>, // of the real-time threads of each CPU
    tried: Instant,            // when the cost of a page fault was last measured
}

/// A worker's thread.
#[derive(Debug)]
struct Watched {
    id: ThreadId,
    clock: KernelClock, // of its releases
    queue: Option<RunQueue>,
}

impl Witnesses {
    /// Call this on the thread that will use it.
    pub(crate) fn new(threads: &mut Threads) -> Self {
        threads.faults_cost(memory::fault_cost());
        let shared = Host::read().realtime_bandwidth.and_then(|(runtime, period)| {
            let limited = (0..period).contains(&runtime);
            let [runtime, period] = [runtime, period].map(Span::from_micros);
            limited.then_some(Bandwidth::Shared { runtime, period })
        });
        let (suspects, workers) = (Suspects::default(), BTreeMap::new());
        Self { heart: Heart::of_this_thread(), suspects, workers, shared, tried: Instant::ZERO }
    }

    /// Watches the worker with this number from now on. Returns what the judge must know of it.
    pub(crate) fn add(&mut self, number: usize, id: ThreadId, config: &WorkerConfig, granted: &Granted) -> WorkerFacts {
        let watched = Watched { id, clock: plan::clock(config.clock), queue: RunQueue::of(id) };
        self.workers.insert(number, watched);
        self.name_workers();
        let bandwidth = match (config.scheduling, granted.policy) {
            (Scheduling::Deadline { runtime, .. }, "deadline") => Some(Bandwidth::Reserved { runtime }),
            (_, "fifo" | "rr") => self.shared,
            _ => None,
        };
        WorkerFacts {
            clock: match config.clock {
                ClockKind::Monotonic => MONOTONIC,
                ClockKind::Tai => TAI,
                ClockKind::Realtime => REALTIME,
            },
            cpu: if let [cpu] = granted.cpus[..] { Some(cpu) } else { None },
            priority: if granted.policy == "deadline" { 100 } else { granted.priority },
            bandwidth,
        }
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.workers.remove(&number);
        // The kernel may reuse the number of a thread that has ended.
        self.name_workers();
    }

    fn name_workers(&mut self) {
        self.suspects.set_workers(self.workers.values().map(|watched| watched.id).collect());
    }

    /// Begins a round at `now`, after a sleep of `slept`.
    pub(crate) fn begin(&mut self, threads: &mut Threads, now: Instant, slept: Span) {
        self.heart.beat(Some(slept)).into_iter().for_each(|stall| threads.note_stall(stall));
        self.suspects.round(now);
        for (number, Watched { clock, queue, .. }) in &self.workers {
            if let Some(waited) = queue.as_ref().and_then(RunQueue::waited) {
                threads.has_waited(*number, clock.now(), waited);
            }
        }
    }

    /// The records of this round were taken, without sleeping or waiting.
    pub(crate) fn taken(&mut self, threads: &mut Threads) {
        self.heart.beat_after_work().into_iter().for_each(|stall| threads.note_stall(stall));
    }

    /// Ends a round that began at `now`.
    pub(crate) fn pause(&mut self, threads: &mut Threads, now: Instant) {
        // The cost depends on what else the machine does. Measuring takes 0.1 ms and interrupts the other threads of the process.
        if threads.fault_matters() && now - self.tried >= TRY_EVERY {
            threads.faults_cost(memory::fault_cost());
            self.tried = now;
        }
        self.heart.beat_after_writing().into_iter().for_each(|stall| threads.note_stall(stall));
    }
}
