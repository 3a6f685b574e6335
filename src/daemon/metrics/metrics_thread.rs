//! Starts the metrics thread; main's end of it.
//!
//! Reads the monotonic clock to limit waits.

use super::flight_feed::FlightFeed;
use super::metrics_command::Command;
use super::metrics_loop::{MetricsLoop, goes_on};
use super::tick_feed::TickFeed;
use crate::channels::alarm::Alarm;
use crate::daemon::patience::Patience;
use crate::log::{Output, PanicEvent};
use crate::metrics::{Event, Totals};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::helper;
use crate::time::{Clock, Instant, Span};
use crate::worker::Ended;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use super::metrics_command::{Feed, NewTask, NewWorker};
pub(crate) use super::view::{Depth, View};

/// Interval of checks while main waits for its last view.
const LOOK: Duration = Duration::from_millis(20);

/// Main's end of the metrics thread. Only [`last_look_within`](Self::last_look_within) and [`finish`](Self::finish) wait.
#[derive(Debug)]
pub(crate) struct MetricsThread {
    commands: Sender<Command>,
    totals: Arc<Mutex<Totals>>,
    progress: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl MetricsThread {
    pub(crate) fn spawn(output: Box<dyn Output>, recorder: TickFeed, flight: FlightFeed) -> io::Result<Self> {
        let (commands, receiver) = unbounded();
        let totals = Arc::new(Mutex::new(Totals::default()));
        let progress = Arc::<AtomicU64>::default();
        let (published, shown) = (totals.clone(), progress.clone());
        let output = Box::new(Followed { output, progress: progress.clone() });
        let body = move || MetricsLoop::new(output, recorder, flight, receiver, published, shown).run();
        let thread = helper::spawn("hertzd-metrics", body)?;
        Ok(Self { commands, totals, progress, thread })
    }

    /// Adds a worker. Call this before its tasks are added.
    pub(crate) fn add_worker(&self, worker: NewWorker) {
        self.send(Command::AddWorker(Box::new(worker)));
    }

    /// Adds tasks. Call this before the worker may send their first record.
    pub(crate) fn add_tasks(&self, tasks: Vec<NewTask>, alarms: Vec<Arc<Alarm>>) {
        self.send(Command::AddTasks(tasks, alarms));
    }

    /// Lets the recorder finish recordings that only these tasks write to. Call this after their last record was sent.
    pub(crate) fn finish_tasks(&self, ids: Vec<u32>) {
        self.send(Command::FinishTasks(ids));
    }

    /// Removes tasks. Call this after the worker has sent their last record.
    pub(crate) fn remove_tasks(&self, ids: Vec<u32>) {
        self.send(Command::RemoveTasks(ids));
    }

    /// Removes workers. Call this after the last of their tasks was removed.
    pub(crate) fn remove_workers(&self, numbers: Vec<usize>) {
        self.send(Command::RemoveWorkers(numbers));
    }

    /// Hands over the final counts of tasks. Call this after the worker has sent their last record.
    pub(crate) fn tasks_ended(&self, ended: Ended) {
        self.send(Command::TasksEnded(ended));
    }

    /// Gives up on these tasks of one worker: they report no more, because a tick of `hung` does not return.
    pub(crate) fn give_up(&self, ids: Vec<u32>, hung: Option<u32>) {
        self.send(Command::GiveUp(ids, hung));
    }

    /// The totals of the last poll.
    pub(crate) fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a view that includes all records sent before. It arrives on the channel.
    pub(crate) fn look(&self, depth: Depth) -> Receiver<View> {
        let (reply, answer) = bounded(1);
        self.send(Command::Look(depth, reply));
        answer
    }

    /// Like [`look`](Self::look), for the last time. Waits as long as the thread makes progress: on a slow machine it may have many seconds
    /// of records to process. Calls `waits` meanwhile.
    ///
    /// # Errors
    /// A timeout if the log blocks the metrics thread for `patience`; otherwise the thread has died or is about to.
    pub(crate) fn last_look_within(&self, patience: Span, waits: impl Fn()) -> Result<View, RecvTimeoutError> {
        let view = self.look(Depth::Last);
        let mut held_up = HeldUp::new(&self.progress, patience, now());
        loop {
            let answer = view.recv_timeout(LOOK);
            if !matches!(answer, Err(RecvTimeoutError::Timeout)) || held_up.look(now()) {
                return answer;
            }
            waits();
        }
    }

    /// Reports everything that is left and ends the thread. Calls `waits` meanwhile. Returns whether it has ended: if the log blocks it for
    /// `patience`, it is left behind.
    pub(crate) fn finish(self, patience: Span, waits: impl Fn()) -> bool {
        self.send(Command::Finish);
        let mut held_up = HeldUp::new(&self.progress, patience, now());
        let mut looks = 0_u64;
        while !self.thread.is_finished() {
            if held_up.look(now()) {
                return false;
            }
            looks += 1;
            if looks.is_multiple_of(20) {
                waits();
            }
            pause(Span::from_millis(1));
        }
        true
    }

    fn send(&self, command: Command) {
        // The thread ends early only by a panic, which ends the run.
        let _ = self.commands.send(command);
    }
}

/// An output that shows main each entry it takes, so that a slow log still counts as progress.
struct Followed {
    output: Box<dyn Output>,
    progress: Arc<AtomicU64>,
}

impl Output for Followed {
    fn event(&mut self, event: &Event<'_>) {
        self.output.event(event);
        goes_on(&self.progress);
    }

