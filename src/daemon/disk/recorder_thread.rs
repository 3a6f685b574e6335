//! The recorder's thread: empties the tasks' queues a few times a second and writes recordings.
//!
//! Reads the monotonic clock and the UTC offset. May block on the disk; rows that find their queue full meanwhile are counted as lost. Main
//! waits for it only at the end, and then for a limited time. After each round the thread publishes the state of each task's output.

use crate::channels::Traffic;
use crate::channels::size::TICKS_TO_RECORD;
use crate::daemon::busy::{Busy, LongWait};
use crate::daemon::metrics::tick_feed::{Fed, waiting};
use crate::daemon::patience::Patience;
use crate::recording::{OutputState, PastLoss, Progress, Recorder, TaskOutput};
use crate::snapshot::RecordedSummary;
use crate::sys::clock::{KernelClock, pause, utc_offset};
use crate::sys::thread::helper;
use crate::time::{Clock, Instant, Span};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two rounds.
const REST: Span = Span::from_millis(50);

/// If a round or a write takes longer than this, the file system counts as unresponsive.
const LONG_WRITE: Span = Span::from_seconds(1);

/// How often the end checks whether the disk makes progress.
const LOOK: Duration = Duration::from_millis(100);

enum Command {
    Add(Vec<TaskOutput>),
    Close(Sender<()>),
}

/// The traffic of a queue, and how many of its items were written.
type Queue = (Arc<Traffic>, fn(&RecordedSummary) -> u64);

/// What a task with a recording offers, counted on the task's side of the queues.
#[derive(Debug)]
struct Offered {
    task: String,
    path: String,
    queues: Vec<Queue>,
    ticks: Option<Arc<Traffic>>, // one of the queues
}

impl Offered {
    fn of(output: &TaskOutput) -> Option<Self> {
        let recording = output.recording.as_ref()?;
        let mut queues: Vec<Queue> = Vec::new();
        if output.content.has_rows_for(recording.format()) {
            queues.push((output.rows.traffic().clone(), |recorded| recorded.rows));
        }
        if let Some(blocks) = &output.blocks {
            queues.push((blocks.traffic().clone(), |recorded| recorded.blocks));
        }
        if let Some(ticks) = &output.ticks {
            queues.push((ticks.clone(), |recorded| recorded.ticks));
        }
        let task = output.content.task.clone();
        Some(Self { task, path: recording.path().display().to_string(), queues, ticks: output.ticks.clone() })
    }

    /// Items that found no room so far.
    fn dropped(&self) -> u64 {
        self.queues.iter().map(|(traffic, _)| traffic.dropped()).sum()
    }

    /// Items replaced by newer ones, as that kind of queue intends.
    fn replaced(&self) -> u64 {
        self.queues.iter().map(|(traffic, _)| traffic.replaced()).sum()
    }

    /// Counts as lost everything that was offered but is not known to be written.
    fn settle(&self, recorded: &mut RecordedSummary) {
        recorded.path.clone_from(&self.path);
        let missing =
            |(traffic, written): &Queue| (traffic.sent() + traffic.dropped()).saturating_sub(written(recorded));
        recorded.lost = self.queues.iter().map(missing).sum();
    }
}

/// The state of the tasks' outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) states: Vec<OutputState>,
    /// What recordings of ended tasks lost, by task name.
    pub(crate) past: BTreeMap<String, PastLoss>,
}

/// How the recorder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecorderEnd {
    Finished,
    /// It panicked; the panic is reported elsewhere.
    Died,
    /// A file system blocks it and makes no progress. Anything not written by then counts as lost.
    HeldUp,
}

/// Main's end of the recorder's thread. Only [`close`](Self::close) waits.
#[derive(Debug)]
pub(crate) struct RecorderThread {
    commands: Sender<Command>,
    outputs: Arc<Mutex<Outputs>>,
    offered: BTreeMap<u32, Offered>,
    ran: BTreeMap<u32, u64>, // ticks run by tasks whose ticks might not all arrive
    progress: Arc<Progress>,
    seen: (u64, Instant), // its steps, and since when they are the same
    long_wait: LongWait,
    thread: JoinHandle<()>,
}

impl RecorderThread {
    pub(crate) fn spawn(fed: Receiver<Fed>, progress: Arc<Progress>) -> io::Result<Self> {
        let (commands, receiver) = unbounded();
        let outputs = Arc::<Mutex<Outputs>>::default();
        let published = outputs.clone();
        let shown = progress.clone();
        let body = move || run(&receiver, &fed, &published, shown);
        let thread = helper::spawn("hertzd-recorder", body)?;
        let seen = (0, KernelClock::monotonic().now());
        let (offered, ran, long_wait) = (BTreeMap::new(), BTreeMap::new(), LongWait::default());
        Ok(Self { commands, outputs, offered, ran, progress, seen, long_wait, thread })
    }

    /// Records these outputs. Call this before their tasks' first tick.
    pub(crate) fn add(&mut self, outputs: Vec<TaskOutput>) {
        self.offered.extend(outputs.iter().filter_map(|output| Some((output.id, Offered::of(output)?))));
        self.send(Command::Add(outputs));
    }

