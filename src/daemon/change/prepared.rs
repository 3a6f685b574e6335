//! The set that is wanted, as the builder hands it to main: everything that can fail is done. Plain values; nothing blocks.

use super::assemble::Asides;
use super::diff::{Diff, Sections};
use super::joints::Joints;
use super::running::{WaitingWorker, WantedTask};
use crate::config::{BuildError, Origin, Problems, WorkerConfig};
use crate::daemon::failure::Failure;
use crate::daemon::metrics::metrics_thread::{Feed, NewTask};
use crate::daemon::plan;
use crate::recording::TaskOutput;
use crate::site::Beginning;
use crate::sys::thread::helper;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a write of the [second step](Prepared::write) may hold up those behind it.
const HOLDS_UP_FOR: Duration = Duration::from_millis(100);

/// A worker of the set that is wanted.
pub(crate) struct WantedWorker {
    pub(crate) config: WorkerConfig,
    pub(crate) tasks: Vec<WantedTask>,
    /// Its thread, and what it sends; `None`: the worker of this name goes on.
    pub(super) fresh: Option<(WaitingWorker, Feed)>,
}

/// The set that is wanted, as far as it does not run already. Everything that can fail is done, but for what devices may refuse of the
/// [second step](Self::write).
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
    /// Whether nothing is left that its tasks write before their first tick.
    pub(crate) fn is_written(&self) -> bool {
        self.beginnings.is_empty()
    }

    /// The second step: writes that, one after the other; the targets of tasks that tick are taken over last. May block.
    ///
    /// # Errors
    /// What a device refused; what comes after it is not written.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        let beginnings = self.beginnings.drain(..);
        let (taken_over, written): (Vec<_>, Vec<_>) = beginnings.partition(|(_, beginning)| beginning.takes_over());
        Self::make_all(written)?;
        Self::make_all(taken_over)
    }

    /// Makes these. One that does not return holds up the end, but not for long those behind it, which another thread makes then.
    fn make_all(beginnings: Vec<(Origin, Beginning)>) -> Result<(), Failure> {
        let ((give, waiting), (report, ended)) = (unbounded(), unbounded());
        for beginning in beginnings {
            let _ = give.send(beginning);
        }
        drop(give);
        if waiting.is_empty() {
            return Ok(());
        }
        if !has_made(&waiting, &report) {
            make(&waiting, &report);
        }
        let (mut spare, mut done) = (Some(report), Ok(()));
        loop {
            spare = spare.filter(|_| !waiting.is_empty());
            match (ended.recv_timeout(HOLDS_UP_FOR), &spare) {
                (Ok(result), _) => done = done.and(result),
                (Err(RecvTimeoutError::Disconnected), _) => return done,
                // Where there is no thread, they wait for the one that there is.
                (Err(RecvTimeoutError::Timeout), Some(report)) => _ = has_made(&waiting, report),
                (Err(RecvTimeoutError::Timeout), None) => {}
            }
        }
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

/// Makes what waits, until nothing does or one was refused.
fn make(waiting: &Receiver<(Origin, Beginning)>, report: &Sender<Result<(), Failure>>) {
    while let Ok((section, beginning)) = waiting.try_recv() {
        let refused = |error: BuildError| Failure::Config(Problems::at(&section, error.key, error.message));
        let panicked = |text| Failure::System("writing what an output begins with", io::Error::other(text));
        let made = helper::caught(|| beginning.write()).map_err(panicked).and_then(|made| made.map_err(refused));
        if made.is_err() {
            waiting.try_iter().for_each(drop);
        }
        let _ = report.send(made);
    }
}

/// Has another thread do that. Whether there is one.
fn has_made(waiting: &Receiver<(Origin, Beginning)>, report: &Sender<Result<(), Failure>>) -> bool {
    let (waiting, report) = (waiting.clone(), report.clone());
    helper::spawn("hertzd-begin", move || make(&waiting, &report)).is_ok()
}