    fn panicked(&mut self, panic: &PanicEvent<'_>) {
        self.output.panicked(panic);
        goes_on(&self.progress);
    }

    fn dropped(&mut self, worker: &str, dropped: u64) {
        self.output.dropped(worker, dropped);
        goes_on(&self.progress);
    }
}

/// A wait for a thread that shows progress. Only time without progress counts.
struct HeldUp<'a> {
    progress: &'a AtomicU64,
    seen: u64,
    limit: Span,
    patience: Patience,
}

impl<'a> HeldUp<'a> {
    fn new(progress: &'a AtomicU64, limit: Span, now: Instant) -> Self {
        Self { progress, seen: progress.load(Ordering::Relaxed), limit, patience: Patience::since(now, limit) }
    }

    /// Whether it made no progress for longer than the limit. Call this at least ten times a second.
    fn look(&mut self, now: Instant) -> bool {
        let progress = self.progress.load(Ordering::Relaxed);
        if progress != self.seen {
            (self.seen, self.patience) = (progress, Patience::since(now, self.limit));
        }
        self.patience.look(now)
    }
}

fn now() -> Instant {
    KernelClock::monotonic().now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::EventKind;

    struct Slow;

    impl Output for Slow {
        fn event(&mut self, _: &Event<'_>) {}
        fn panicked(&mut self, _: &PanicEvent<'_>) {}
        fn dropped(&mut self, _: &str, _: u64) {}
    }

    #[test]
    fn each_entry_that_the_output_takes_is_progress() {
        let progress = Arc::<AtomicU64>::default();
        let mut followed = Followed { output: Box::new(Slow), progress: progress.clone() };
        let seen = || progress.load(Ordering::Relaxed);
        followed.dropped("a", 7);
        assert_eq!(seen(), 1);
        followed.panicked(&PanicEvent { task: "imu", worker: "a", n: 3, text: "", count: 1, ended: false });
        assert_eq!(seen(), 2);
        let kind = EventKind::OverBudget { count: 1, n: 3, run: Span::from_millis(2) };
        followed.event(&Event { task: "imu", worker: "a", columns: &[], kind });
        assert_eq!(seen(), 3);
    }

    #[test]
    fn progress_gives_the_whole_time_again() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let progress = AtomicU64::new(0);
        let mut held_up = HeldUp::new(&progress, Span::from_millis(150), at(0));
        assert!(!held_up.look(at(100)));
        progress.fetch_add(1, Ordering::Relaxed);
        assert!(!held_up.look(at(200)));
        assert!(!held_up.look(at(300)), "not 150 ms since it was seen");
        assert!(held_up.look(at(400)), "none was made");
    }
}
