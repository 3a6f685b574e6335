//! The metrics thread's work: polls the workers' channels every few milliseconds, judges what was missed, and reports events.
//!
//! It polls because waking it would cost a hot thread time. Its commands come through a channel that it polls too. Reads the monotonic
//! clock; may block on outputs.

use super::alarm_log::AlarmLog;
use super::flight_feed::FlightFeed;
use super::metrics_command::{Command, Feed, NewTask, NewWorker};
use super::panic_limit::PanicLimit;
use super::tick_feed::{TickFeed, waiting};
use super::tick_trace;
use super::view::{Depth, View};
use super::witnesses::Witnesses;
use crate::channels::{Assembly, Part, Sent};
use crate::log::{Output, PanicEvent, journal};
use crate::metrics::{Metrics, Totals};
use crate::sys::clock::{KernelClock, pause};
use crate::time::{Clock, Instant, NANOS_PER_SECOND, Span};
use crate::worker::{Ended, Panic};
use crossbeam_channel::Receiver;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest and the shortest pause between two polls.
const RESTS: [Span; 2] = [Span::from_millis(20), Span::from_millis(1)];

/// For a second after a miss, pause at most this long: evidence of the cause is only as fine as the polling.
const REST_IN_TROUBLE: Span = Span::from_millis(10);
const TROUBLE_LASTS: Span = Span::from_seconds(1);

/// How full a pause may leave a channel. The rest is for delays of this thread.
const FILLED: f64 = 0.25;

/// Maximum number of records taken from one worker at a time: half of what the judge of causes remembers.
const AT_A_TIME: usize = 1 << 11;

/// The same for a single worker, whose records need no comparison with others: what stays in the caches until it is judged.
const AT_A_TIME_ALONE: usize = 1 << 8;

/// The tasks' windows are updated this long before each second ends. That is longer than the longest pause, so records of a second count in
/// that second.
const SAMPLE_BEFORE: Span = Span::from_millis(30);

/// While something is missed, how often to check whether a task waits and does not run at all.
const LOOK_EVERY: Span = Span::from_millis(250);

/// Tasks sampled with one reading of their clock.
const BY_A_READING: usize = 64;

/// After this many records, main is shown some progress.
const PROGRESS_EVERY: usize = 32;

/// Dropped records of a worker are reported at most this often.
const REPORT_EVERY: Span = Span::from_seconds(1);

/// The metrics thread's state while it runs.
pub(crate) struct MetricsLoop {
    metrics: Metrics,
    witnesses: Witnesses,
    ahead: Vec<(usize, Part)>, // observed but not judged yet, with worker numbers
    taken: Vec<(usize, Part)>, // empty between two rounds; its memory is reused
    workers: BTreeMap<usize, WorkerFeed>,
    panics: BTreeMap<u32, PanicLimit>,
    alarms: AlarmLog,
    before: (u64, u64),             // records sent and dropped by workers that have ended
    tasks: Vec<(u32, KernelClock)>, // sorted by number; with the clock of its releases
    sampled: i128,                  // the second that all of them were sampled in, or for
    looked: Instant,                // last check whether one of them waits
    output: Box<dyn Output>,
    recorder: TickFeed,
    flight: FlightFeed,
    commands: Receiver<Command>,
    later: Vec<Command>, // to be done once the records are taken
    rest: Span,          // the pause between two polls
    slept: Span,         // the last pause
    troubled: Instant,   // when something was last missed
    published: Arc<Mutex<Totals>>,
    progress: Arc<AtomicU64>,
}

/// Shows main that the thread makes progress.
pub(crate) fn goes_on(progress: &AtomicU64) {
    progress.fetch_add(1, Ordering::Relaxed);
}

/// One worker's feed, and the dropped records already reported.
struct WorkerFeed {
    name: String,
    feed: Feed,
    observed: Assembly,
    judged: Assembly,
    dropped: u64,
    reported: Option<Instant>,
}

