//! Commands to the metrics thread, and what it must know of a worker or task before its first record. Only types.

use super::view::{Depth, View};
use crate::channels::alarm::Alarm;
use crate::channels::{TickReceiver, Traffic};
use crate::config::WorkerConfig;
use crate::metrics::TaskFacts;
use crate::sys::clock::KernelClock;
use crate::sys::thread::ThreadId;
use crate::worker::{Ended, Granted, Panic};
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;

/// What one worker sends.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) ticks: TickReceiver,
    pub(crate) panics: Receiver<Panic>,
}

/// What the metrics must know of a worker before its first record.
pub(crate) struct NewWorker {
    pub(crate) number: usize, // never reused
    pub(crate) config: WorkerConfig,
    pub(crate) granted: Granted,
    pub(crate) thread: ThreadId,
    pub(crate) feed: Feed,
}

/// What the metrics must know of a task before its first record.
pub(crate) struct NewTask {
    pub(crate) id: u32,
    pub(crate) facts: TaskFacts,
    /// The clock of its releases.
    pub(crate) clock: KernelClock,
    /// Counts its ticks, if they are recorded.
    pub(crate) recorded: Option<Arc<Traffic>>,
}

/// A request to the metrics thread.
pub(crate) enum Command {
    AddWorker(Box<NewWorker>),
    /// With the alarms that some of them have.
    AddTasks(Vec<NewTask>, Vec<Arc<Alarm>>),
    FinishTasks(Vec<u32>),
    RemoveTasks(Vec<u32>),
    RemoveWorkers(Vec<usize>),
    TasksEnded(Ended),
    GiveUp(Vec<u32>, Option<u32>),
    Look(Depth, Sender<View>),
    Finish,
}
