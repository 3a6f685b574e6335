//! The hot thread: one pinned, high-priority OS thread that runs its tasks one after the other.
//!
//! It is started in steps, so that everything else is there before it turns real-time: [`Worker::spawn`] makes the
//! thread, [`Worker::set_up`] lets it ask the kernel for its CPUs and its priority, [`Worker::start`] hands it the
//! schedule, whose epoch is chosen then. Only the last step enters the hot loop.

mod control;

mod panic;

mod run;

mod set;

mod setup;

pub use control::Control;
pub(crate) use control::{Activity, Doing};
pub(crate) use panic::{Panic, keep_quiet};
pub(crate) use run::{Counts, Exchange};
pub use run::{Report, Runner, Slot};
pub use set::TaskSet;
pub(crate) use set::{Left, Pace, Seat};
pub(crate) use setup::{Refusal, Standing};

use crate::channels::TickSender;
use crate::config::Scheduling;
use crate::pacing::{Sleeps, Tail};
use crate::sys::clock::{KernelClock, thread_cpu_time};
use crate::sys::thread::{self, ThreadId};
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// How many panics wait for the metrics thread at the most.
const PANICS: usize = 64;

/// Everything a worker needs to know before it can be started.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Its name; the thread's name is made from it.
    pub name: String,
    /// The CPUs to pin it to; empty: not pinned.
    pub cpus: Vec<usize>,
    /// How the kernel is asked to schedule it.
    pub scheduling: Scheduling,
    /// The clock its releases lie on.
    pub clock: KernelClock,
    /// Its spin tail.
    pub tail: Tail,
    /// Where its records go.
    pub ticks: TickSender,
}

/// What a worker came to.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Counts of the run.
    pub report: Report,
    /// Processor time used by the loop.
    pub cpu: Span,
}

/// A worker's thread, from outside.
#[derive(Debug)]
pub(crate) struct Worker {
    control: Arc<Control>,
    thread: JoinHandle<Option<Finished>>,
    id: ThreadId,
    panics: Option<Receiver<Panic>>,
    go: Sender<()>,
    standing: Receiver<Standing>,
    start: Sender<TaskSet>,
    incoming: Sender<Box<TaskSet>>,
    outgoing: Receiver<Box<TaskSet>>,
}

impl Worker {
    /// Makes the thread, which then waits. When it has ended it says so on `done`.
    ///
    /// # Errors
    /// The system's reason why there is no thread.
    pub(crate) fn spawn(assignment: Assignment, done: Sender<()>) -> io::Result<Self> {
        let (go, may_go) = bounded::<()>(1);
        let (tell_standing, standing) = bounded(1);
        let (start, take_start) = bounded::<TaskSet>(1);
        let (tell_born, born) = bounded(1);
        let (incoming, take_set) = bounded(1);
        let (give_back, outgoing) = bounded(1);
        let exchange = Exchange { incoming: take_set, outgoing: give_back };
        let control = Arc::new(Control::default());
        // The kernel keeps 15 bytes of a thread's name.
        let name = format!("hz-{}", assignment.name).chars().take(15).collect();
        let shared = control.clone();
        let body = move || {
            let Assignment { cpus, scheduling, clock, tail, ticks, .. } = assignment;
            let _ended = Ended(done);
            let _ = tell_born.send((thread::id(), keep_quiet(PANICS)));
            may_go.recv().ok()?;
            let _ = tell_standing.send(setup::set_up(&cpus, scheduling));
            let set = take_start.recv().ok()?;
            let before = thread_cpu_time();
            let runner = Runner::new(clock, set, Sleeps::new(tail), ticks, shared.clone()).exchanging(exchange);
            let (report, _ticks) = runner.run();
            shared.complete();
            Some(Finished { report, cpu: thread_cpu_time() - before })
        };
        let thread = Builder::new().name(name).spawn(body)?;
        let (id, panics) = born.recv().map_err(|_| io::Error::other("the worker's thread ended at once"))?;
        Ok(Self { control, thread, id, panics: Some(panics), go, standing, start, incoming, outgoing })
    }

    /// The kernel's number of its thread.
    pub(crate) fn id(&self) -> ThreadId {
        self.id
    }

    /// Where its tasks' panics are told; there is one receiver.
    pub(crate) fn take_panics(&mut self) -> Option<Receiver<Panic>> {
        self.panics.take()
    }

    /// Lets it set itself up and, last, promote itself; returns where it then stands.
    ///
    /// # Errors
    /// When the thread has ended.
    pub(crate) fn set_up(&self) -> io::Result<Standing> {
        let gone = "the worker's thread ended during its set-up";
        self.go.send(()).map_err(|_| io::Error::other(gone))?;
        self.standing.recv().map_err(|_| io::Error::other(gone))
    }

    /// Lets it run.
    pub(crate) fn start(&self, set: TaskSet) {
        // A thread that has ended will not take it, and tells so when it is joined.
        let _ = self.start.send(set);
    }

    /// Lays a new set ready, to be taken between two ticks. One at a time: ask [`exchanged`](Self::exchanged) until it
    /// has the old one.
    pub(crate) fn exchange(&self, set: TaskSet) {
        let _ = self.incoming.try_send(Box::new(set));
        self.control.ask_for_exchange();
        self.wake();
    }

    /// The old set, once the new one has been taken. Interrupts a worker that sleeps.
    pub(crate) fn exchanged(&self) -> Option<Box<TaskSet>> {
        let old = self.outgoing.try_recv().ok();
        if old.is_none() {
            self.wake();
        }
        old
    }

    /// What it is doing.
    pub(crate) fn doing(&self) -> Doing {
        self.control.doing()
    }

    /// Sleeps made so far, and time spent in spin tails.
    pub(crate) fn rested(&self) -> (u64, Span) {
        self.control.rested()
    }

    /// Its thread has ended in another way than by coming to its end.
    pub(crate) fn died(&self) -> bool {
        self.thread.is_finished() && !self.control.completed()
    }

    /// Whether its thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks it to end before its next tick. Repeat it until the thread has ended: a request that comes just before the
    /// thread falls asleep does not wake it.
    pub(crate) fn stop(&self) {
        self.control.stop();
        self.wake();
    }

    /// Ends its sleep, if it is asleep. A tick is left alone: whatever a task waits for would be interrupted, too.
    fn wake(&self) {
        if matches!(self.doing().now, Activity::Rests { .. }) && !self.thread.is_finished() {
            thread::interrupt(self.id);
        }
    }

    /// The number of the task that has ended it, as its configuration asks.
    pub(crate) fn failed(&self) -> Option<u32> {
        self.control.failed()
    }

    /// Waits for the thread to end. `None`: it never ran, or a fault of its own ended it.
    pub(crate) fn join(self) -> Option<Finished> {
        drop((self.go, self.start));
        self.thread.join().ok().flatten()
    }
}

/// Says that the thread ends, however it does.
struct Ended(Sender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}
