//! Main's end of the metrics thread, and its start.
//!
//! Reads the monotonic clock to limit what waits.

use super::flight_feed::FlightFeed;
use super::metrics_command::Command;
use super::metrics_loop::MetricsLoop;
use super::patience::Patience;
use super::tick_feed::TickFeed;
use crate::log::Output;
use crate::metrics::Totals;
use crate::sys::clock::pause;
use crate::sys::thread::helper;
use crate::time::Span;
use crate::worker::Ended;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) use super::metrics_command::{Feed, NewTask, NewWorker};
pub(super) use super::view::{Depth, View};

/// From one look to the next while main waits for its last view.
const LOOK: Duration = Duration::from_millis(20);

/// Main's end of the metrics thread. Only [`last_look_within`](Self::last_look_within) and [`finish`](Self::finish) wait.
#[derive(Debug)]
pub(super) struct MetricsThread {
    commands: Sender<Command>,
    totals: Arc<Mutex<Totals>>,
    thread: JoinHandle<()>,
}

impl MetricsThread {
    pub(super) fn spawn(output: Box<dyn Output>, recorder: TickFeed, flight: FlightFeed) -> io::Result<Self> {
        let (commands, receiver) = unbounded();
        let totals = Arc::new(Mutex::new(Totals::default()));
        let published = totals.clone();
        let body = move || MetricsLoop::new(output, recorder, flight, receiver, published).run();
        let thread = helper::spawn("hertzd-metrics", body)?;
        Ok(Self { commands, totals, thread })
    }

    /// To be called before its tasks are added.
    pub(super) fn add_worker(&self, worker: NewWorker) {
        self.send(Command::AddWorker(Box::new(worker)));
    }

    /// To be called before the worker may send the first record of them.
    pub(super) fn add_tasks(&self, tasks: Vec<NewTask>) {
        self.send(Command::AddTasks(tasks));
    }

    /// Lets the recorder finish what only these tasks record to. To be called after the last record of them was sent.
    pub(super) fn finish_tasks(&self, ids: Vec<u32>) {
        self.send(Command::FinishTasks(ids));
    }

    /// To be called after the worker has sent the last record of them.
    pub(super) fn remove_tasks(&self, ids: Vec<u32>) {
        self.send(Command::RemoveTasks(ids));
    }

    /// To be called after the last of their tasks has been removed.
    pub(super) fn remove_workers(&self, numbers: Vec<usize>) {
        self.send(Command::RemoveWorkers(numbers));
    }

    /// Hands over the final counts of tasks. To be called after the worker has sent the last record of them.
    pub(super) fn tasks_ended(&self, ended: Ended) {
        self.send(Command::TasksEnded(ended));
    }

    /// These tasks of one worker report no more, because a tick of `hung` does not return.
    pub(super) fn give_up(&self, ids: Vec<u32>, hung: Option<u32>) {
        self.send(Command::GiveUp(ids, hung));
    }

    /// The totals of the latest poll.
    pub(super) fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a view with all records that were sent before; it comes through the channel.
    pub(super) fn look(&self, depth: Depth) -> Receiver<View> {
        let (reply, answer) = bounded(1);
        self.send(Command::Look(depth, reply));
        answer
    }

    /// As [`look`](Self::look), for the last time.
    ///
    /// # Errors
    /// A timeout if the log holds the metrics thread up; else the thread has died, or is about to.
    pub(super) fn last_look_within(&self, patience: Span) -> Result<View, RecvTimeoutError> {
        let (view, mut patience) = (self.look(Depth::Last), Patience::new(patience));
        loop {
            let answer = view.recv_timeout(LOOK);
            if !matches!(answer, Err(RecvTimeoutError::Timeout)) || patience.is_over() {
                return answer;
            }
        }
    }

    /// Reports everything that is left, and ends the thread. One that the log holds up for `patience` is left alone with it.
    pub(super) fn finish(self, patience: Span) {
        self.send(Command::Finish);
        let mut patience = Patience::new(patience);
        while !self.thread.is_finished() && !patience.is_over() {
            pause(Span::from_millis(1));
        }
    }

    fn send(&self, command: Command) {
        // The thread ends before its time only by a panic, which ends the run.
        let _ = self.commands.send(command);
    }
}
