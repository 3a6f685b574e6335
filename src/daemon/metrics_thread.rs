//! The metrics thread: looks into the workers' channels every few milliseconds, and tells what is worth telling.
//!
//! Nobody wakes it, since that would fall to a hot thread; main reaches it by a channel of commands that it looks into as
//! well. It reads the monotonic clock, and may block on outputs.

use super::recorder_thread::waiting;
use super::tick_feed::TickFeed;
use crate::channels::{TickReceiver, Traffic};
use crate::log::{Output, journal};
use crate::metrics::{Distribution, Metrics, Picture, TaskFacts, Totals};
use crate::pacing::GivenUp;
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, Span};
use crate::worker::Panic;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long it rests between two looks.
const REST: Span = Span::from_millis(10);

/// How many records are taken from one worker at a time, so that one which is faster than this thread does not hold up
/// the others' turn.
const AT_A_TIME: usize = 1 << 18;

/// Records that found no room are told of at most this often.
const TELL_DROPPED_EVERY: Span = Span::from_seconds(1);

/// What one worker sends.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) ticks: TickReceiver,
    pub(super) panics: Option<Receiver<Panic>>,
}

/// What main asks of the metrics thread. Workers have numbers, the first 0, each after it the next.
enum Command {
    AddWorker(String, Feed),
    AddTasks(Vec<(u32, TaskFacts)>),
    RecordTicks(Vec<(u32, Arc<Traffic>)>),
    RemoveTasks(Vec<u32>),
    RemoveWorkers(Vec<usize>),
    GivenUp(Vec<(u32, GivenUp)>),
    Look(Sender<View>),
    Finish,
}

/// What the metrics show at one moment.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) tasks: Vec<(u32, Picture)>,
    pub(super) oversleeps: BTreeMap<usize, Distribution>,
    pub(super) totals: Totals,
    pub(super) sent: u64,
    pub(super) dropped: u64,
}

impl View {
    pub(super) fn picture(&self, id: u32) -> Picture {
        self.tasks.iter().find(|(of, _)| *of == id).map(|(_, picture)| picture.clone()).unwrap_or_default()
    }
}

/// Main's end of the metrics thread.
#[derive(Debug)]
pub(super) struct Collector {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl Collector {
    pub(super) fn spawn(output: Box<dyn Output>, recorder: TickFeed) -> io::Result<Self> {
        let (commands, orders) = unbounded();
        let body = move || {
            Collecting {
                metrics: Metrics::default(),
                workers: BTreeMap::new(),
                next_worker: 0,
                before: (0, 0),
                tasks: Vec::new(),
                output,
                recorder,
                orders,
                later: Vec::new(),
            }
            .run();
        };
        let thread = Builder::new().name("hertzd-metrics".into()).spawn(body)?;
        Ok(Self { commands, thread })
    }

    pub(super) fn add_worker(&self, name: String, feed: Feed) {
        self.order(Command::AddWorker(name, feed));
    }

    /// To be called before the worker may send the first record of them.
    pub(super) fn add_tasks(&self, tasks: Vec<(u32, TaskFacts)>) {
        self.order(Command::AddTasks(tasks));
    }

    /// Hands the ticks of these tasks on to the recorder; to be called before they are added.
    pub(super) fn record_ticks(&self, tasks: Vec<(u32, Arc<Traffic>)>) {
        self.order(Command::RecordTicks(tasks));
    }

    /// To be called after the worker has sent the last record of them.
    pub(super) fn remove_tasks(&self, ids: Vec<u32>) {
        self.order(Command::RemoveTasks(ids));
    }

    /// To be called after the last of their tasks has been removed.
    pub(super) fn remove_workers(&self, numbers: Vec<usize>) {
        self.order(Command::RemoveWorkers(numbers));
    }

    pub(super) fn give_up(&self, given_up: Vec<(u32, GivenUp)>) {
        self.order(Command::GivenUp(given_up));
    }

    /// The totals, unless the metrics thread is held up by its outputs.
    pub(super) fn glimpse(&self) -> Option<Totals> {
        Some(self.look_within(Duration::from_millis(200))?.totals)
    }

    /// What the metrics show, with all records that were sent before; `None`: the log holds the metrics thread up.
    pub(super) fn look_within(&self, patience: Duration) -> Option<View> {
        let (reply, answer) = bounded(1);
        self.order(Command::Look(reply));
        answer.recv_timeout(patience).ok()
    }

    /// Tells everything that is left, and ends the thread. False: it had panicked; `None`: the log takes nothing, and the
    /// thread is left to itself.
    pub(super) fn finish(self, patience: Duration) -> Option<bool> {
        self.order(Command::Finish);
        let clock = KernelClock::monotonic();
        let end = clock.now() + Span::from_wide(i128::try_from(patience.as_nanos()).unwrap_or(i128::MAX));
        while !self.thread.is_finished() {
            if clock.now() > end {
                return None;
            }
            pause(Span::from_millis(1));
        }
        Some(self.thread.join().is_ok())
    }

