//! The hot thread: one pinned, high-priority OS thread that runs its tasks one after the other.
//!
//! It starts in steps, so that everything else exists before the thread turns real-time. [`Worker::spawn`] makes the thread.
//! [`Worker::set_up`] lets the thread ask the kernel for its CPUs and its priority. [`Worker::start`] passes it its tasks, whose epoch is
//! chosen at that point. Only the last step enters the hot loop.

mod clock;
mod control;
mod evidence;
mod flow;
mod judge;
mod orders;
mod panic;
mod run;
mod set;
mod setup;
mod slot;
mod stuck;
mod witness;

pub use control::Control;
pub(crate) use control::{Activity, Doing};
pub use evidence::ThreadEvidence;
pub(crate) use flow::Flow;
pub(crate) use panic::Panic;
pub(crate) use run::Report;
pub use run::Runner;
pub use set::TaskSet;
pub(crate) use set::{Ended, NextTask, Pace};
pub(crate) use setup::{Granted, Refusal, set_up};
pub use slot::Slot;
pub(crate) use stuck::Stuck;

use crate::channels::{TickSender, size};
use crate::config::{Scheduling, TakeEvidence};
use crate::pacing::{Sleeps, Tail};
use crate::sys::clock::{KernelClock, thread_cpu_time};
use crate::sys::thread::{self, Bandwidth, ThreadId, helper};
use crate::time::{Instant, Span};
use crossbeam_channel::{Receiver, Sender, bounded};
use orders::{Order, Orders};
use set::Exchange;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Everything a worker needs to know before it can be started.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The worker's name; the thread's name is derived from it.
    pub name: String,
    /// The CPUs to pin it to; empty if it is not pinned.
    pub cpus: Vec<usize>,
    /// The CPUs of a worker with the policy `deadline`, which the kernel grants only to a thread that may run anywhere. Empty: the CPUs of
    /// the thread that creates it.
    pub anywhere: Vec<usize>,
    /// The scheduling policy to request from the kernel.
    pub scheduling: Scheduling,
    /// When it takes evidence.
    pub evidence: TakeEvidence,
    /// Its spin tail.
    pub tail: Tail,
    /// Destination of its tick records.
    pub ticks: TickSender,
}

/// The result of a worker's run.
pub(crate) struct Finished {
    /// Counts of the run.
    pub report: Report,
    /// Processor time used by the loop.
    pub cpu: Span,
    /// Its task set, and the exchange with any set not yet taken. Dropping them closes files, which may block.
    _tasks: (Box<TaskSet>, Option<Exchange>),
}

/// How a worker's thread ended.
pub(crate) enum WorkerEnd {
    /// The run came to its end.
    Finished(Finished),
    /// The worker was never started.
    Unused,
    /// A fault in the worker itself ended it.
    Died,
}

/// A worker's thread, seen from outside. Nothing here blocks except [`set_up`](Self::set_up).
#[derive(Debug)]
pub(crate) struct Worker {
    control: Arc<Control>,
    thread: JoinHandle<()>,
    id: ThreadId,
    granted: Receiver<Granted>,
    orders: Option<Orders>, // until it has started
    started: bool,
    incoming: Sender<Box<TaskSet>>,
    outgoing: Receiver<Box<TaskSet>>,
    finished: Receiver<Finished>,
}

impl Worker {
    /// Makes the thread, which then waits for orders. Also returns the receiver of its tasks' panics. The thread sends on `done` when it
    /// ends.
    ///
    /// # Errors
    /// The system's reason why the thread could not be made.
    pub(crate) fn spawn(assignment: Assignment, done: Sender<()>) -> io::Result<(Self, Receiver<Panic>)> {
        let (order, take_order) = orders::channel();
        let (tell_granted, granted) = bounded(2);
        let (tell_born, born) = bounded(1);
        let (incoming, take_set) = bounded(1);
        let (give_back, outgoing) = bounded(1);
        let (finish, finished) = bounded(1);
        let exchange = Exchange { incoming: take_set, outgoing: give_back };
        let control = Arc::new(Control::default());
        // The kernel keeps 15 bytes of a thread's name.
        let name: String = format!("hz-{}", assignment.name).chars().take(15).collect();
        let shared = control.clone();
        let body = move || {
            let Assignment { cpus, anywhere, scheduling, evidence, tail, ticks, .. } = assignment;
            let _done = SendOnDrop(done);
            if matches!(scheduling, Scheduling::Deadline { .. }) && !anywhere.is_empty() {
                // If pinning is refused, the policy is refused too, and that is reported.
                let _ = thread::pin(&anywhere);
            }
            let _ = tell_born.send((thread::id(), panic::capture(size::PANICS)));
            let witness = (evidence != TakeEvidence::Off).then(ThreadEvidence::of_this_thread);
            let set = loop {
                let _ = match orders::next(&take_order) {
                    Some(Order::SetUp(freed)) => tell_granted.send(set_up(&cpus, scheduling, freed)),
                    Some(Order::Promote(patience)) => {
                        tell_granted.send(setup::promote_later(scheduling, patience, || shared.stopping()))
                    }
                    Some(Order::Start(set)) => break *set,
                    None => return,
                };
            };
            let clock = KernelClock::monotonic();
            let mut runner = Runner::new(clock, set, Sleeps::new(tail), ticks, shared).exchanging(exchange);
            if let Some(witness) = witness {
                runner = runner.with_evidence(Box::new(witness), evidence == TakeEvidence::Tick);
            }
            let runner = runner.rehearsed();
            let before = thread_cpu_time();
            let (report, _ticks, tasks) = runner.run();
            let _ = finish.send(Finished { report, cpu: thread_cpu_time() - before, _tasks: tasks });
        };
        let thread = helper::spawn(&name, body)?;
        let (id, panics) = born.recv().map_err(|_| io::Error::other("the worker's thread ended at once"))?;
        let orders = Some(Orders::to(thread.thread().clone(), order));
        Ok((Self { control, thread, id, granted, orders, started: false, incoming, outgoing, finished }, panics))
    }