    /// Forgets tasks that have ended. The recorder itself learns this from the metrics thread, after their last ticks.
    pub(crate) fn forget(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| drop(self.offered.remove(id)));
    }

    /// The run is over, and this task ran `ran` ticks. Ticks that the metrics thread has not passed on will count as lost: it may have
    /// died, or records may have been dropped.
    pub(crate) fn expect_ticks_of(&mut self, id: u32, ran: u64) {
        self.ran.insert(id, ran);
    }

    /// The state of each task's output after the last round, plus what its queues have dropped since.
    pub(crate) fn outputs(&self) -> Outputs {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = KernelClock::monotonic().now();
        for OutputState { id, recorded, dropped, values, inputs, at, lost_at, .. } in &mut outputs.states {
            if let (Some(recorded), Some(offered)) = (recorded.as_mut(), self.offered.get(id)) {
                let since = offered.dropped().saturating_sub(*dropped);
                recorded.lost += since;
                recorded.replaced = recorded.replaced.max(offered.replaced());
                if since > 0 && recorded.lost > recorded.replaced {
                    *lost_at = Some(now);
                }
            }
            if let Some(recorded) = recorded {
                recorded.lost_age_ns = lost_at.map(|lost_at| (now - lost_at).nanos().max(0));
            }
            // Their thread may be waiting for a disk.
            let later = |age: &mut i64| *age += (now - *at).nanos();
            values.values_mut().flat_map(|value| [&mut value.age_ns, &mut value.since_ns]).flatten().for_each(later);
            inputs.values_mut().map(|input| &mut input.since_ns).for_each(later);
            *at = now;
        }
        outputs
    }

    /// Logs if the recorder makes no progress for long. Main has checked without a gap since `watched`: if main was stopped, so was the
    /// recorder, which says nothing about the disk.
    pub(crate) fn watch(&mut self, now: Instant, watched: Instant) {
        let steps = self.progress.steps();
        if steps != self.seen.0 {
            self.seen = (steps, now);
        }
        let since = self.seen.1.max(watched);
        // A thread that has panicked says nothing about the disk either.
        let stuck = now - since >= LONG_WRITE && !self.thread.is_finished();
        let activity = || {
            let which = self.progress.writing().unwrap_or_default();
            format!("waiting for the file system of a recording {which} (what does not fit in the queues is lost)")
        };
        self.long_wait.report(now, stuck.then(|| Busy { activity: activity(), since }));
    }

    /// Finishes all recordings with everything handed over so far, ends the thread, and returns the state of each task's output. Gives up
    /// on a disk that makes no progress for `patience`, but waits for a slow one. Calls `waits` several times a second.
    pub(crate) fn close(self, patience: Span, waits: impl Fn()) -> (Outputs, RecorderEnd) {
        let (reply, answer) = bounded(1);
        self.send(Command::Close(reply));
        let (mut steps, mut left) = (self.progress.steps(), Patience::new(patience));
        let closed = loop {
            let closed = answer.recv_timeout(LOOK);
            if closed != Err(RecvTimeoutError::Timeout) {
                break closed;
            }
            let seen = self.progress.steps();
            if seen != steps {
                (steps, left) = (seen, Patience::new(patience));
            } else if left.is_over() {
                break closed;
            }
            waits();
        };
        let mut outputs = self.outputs();
        let end = match closed {
            Ok(()) => RecorderEnd::Finished,
            Err(RecvTimeoutError::Disconnected) => RecorderEnd::Died,
            Err(RecvTimeoutError::Timeout) => RecorderEnd::HeldUp,
        };
        if end != RecorderEnd::Finished {
            self.settle(&mut outputs.states);
        }
        for OutputState { id, recorded, .. } in &mut outputs.states {
            let ticks = self.offered.get(id).and_then(|offered| offered.ticks.as_ref());
            if let (Some(recorded), Some(ticks), Some(ran)) = (recorded, ticks, self.ran.get(id)) {
                recorded.lost += ran.saturating_sub(ticks.sent() + ticks.dropped());
            }
        }
        (outputs, end)
    }

    /// Counts as lost, in all states, what is not known to be written.
    fn settle(&self, states: &mut Vec<OutputState>) {
        for (&id, offered) in &self.offered {
            let index = states.iter().position(|state| state.id == id).unwrap_or_else(|| {
                states.push(OutputState {
                    id,
                    task: offered.task.clone(),
                    values: BTreeMap::new(),
                    inputs: BTreeMap::new(),
                    recorded: None,
                    dropped: 0,
                    at: Instant::ZERO,
                    lost_at: None,
                });
                states.len() - 1
            });
            offered.settle(states[index].recorded.get_or_insert_default());
        }
    }

    fn send(&self, command: Command) {
        // The thread ends early only by a panic, which ends the run.
        let _ = self.commands.send(command);
    }
}

fn run(commands: &Receiver<Command>, fed: &Receiver<Fed>, outputs: &Mutex<Outputs>, progress: Arc<Progress>) {
    let mut recorder = Recorder::new(progress.clone());
    let mut last = BTreeSet::new();
    loop {
        let (commands, disconnected) = waiting(commands);
        let mut close = None;
        for command in commands {
            match command {
                Command::Add(outputs) => outputs.into_iter().for_each(|output| recorder.add(output)),
                Command::Close(reply) => close = Some(reply),
            }
        }
        let mut ended = BTreeMap::new();
        // Take everything: the number of ticks is limited, and few tasks end.
        for fed in fed.try_iter().take(2 * TICKS_TO_RECORD) {
            match fed {
                Fed::Tick(tick) => recorder.tick(tick),
                Fed::Last(id) => drop(last.insert(id)),
                Fed::Ended(id, missing) => ended.extend([(id, missing)]),
            }
        }
        recorder.drain(KernelClock::monotonic().now(), utc_offset);
        recorder.remove(&ended);
        recorder.finish_of(|id| last.contains(&id));
        if close.is_some() || disconnected {
            recorder.finish();
        }
        let published = Outputs { states: recorder.states(), past: recorder.past().clone() };
        *outputs.lock().unwrap_or_else(PoisonError::into_inner) = published;
        progress.goes_on();
        if let Some(reply) = close {
            let _ = reply.send(());
            return;
        }
        if disconnected {
            return;
        }
        pause(REST);
    }
}