impl MetricsLoop {
    /// Call this on the thread that will run it. It publishes the totals of each poll. `progress` grows while it works, but not while the
    /// output blocks.
    pub(crate) fn new(
        output: Box<dyn Output>,
        recorder: TickFeed,
        flight: FlightFeed,
        commands: Receiver<Command>,
        published: Arc<Mutex<Totals>>,
        progress: Arc<AtomicU64>,
    ) -> Self {
        let mut metrics = Metrics::default();
        let witnesses = Witnesses::new(metrics.threads());
        if flight.is_on() {
            metrics.keep_unreported();
        }
        Self {
            metrics,
            witnesses,
            ahead: Vec::new(),
            taken: Vec::new(),
            workers: BTreeMap::new(),
            panics: BTreeMap::new(),
            alarms: AlarmLog::default(),
            before: (0, 0),
            tasks: Vec::new(),
            sampled: 0,
            looked: Instant::ZERO,
            output,
            recorder,
            flight,
            commands,
            later: Vec::new(),
            rest: RESTS[0],
            slept: Span::ZERO,
            troubled: Instant::ZERO,
            published,
            progress,
        }
    }

    pub(crate) fn run(mut self) {
        let clock = KernelClock::monotonic();
        loop {
            self.receive();
            let count = self.later.len();
            let now = clock.now();
            self.drain(now);
            goes_on(&self.progress);
            *self.published.lock().unwrap_or_else(PoisonError::into_inner) = self.metrics.totals();
            // A command that came while draining may concern records not taken yet, so it waits a round.
            for command in self.later.drain(..count).collect::<Vec<_>>() {
                if !self.execute_after(command, clock.now()) {
                    return;
                }
                goes_on(&self.progress);
            }
            journal::flush();
            self.witnesses.pause(self.metrics.threads(), now);
            let troubled = now - self.troubled < TROUBLE_LASTS;
            self.slept = if troubled { self.rest.min(REST_IN_TROUBLE) } else { self.rest };
            pause(self.slept);
        }
    }

    /// Executes additions at once, before records are taken. Keeps the other commands for afterwards.
    fn receive(&mut self) {
        let (commands, disconnected) = waiting(&self.commands);
        for command in commands {
            match command {
                Command::AddWorker(worker) => {
                    let NewWorker { number, config, granted, thread, feed } = *worker;
                    let facts = self.witnesses.add(number, thread, &config, &granted);
                    self.flight.add_worker(number, thread, &config, &granted, KernelClock::monotonic().now());
                    self.metrics.add_worker(number, config.name.clone(), facts);
                    let name = config.name;
                    let (observed, judged) = (Assembly::default(), Assembly::default());
                    self.workers
                        .insert(number, WorkerFeed { name, feed, observed, judged, dropped: 0, reported: None });
                }
                Command::AddTasks(tasks, alarms) => {
                    let now = KernelClock::monotonic().now();
                    self.flight.begin(tasks.iter().map(|task| task.facts.rate.hertz()).sum());
                    for NewTask { id, facts, clock, recorded } in tasks {
                        recorded.into_iter().for_each(|traffic| self.recorder.add(id, traffic));
                        self.flight.add_task(id, &facts, now);
                        self.tasks.push((id, clock));
                        self.metrics.add_task(id, facts);
                    }
                    self.tasks.sort_unstable_by_key(|(id, _)| *id);
                    alarms.into_iter().for_each(|alarm| self.alarms.all.add(alarm));
                    self.rest = self.longest_rest();
                }
                command => self.later.push(command),
            }
        }
        if disconnected {
            self.later.push(Command::Finish);
        }
    }

