//! The set that is wanted, as the builder hands it to main: everything that can fail is done. Plain values; nothing blocks.

use super::diff::{Diff, Sections};
use super::failure::Failure;
use super::joints::Joints;
use super::metrics_thread::{Feed, NewTask};
use super::plan;
use super::running::{WaitingWorker, WantedTask};
use crate::config::{Origin, Problems, WorkerConfig};
use crate::recording::TaskOutput;
use crate::site::Beginning;
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

/// The set that is wanted, as far as it does not run already. Everything that can fail is done, but for what devices may refuse of the
/// [second step](Self::write).
pub(super) struct Prepared {
    /// In the order of declaration.
    pub(super) workers: Vec<WantedWorker>,
    pub(super) outputs: Vec<TaskOutput>,
    pub(super) sections: Arc<Sections>,
    pub(super) files: Vec<PathBuf>,
    pub(super) diff: Diff,
    pub(super) joints: Arc<Joints>,
    /// What its tasks write before their first tick, each with its section.
    pub(super) beginnings: Vec<(Origin, Beginning)>,
}

impl Prepared {
    /// Whether nothing is left that its tasks write before their first tick.
    pub(super) fn is_written(&self) -> bool {
        self.beginnings.is_empty()
    }

    /// The second step: writes that. May block.
    ///
    /// # Errors
    /// What a device refused; what comes after it is not written.
    pub(super) fn write(&mut self) -> Result<(), Failure> {
        self.beginnings.drain(..).try_for_each(|(section, beginning)| {
            beginning.write().map_err(|error| Failure::Config(Problems::at(&section, error.key, error.message)))
        })
    }

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
