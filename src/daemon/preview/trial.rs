//! A trial start: threads like the workers' ask the kernel for what the configuration wants. No task is built.
//!
//! May block. The threads end before it returns; locked memory stays locked.

use crate::config::{Config, Scheduling, WorkerConfig};
use crate::daemon::change::builder_loop::spawn;
use crate::daemon::change::grants;
use crate::daemon::outputs::guard_grant;
use crate::daemon::plan;
use crate::doctor::Trial;
use crate::sys::clock::pause;
use crate::sys::memory;
use crate::sys::thread::Bandwidth;
use crate::time::Span;
use crate::worker::Worker;
use crossbeam_channel::unbounded;

/// How long a thread may take to end. It waits for orders, so it needs only some processor time.
const END_WITHIN: Span = Span::from_seconds(1);

/// Asks for everything that a start with `config` asks for, in the same order.
pub(crate) fn try_start(config: &Config) -> Trial {
    let (done, _ended) = unbounded();
    let spawned = config.workers.iter().enumerate().map(|(index, worker)| {
        let tasks = plan::of_worker(&config.tasks, index).map(|task| &config.tasks[task]);
        spawn(worker, plan::records(tasks, worker), &[], done.clone()).map_err(|failure| failure.to_string())
    });
    // All threads must exist before the memory is locked.
    let spawned: Vec<_> = spawned.collect();
    let memory = grants::lock_memory();
    let held = memory::hold_cpu_latency();
    let set_up = |spawned: &Result<(Worker, _), String>| match spawned {
        Ok((worker, _feed)) => worker.set_up(Bandwidth::default()).map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    // Set up all workers together, as a start does: deadline policies share the bandwidth.
    let workers = spawned.iter().map(set_up).collect();
    let priority = |worker: &WorkerConfig| match worker.scheduling {
        Scheduling::Fifo { priority } | Scheduling::Rr { priority } => Some(priority),
        Scheduling::Deadline { .. } | Scheduling::Other => None,
    };
    let highest =
        config.workers.iter().filter_map(priority).max().filter(|_| config.tasks.iter().any(|task| task.acts));
    let guard = highest.map(guard_grant::tried);
    spawned.into_iter().flatten().for_each(|(worker, _feed)| end(worker));
    Trial { workers, guard, memory, cpu_latency: held.map(drop) }
}

fn end(mut worker: Worker) {
    const EVERY: Span = Span::from_millis(1);
    worker.stop();
    let mut waited = Span::ZERO;
    while !worker.is_finished() && waited < END_WITHIN {
        pause(EVERY);
        waited += EVERY;
    }
}