    fn order(&self, command: Command) {
        // The thread ends before its time only by a panic, which `finish` reports.
        let _ = self.commands.send(command);
    }
}

struct Collecting {
    metrics: Metrics,
    workers: BTreeMap<usize, Feeding>,
    next_worker: usize,
    before: (u64, u64), // records sent and dropped by workers that are gone
    tasks: Vec<u32>,
    output: Box<dyn Output>,
    recorder: TickFeed,
    orders: Receiver<Command>,
    later: Vec<Command>, // asked for, to be done once the records are taken
}

/// One worker's feed, and what was told of it.
struct Feeding {
    name: String,
    feed: Feed,
    dropped: u64, // records whose loss was told
    told: Option<Instant>,
}

impl Collecting {
    fn run(mut self) {
        let clock = KernelClock::monotonic();
        loop {
            self.hear();
            let waiting = self.later.len();
            self.drain(clock.now());
            // What was heard during the draining came after records that may not have been taken: it waits a round.
            for command in self.later.drain(..waiting).collect::<Vec<_>>() {
                if !self.end(command, clock.now()) {
                    return;
                }
            }
            journal::flush();
            pause(REST);
        }
    }

    /// Does what has to be done before the records are taken; gives the rest back.
    fn begin(&mut self, command: Command) -> Option<Command> {
        match command {
            Command::AddWorker(name, feed) => {
                self.metrics.add_worker(name.clone());
                self.workers.insert(self.next_worker, Feeding { name, feed, dropped: 0, told: None });
                self.next_worker += 1;
                None
            }
            Command::RecordTicks(tasks) => {
                tasks.into_iter().for_each(|(id, traffic)| self.recorder.want(id, traffic));
                None
            }
            Command::AddTasks(tasks) => {
                for (id, facts) in tasks {
                    self.tasks.push(id);
                    self.metrics.add_task(id, facts);
                }
                None
            }
            later => Some(later),
        }
    }

    /// Does what has to be done after the records are taken. False: this was the last command.
    fn end(&mut self, command: Command, now: Instant) -> bool {
        match command {
            Command::RemoveTasks(ids) => {
                for id in ids {
                    self.metrics.tell_last(id, now, |event| self.output.event(event));
                    self.metrics.remove_task(id);
                    self.recorder.forget(id);
                    self.tasks.retain(|task| *task != id);
                }
            }
            Command::RemoveWorkers(numbers) => {
                for number in numbers {
                    self.metrics.remove_worker(number);
                    let Some(gone) = self.workers.remove(&number) else { continue };
                    let traffic = gone.feed.ticks.traffic();
                    self.before = (self.before.0 + traffic.sent(), self.before.1 + traffic.dropped());
                }
            }
            Command::GivenUp(given_up) => {
                given_up.into_iter().for_each(|(id, given_up)| self.metrics.take_given_up(id, given_up));
            }
            Command::Look(reply) => {
                let _ = reply.send(self.view());
            }
            Command::Finish => {
                self.metrics.tell(now, true, |event| self.output.event(event));
                return false;
            }
            Command::AddWorker(..) | Command::AddTasks(_) | Command::RecordTicks(_) => {}
        }
        true
    }

    fn drain(&mut self, now: Instant) {
        let numbers: Vec<_> = self.workers.keys().copied().collect();
        for number in numbers {
            for _ in 0..AT_A_TIME {
                let Some(record) = self.workers.get(&number).and_then(|feeding| feeding.feed.ticks.take()) else {
                    break;
                };
                if !self.metrics.knows(record.task) {
                    // Its task was added after this round had begun.
                    self.hear();
                }
                let cause = self.metrics.take(&record);
                self.recorder.offer(&record, cause);
            }
            let Some(Feeding { name, feed, dropped: told_of, told }) = self.workers.get_mut(&number) else { continue };
            for panic in feed.panics.iter().flat_map(Receiver::try_iter) {
                let task = self.metrics.facts(panic.task).map_or("?", |facts| &facts.name);
                self.output.panicked(task, name, panic.n, &panic.text);
            }
            let dropped = feed.ticks.traffic().dropped();
            if dropped > *told_of && told.is_none_or(|told| now - told >= TELL_DROPPED_EVERY) {
                self.output.dropped(name, dropped - *told_of);
                (*told_of, *told) = (dropped, Some(now));
            }
        }
        self.metrics.tell(now, false, |event| self.output.event(event));
    }

    /// Takes the commands that have come: additions are done at once, the others wait for their turn.
    fn hear(&mut self) {
        let (commands, left_alone) = waiting(&self.orders);
        for command in commands {
            if let Some(later) = self.begin(command) {
                self.later.push(later);
            }
        }
        if left_alone {
            self.later.push(Command::Finish);
        }
    }

    fn view(&self) -> View {
        let traffic = |(sent, dropped): (u64, u64), feeding: &Feeding| {
            let traffic = feeding.feed.ticks.traffic();
            (sent + traffic.sent(), dropped + traffic.dropped())
        };
        let (sent, dropped) = self.workers.values().fold(self.before, traffic);
        View {
            tasks: self.tasks.iter().map(|id| (*id, self.metrics.picture(*id))).collect(),
            oversleeps: self.workers.keys().map(|worker| (*worker, self.metrics.oversleep(*worker))).collect(),
            totals: self.metrics.totals(),
            sent,
            dropped,
        }
    }
}
