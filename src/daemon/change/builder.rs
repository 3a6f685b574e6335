//! Main's end of the builder thread, which does everything that may block.
//!
//! Main never waits for the builder, except at the end, and then for a limited time. Unfinished work ends with the process.

use super::builder_loop::{BuilderLoop, Held, Job, READING, Shared, still_owed};
use super::cpu_places::AllowedCpus;
use super::diff::Sections;
use super::joints::Joints;
use super::loader::Loader;
use super::prepared::Prepared;
use crate::daemon::busy::Busy;
use crate::daemon::failure::Failure;
use crate::daemon::outputs::guard_thread::GuardThread;
use crate::daemon::outputs::plan_file::PlanFile;
use crate::recording::Recordings;
use crate::site::Site;
use crate::sys::thread::helper;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender, bounded, never, unbounded};
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Extra time at the end if safe values that earlier processes left are still unwritten.
const LEFT_PATIENCE: Duration = Duration::from_secs(3);

/// Main's end of the builder thread. Only [`finish`](Self::finish) waits.
#[derive(Debug)]
pub(crate) struct Builder {
    jobs: Sender<Job>,
    /// The result of each [`prepare`](Self::prepare) and each [`write`](Self::write).
    pub(crate) prepared: Receiver<Result<Prepared, Failure>>,
    shared: Arc<Shared>,
}

/// How the builder ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BuilderEnd {
    Finished,
    /// It panicked; the panic is reported elsewhere.
    Died,
    /// The activity that has not returned.
    HeldUp(String),
}

impl Builder {
    /// Starts the thread. Its workers send on `done` when they end.
    pub(crate) fn spawn(
        load: Loader,
        site: Site,
        guard: Arc<GuardThread>,
        plan: PlanFile,
        allowed: Arc<AllowedCpus>,
        done: Sender<()>,
    ) -> io::Result<Self> {
        let (jobs, receiver) = unbounded();
        let (reply, prepared) = unbounded();
        // The first activity is always reading the configuration.
        let shared = Arc::new(Shared::default());
        shared.begin(READING.into());
        let (owed, targets) = (site.common(), site.common());
        let recordings = Recordings::new(site.common());
        let builder = BuilderLoop {
            load,
            site,
            owed,
            targets,
            guard,
            plan,
            allowed,
            done,
            recordings,
            next_task: 0,
            next_worker: 0,
            rooms: BTreeMap::new(),
            locked: None,
            _latency: None,
            contended: None,
            shared: shared.clone(),
        };
        helper::spawn("hertzd-builder", move || builder.run(&receiver, &reply))?;
        Ok(Self { jobs, prepared, shared })
    }

    /// Reads the configuration and prepares whatever differs from the running set. That set has these sections and joints, and its workers
    /// hold this bandwidth.
    pub(crate) fn prepare(&self, running: Arc<Sections>, joints: Arc<Joints>, held: Held) {
        self.send(Job::Prepare(running, joints, held));
    }

    /// Writes the initial outputs of this set: the second step, once nothing but a device can refuse the set.
    pub(crate) fn write(&self, prepared: Prepared) {
        self.send(Job::Write(Box::new(prepared)));
    }

    /// Drops `ended` on the builder thread, because closing files may take time.
    pub(crate) fn close(&self, ended: impl Any + Send) {
        self.send(Job::Close(Box::new(ended)));
    }

    /// Rewrites the plan of safe values: a target's path has changed, or a target got its safe value after its task had ended.
    pub(crate) fn update_plan(&self) {
        self.send(Job::UpdatePlan);
    }

    pub(crate) fn memory_locked(&self) -> bool {
        self.shared.memory_locked.load(Ordering::Relaxed)
    }

    /// What the builder is doing; `None`: nothing.
    pub(crate) fn busy(&self) -> Option<Busy> {
        self.shared.busy()
    }

    /// What is wrong with the plan of safe values; `None`: nothing.
    pub(crate) fn plan_trouble(&self) -> Option<String> {
        self.shared.plan_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Safe values left by earlier processes and still unwritten, and targets that another hertzd also has; `None`: there are none.
    pub(crate) fn owed(&self) -> Option<String> {
        self.shared.owed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The safe values left by earlier runs that this start has not written yet. `None`: it has started, or none is left.
    pub(crate) fn not_dealt_with(&self) -> Option<String> {
        let tasks = self.left()?;
        Some(format!(
            "{tasks}: the safe values that an earlier run has left are not written yet, as this start has not ended: look at the device that it waits \
             for, or stop hertzd, which then writes those that it can"
        ))
    }

    /// Waits at most `patience` until everything is done, and longer while safe values left by earlier processes are unwritten. Also
    /// returns what is [owed](Self::owed) then. If the start was stopped, that includes what it has not written.
    pub(crate) fn finish(mut self, patience: Duration) -> (BuilderEnd, Option<String>) {
        self.shared.stops.store(true, Ordering::Relaxed);
        let patience = if self.left().or(self.owed()).is_some() { patience + LEFT_PATIENCE } else { patience };
        let (reply, answer) = bounded(1);
        let prepared = std::mem::replace(&mut self.prepared, never());
        self.close(prepared); // along with any results still queued
        self.send(Job::Finish(reply));
        let end = match answer.recv_timeout(patience) {
            Ok(()) => BuilderEnd::Finished,
            Err(RecvTimeoutError::Disconnected) => BuilderEnd::Died,
            Err(RecvTimeoutError::Timeout) => {
                BuilderEnd::HeldUp(self.busy().map(|busy| busy.activity).unwrap_or_default())
            }
        };
        let left = self.left().map(|tasks| format!("the start was stopped, and {}", still_owed(&tasks)));
        let all: Vec<_> = self.owed().into_iter().chain(left).collect();
        (end, (!all.is_empty()).then(|| all.join("; ")))
    }

    /// The tasks whose safe values a start has still to deal with; `None`: the start is complete, or there are no such tasks.
    fn left(&self) -> Option<String> {
        self.shared.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send(&self, job: Job) {
        // The thread ends early only by a panic. Then files it should close stay open until the process ends.
        if let Err(SendError(Job::Close(ended))) = self.jobs.send(job) {
            std::mem::forget(ended);
        }
    }
}
