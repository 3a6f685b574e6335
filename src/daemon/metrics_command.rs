//! What the metrics thread is asked to do, and what it has to know of a worker or a task before its first record. Only types.

use super::view::{Depth, View};
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
pub(super) struct Feed {
    pub(super) ticks: TickReceiver,
    pub(super) panics: Receiver<Panic>,
}

/// A worker as the metrics have to know it before its first record.
pub(super) struct NewWorker {
    pub(super) number: usize, // never given twice
    pub(super) config: WorkerConfig,
    pub(super) granted: Granted,
    pub(super) thread: ThreadId,
    pub(super) feed: Feed,
}

/// A task as the metrics have to know it before its first record.
pub(super) struct NewTask {
    pub(super) id: u32,
    pub(super) facts: TaskFacts,
    /// The clock its releases are on.
    pub(super) clock: KernelClock,
    /// Its ticks are recorded, and counted here.
    pub(super) recorded: Option<Arc<Traffic>>,
}

/// A request to the metrics thread.
pub(super) enum Command {
    AddWorker(Box<NewWorker>),
    AddTasks(Vec<NewTask>),
    FinishTasks(Vec<u32>),
    RemoveTasks(Vec<u32>),
    RemoveWorkers(Vec<usize>),
    TasksEnded(Ended),
    GiveUp(Vec<u32>, Option<u32>),
    Look(Depth, Sender<View>),
    Finish,
}