    /// The longest pause in which no channel fills by more than [`FILLED`], given the tasks' rates.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "far from the limits, and clamped"
    )]
    fn longest_rest(&self) -> Span {
        let mut hertz = BTreeMap::<usize, f64>::new();
        for facts in self.tasks.iter().filter_map(|(id, _)| self.metrics.facts(*id)) {
            *hertz.entry(facts.worker).or_default() += facts.rate.hertz();
        }
        let rest = |(number, hertz): (&usize, &f64)| {
            let room = self.workers.get(number)?.feed.ticks.room();
            Some(Span::from_nanos((FILLED * room as f64 / hertz * 1e9) as i64))
        };
        let [longest, shortest] = RESTS;
        hertz.iter().filter_map(rest).fold(longest, Span::min).max(shortest)
    }

    /// Executes a command once the records are taken. Returns false for the last command.
    fn execute_after(&mut self, command: Command, now: Instant) -> bool {
        match command {
            Command::FinishTasks(ids) => ids.into_iter().for_each(|id| self.recorder.finish(id)),
            Command::RemoveTasks(ids) => {
                let ids: BTreeSet<_> = ids.into_iter().collect();
                for id in &ids {
                    self.metrics.report_last(*id, now, |event| self.output.event(event));
                    self.recorder.remove(*id, self.metrics.final_ticks(*id));
                    self.metrics.remove_task(*id);
                    self.flight.end_task(*id, now);
                    self.panics.remove(id);
                }
                self.tasks.retain(|(task, _)| !ids.contains(task));
                self.rest = self.longest_rest();
            }
            Command::RemoveWorkers(numbers) => {
                for number in numbers {
                    self.metrics.remove_worker(number);
                    self.witnesses.remove(number);
                    self.flight.end_worker(number, now);
                    let Some(removed) = self.workers.remove(&number) else { continue };
                    let traffic = removed.feed.ticks.traffic();
                    self.before = (self.before.0 + traffic.sent(), self.before.1 + traffic.dropped());
                }
            }
            Command::TasksEnded(Ended { tasks, given_up }) => {
                given_up.into_iter().for_each(|(id, given_up)| self.metrics.take_given_up(id, given_up));
                tasks.iter().for_each(|(id, counts)| self.metrics.take_counts(*id, counts));
            }
            Command::GiveUp(ids, hung) => {
                let ids: BTreeSet<_> = ids.into_iter().collect();
                for (id, clock) in self.tasks.iter().filter(|(id, _)| ids.contains(id)) {
                    self.metrics.give_up(*id, clock.now(), hung);
                }
            }
            Command::Look(depth, reply) => {
                let _ = reply.send(self.view(depth));
            }
            Command::Finish => {
                self.alarms.finish(now);
                self.metrics.report(now, true, |event| self.output.event(event));
                self.offer_unreported();
                self.flight.finish(now, self.traffic().1);
                return false;
            }
            Command::AddWorker(_) | Command::AddTasks(..) => {}
        }
        true
    }

    fn drain(&mut self, now: Instant) {
        self.metrics.drains_at(now);
        self.witnesses.begin(self.metrics.threads(), now, self.slept);
        // Take only what is waiting now: workers that send faster than this would keep the thread from everything else.
        let waiting = self.workers.values().map(|worker| worker.feed.ticks.waiting()).max().unwrap_or(0);
        self.metrics.threads().hurry(waiting >= AT_A_TIME);
        for _ in 0..=waiting / self.at_a_time() {
            if !self.take_some(now) {
                break;
            }
        }
        for WorkerFeed { name, feed, dropped: known, reported, .. } in self.workers.values_mut() {
            for Panic { task: id, n, text, ended } in feed.panics.try_iter() {
                let Some(count) = self.panics.entry(id).or_default().count(now, ended) else { continue };
                let task = self.metrics.facts(id).map_or("?", |facts| &facts.name);
                self.output.panicked(&PanicEvent { task, worker: name, n, text: &text, count, ended });
            }
            let dropped = feed.ticks.traffic().dropped();
            if dropped > *known && reported.is_none_or(|reported| now - reported >= REPORT_EVERY) {
                self.output.dropped(name, dropped - *known);
                (*known, *reported) = (dropped, Some(now));
            }
        }
        let second = (now + SAMPLE_BEFORE).nanos() / i128::from(NANOS_PER_SECOND);
        if second != self.sampled {
            self.sampled = second;
            self.sample();
        }
        if now - self.troubled < TROUBLE_LASTS && now - self.looked >= LOOK_EVERY {
            self.looked = now;
            self.tasks.iter().for_each(|(id, _)| self.metrics.waits(*id));
        }
        self.offer_unreported();
        self.flight.hand_over(now, self.traffic().1);
        self.alarms.report(now, || goes_on(&self.progress));
        self.metrics.report(now, false, |event| self.output.event(event));
    }

    fn sample(&mut self) {
        for tasks in self.tasks.chunk_by(|(_, clock), (_, next)| clock == next) {
            for tasks in tasks.chunks(BY_A_READING) {
                let now = tasks[0].1.now();
                tasks.iter().for_each(|(id, _)| self.metrics.sample(*id, now));
            }
        }
    }

    /// Takes and judges records. Returns whether there are more. Takes some of each worker at a time, so that a fast one does not delay the
    /// others.
    fn take_some(&mut self, now: Instant) -> bool {
        let (mut taken, mut ahead) = (std::mem::take(&mut self.ahead), std::mem::take(&mut self.taken));
        let more = self.fetch(&mut taken);
        // Everything that another worker did while these ticks ran has been sent by now, but might not have been there at its turn.
        self.fetch(&mut ahead);
        self.witnesses.taken(self.metrics.threads());
        for (index, (number, part)) in taken.iter().enumerate() {
            if index % PROGRESS_EVERY == 0 {
                goes_on(&self.progress);
            }
            let number = *number;
            let Some(worker) = self.workers.get_mut(&number) else { continue };
            let Some(sent) = worker.judged.add(part) else { continue };
            let record = match &sent {
                Sent::Tick(record) => record,
                Sent::IdleWake(wake) => {
                    self.troubled = now;
                    self.metrics.take_idle(number, wake);
                    self.flight.idle(number, wake);
                    continue;
                }
            };
            if record.overrun || record.skipped() > 0 {
                self.troubled = now;
            }
            let verdicts = self.metrics.take(record, &mut self.witnesses.suspects);
            tick_trace::log(record, &verdicts, &self.metrics, &worker.name);
            self.flight.tick(record, &verdicts);
            self.recorder.offer(record, &verdicts, |by| self.metrics.name_of(by));
        }
        taken.clear();
        (self.ahead, self.taken) = (ahead, taken);
        more
    }

    /// Moves record parts out of the channels. Returns whether there are more.
    fn fetch(&mut self, taken: &mut Vec<(usize, Part)>) -> bool {
        let (mut more, at_a_time) = (false, self.at_a_time());
        let numbers: Vec<_> = self.workers.keys().copied().collect();
        for number in numbers {
            let mut count = 0;
            while count < at_a_time
                && let Some(worker) = self.workers.get_mut(&number)
                && let Some(part) = worker.feed.ticks.receive_part()
            {
                taken.push((number, part));
                let Some(sent) = worker.observed.add(&part) else { continue };
                if let Sent::Tick(record) = &sent
                    && !self.metrics.knows(record.task)
                {
                    // Its task was added after this round began.
                    self.receive();
                }
                self.metrics.observe(number, &sent);
                count += 1;
            }
            more |= count == at_a_time;
        }
        more
    }

    fn at_a_time(&self) -> usize {
        if self.workers.len() > 1 { AT_A_TIME } else { AT_A_TIME_ALONE }
    }

    /// Passes releases that no record reports to the flight recorder too.
    fn offer_unreported(&mut self) {
        for (task, first, verdict) in self.metrics.unreported() {
            self.flight.unreported(task, first, &verdict);
        }
    }

    /// Records that all workers have sent and dropped.
    fn traffic(&self) -> (u64, u64) {
        let traffic = |(sent, dropped): (u64, u64), worker: &WorkerFeed| {
            let traffic = worker.feed.ticks.traffic();
            (sent + traffic.sent(), dropped + traffic.dropped())
        };
        self.workers.values().fold(self.before, traffic)
    }

    fn view(&mut self, depth: Depth) -> View {
        let (sent, dropped) = self.traffic();
        let task = |(id, clock): &(u32, KernelClock)| {
            self.metrics.waits(*id);
            let mut snapshot = match depth {
                Depth::Full | Depth::Last => self.metrics.snapshot(*id),
                Depth::Brief => self.metrics.brief(*id),
            };
            snapshot.health = self.metrics.health(*id, clock.now());
            if depth == Depth::Last {
                self.metrics.close(*id);
            }
            (*id, snapshot)
        };
        let tasks = self.tasks.iter().map(task).collect();
        View {
            tasks,
            before_reload_dropped: self.metrics.before_reload_dropped(),
            oversleeps: self.workers.keys().map(|worker| (*worker, self.metrics.oversleep(*worker))).collect(),
            alarms: self.alarms.all.states(KernelClock::monotonic().now()),
            sent,
            dropped,
        }
    }
}
