//! The set that is wanted, as the builder hands it to main: everything that can fail is done. Plain values; nothing blocks.

use super::diff::{Diff, Sections};
use super::joints::Joints;
use super::metrics_thread::{Feed, NewTask};
use super::plan;
use super::running::{WaitingWorker, WantedTask};
use crate::config::WorkerConfig;
use crate::recording::TaskOutput;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A worker of the set that is wanted.
pub(super) struct WantedWorker {
    pub(super) config: WorkerConfig,
    pub(super) tasks: Vec<WantedTask>,
    /// Its thread, and what it sends; `None`: the worker of this name goes on.
    pub(super) fresh: Option<(WaitingWorker, Feed)>,
}

/// The set that is wanted, as far as it does not run already. Everything that can fail is done.
pub(super) struct Prepared {
    /// In the order of declaration.
    pub(super) workers: Vec<WantedWorker>,
    pub(super) outputs: Vec<TaskOutput>,
    pub(super) sections: Arc<Sections>,
    pub(super) files: Vec<PathBuf>,
    pub(super) diff: Diff,
    pub(super) joints: Arc<Joints>,
}

impl Prepared {
    /// The tasks that begin, as the metrics have to know them. `numbers` are those of the workers, in their order.
    pub(super) fn new_tasks(&self, numbers: &[usize]) -> Vec<NewTask> {
        let recorded: BTreeMap<_, _> =
            self.outputs.iter().filter_map(|output| Some((output.id, output.ticks.clone()?))).collect();
        let tasks = self.workers.iter().zip(numbers).flat_map(|(worker, number)| {
            worker.tasks.iter().filter_map(move |task| Some((task.slot.as_ref()?, task, worker, *number)))
        });
        tasks
            .map(|(slot, task, worker, number)| NewTask {
                id: slot.id,
                clock: plan::clock(worker.config.clock),
                facts: plan::facts(&task.terms, number, slot.live.clone()),
                recorded: recorded.get(&slot.id).cloned(),
            })
            .collect()
    }
}