    /// The kernel's id of the thread.
    pub(crate) fn id(&self) -> ThreadId {
        self.id
    }

    /// Lets the thread set itself up and, as the last step, promote itself; waits for the result. Threads that are about to end will give
    /// back the bandwidth `freed`. A deadline policy that fits only then is granted later, by [`promote`](Self::promote).
    ///
    /// # Errors
    /// If the thread has ended.
    pub(crate) fn set_up(&self, freed: Bandwidth) -> io::Result<Granted> {
        self.order(Order::SetUp(freed));
        self.granted.recv().map_err(|_| io::Error::other("the worker's thread ended during its set-up"))
    }

    /// Lets the thread promote itself, now that the threads that were about to end have ended. The kernel may give their bandwidth back a
    /// period later, so the thread tries for `patience`. Poll [`promoted`](Self::promoted).
    pub(crate) fn promote(&self, patience: Span) {
        self.order(Order::Promote(patience));
    }

    /// The result of [`promote`](Self::promote); `None` while the thread still tries, or if it has ended.
    pub(crate) fn promoted(&self) -> Option<Granted> {
        self.granted.try_recv().ok()
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            orders.send(order);
        }
    }

    /// Starts the loop, which should be running at `begin`, on the monotonic clock. Until the thread gets processor time to publish more,
    /// it appears to wait for `begin`.
    pub(crate) fn start(&mut self, set: TaskSet, begin: Instant) {
        if let Some(orders) = self.orders.take() {
            self.control.rests(begin);
            // A thread that has ended is reported as died.
            orders.send(Order::Start(Box::new(set)));
            self.started = true;
        }
    }

    /// Sets how far the clock of its releases is ahead of the monotonic clock. Call this before the start and after each step.
    pub(crate) fn set_offset(&self, offset: Span) {
        self.control.set_offset(offset);
        self.wake();
    }

    /// Whether the worker sleeps unaware of the most recent step. If so, interrupts it; repeat until it is aware.
    pub(crate) fn sleeps_over_a_step(&self) -> bool {
        let oblivious = self.started && !self.control.has_adopted() && !self.is_finished();
        if oblivious {
            self.wake();
        }
        oblivious && matches!(self.doing().now, Activity::Rests { .. })
    }

    /// Passes a new set to the worker, which takes it between two ticks. One at a time: poll [`exchanged`](Self::exchanged) until the old
    /// set is back.
    pub(crate) fn exchange(&self, set: TaskSet) {
        let _ = self.incoming.try_send(Box::new(set));
        self.control.ask_for_exchange();
        self.wake();
    }

    /// Returns the old set once the new one has been taken. Interrupts a sleeping worker.
    pub(crate) fn exchanged(&self) -> Option<Box<TaskSet>> {
        let old = self.outgoing.try_recv().ok();
        if old.is_none() {
            self.wake();
        }
        old
    }

    /// What the worker is doing.
    pub(crate) fn doing(&self) -> Doing {
        self.control.doing()
    }

    /// Sleeps made so far, and time spent in spin tails.
    pub(crate) fn rested(&self) -> (u64, Span) {
        self.control.rested()
    }

    /// Whether the target of its spin tail costs more than allowed.
    pub(crate) fn falls_short(&self) -> bool {
        self.control.falls_short()
    }

    /// Whether its thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// How the worker ended; `None` while it runs. The result is returned only once.
    pub(crate) fn take_end(&self) -> Option<WorkerEnd> {
        let over = self.thread.is_finished();
        // The order matters: a thread sends its result before it ends.
        match self.finished.try_recv() {
            Ok(finished) => Some(WorkerEnd::Finished(finished)),
            Err(_) if !over => None,
            Err(_) if self.started => Some(WorkerEnd::Died),
            Err(_) => Some(WorkerEnd::Unused),
        }
    }

    /// Asks the worker to end before its next tick. Repeat until the thread has ended: a request that comes just before the thread falls
    /// asleep does not wake it.
    pub(crate) fn stop(&mut self) {
        self.orders = None; // ends a thread that was never started
        self.control.stop();
        self.wake();
    }

    /// Interrupts its sleep, if it sleeps. Never interrupts a tick: that would disturb the task's own system calls.
    fn wake(&self) {
        if matches!(self.doing().now, Activity::Rests { .. }) && !self.thread.is_finished() {
            thread::interrupt(self.id);
        }
    }

    /// The number of the task that ended the worker because its configuration says so.
    pub(crate) fn failed(&self) -> Option<u32> {
        self.control.failed()
    }
}

/// Sends on drop, so that the end of the thread is noticed in every case.
struct SendOnDrop(Sender<()>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[cfg(test)]
mod tests;
