//! The wanted set, as the builder hands it to main: everything that can fail is done. [`Prepared::write`] may block; the rest does not.

use super::assemble::Asides;
use super::diff::{Diff, Sections};
use super::joints::{Joint, Joints};
use super::running::{WaitingWorker, WantedTask};
use crate::config::{BuildError, Origin, Problems, WorkerConfig};
use crate::daemon::failure::Failure;
use crate::daemon::metrics::metrics_thread::{Feed, NewTask};
use crate::daemon::plan;
use crate::io::{Pool, Queue};
use crate::metrics::TaskFacts;
use crate::recording::TaskOutput;
use crate::site::Beginning;
use crate::sys::thread::helper;
use crossbeam_channel::{RecvTimeoutError, unbounded};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a write in the [second step](Prepared::write) may delay those behind it.
const HOLDS_UP_FOR: Duration = Duration::from_millis(100);

/// A worker of the wanted set.
pub(crate) struct WantedWorker {
    pub(crate) config: WorkerConfig,
    pub(crate) tasks: Vec<WantedTask>,
    /// Its thread and its record channel; `None`: the worker of this name continues.
    pub(super) fresh: Option<(WaitingWorker, Feed)>,
}

/// The part of the wanted set that does not run yet. Everything that can fail is done, except what devices may refuse in the [second
/// step](Self::write).
pub(crate) struct Prepared {
    /// In the order of declaration.
    pub(crate) workers: Vec<WantedWorker>,
    pub(crate) outputs: Vec<TaskOutput>,
    pub(crate) sections: Arc<Sections>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) diff: Diff,
    pub(crate) joints: Arc<Joints>,
    pub(crate) asides: Asides,
    /// What its tasks write before their first tick, each with its section.
    pub(super) beginnings: Vec<(Origin, Beginning)>,
}

impl Prepared {
    /// Whether no initial writes are left.
    pub(crate) fn is_written(&self) -> bool {
        self.beginnings.is_empty()
    }

    /// The second step: makes the initial writes one after the other. Targets of running tasks are taken over last. May block.
    ///
    /// # Errors
    /// What a device refused; the writes after it are not made.
    pub(crate) fn write(&mut self, pool: &Pool) -> Result<(), Failure> {
        let beginnings = self.beginnings.drain(..);
        let (taken_over, written): (Vec<_>, Vec<_>) = beginnings.partition(|(_, beginning)| beginning.takes_over());
        make(written, pool)?;
        make(taken_over, pool)
    }

    /// The new tasks, as the metrics need them. `numbers` are the workers' numbers, in the same order as the workers.
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
                facts: TaskFacts {
                    columns: self
                        .joints
                        .get(&*task.terms.name)
                        .map(Joint::columns)
                        .filter(|all| !all.is_empty())
                        .map(Box::new),
                    ..plan::facts(&task.terms, number, slot.live.clone())
                },
                recorded: recorded.get(&slot.id).cloned(),
            })
            .collect()
    }
}

/// Makes these writes in order. One that hangs delays the end, but those behind it only for a short time: another thread of the pool then
/// takes over.
fn make(beginnings: Vec<(Origin, Beginning)>, pool: &Pool) -> Result<(), Failure> {
    if beginnings.is_empty() {
        return Ok(());
    }
    let (queue, (report, ended)) = (Queue::default(), unbounded());
    for (section, beginning) in beginnings {
        let (rest, report) = (queue.clone(), report.clone());
        queue.add(move || {
            let refused = |error: BuildError| Failure::Config(Problems::at(&section, error.key, error.message));
            let panicked = |text| Failure::System("writing what an output begins with", io::Error::other(text));
            let made = helper::caught(|| beginning.write());
            let made = made.map_err(panicked).and_then(|made| made.map_err(refused));
            let refused = made.is_err();
            let _ = report.send(made); // first: a user's own kind may panic when the queued writes are dropped
            if refused {
                rest.clear();
            }
        });
    }
    drop(report);
    // Without a pool thread, the builder makes the writes itself.
    if queue.work_on(pool).is_err() {
        queue.work();
    }
    let mut done = Ok(());
    loop {
        match ended.recv_timeout(HOLDS_UP_FOR) {
            Ok(result) => done = done.and(result),
            Err(RecvTimeoutError::Disconnected) => return done,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let _ = queue.work_on(pool);
    }
}
