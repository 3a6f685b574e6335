//! Whether the thread that triggers safe values can have a higher priority than the workers it watches. Pure.

use crate::config::{Config, Problems, Scheduling, WorkerConfig};

/// The highest priority a thread can have.
const HIGHEST: u8 = 99;

/// Warns about workers that leave no higher priority free, if there are outputs.
pub(super) fn doubts(config: &Config) -> Vec<Problems> {
    if config.tasks.iter().all(|task| !task.acts) {
        return Vec::new();
    }
    let leaves_none = |worker: &&WorkerConfig| match worker.scheduling {
        Scheduling::Fifo { priority } | Scheduling::Rr { priority } => priority == HIGHEST,
        Scheduling::Deadline { .. } | Scheduling::Other => false,
    };
    let text = "leaves none above it for the thread that has safe values written when a worker hangs: that thread has 99 as well, and waits \
                on a CPU that the worker keeps to itself; write 98 or lower";
    let workers = config.workers.iter().filter(leaves_none);
    workers.map(|worker| Problems::at(&worker.section, "priority", text)).collect()
}
