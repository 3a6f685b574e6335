//! The recorder's thread: empties the tasks' queues a few times a second, and writes.
//!
//! Reads the monotonic clock and the offset of UTC. May block on the disk: meanwhile rows that find no room in their queue
//! are counted as lost. Main never waits for it but at the end, and there with a limit: after each round the thread
//! publishes what became of each task's output.

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

/// A round or a write that takes longer than this is a file system that does not respond.
const LONG_WRITE: Span = Span::from_seconds(1);

/// How often the end looks whether the disk makes progress.
const LOOK: Duration = Duration::from_millis(100);

enum Command {
    Add(Vec<TaskOutput>),
    Close(Sender<()>),
}

/// What went through a queue, and how many of its items were written.
type Queue = (Arc<Traffic>, fn(&RecordedSummary) -> u64);

/// What a task with a recording hands over, counted by its own side of the queues.
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

    /// What found no room so far.
    fn dropped(&self) -> u64 {
        self.queues.iter().map(|(traffic, _)| traffic.dropped()).sum()
    }

    /// What a newer one replaced, as its queue is meant to.
    fn replaced(&self) -> u64 {
        self.queues.iter().map(|(traffic, _)| traffic.replaced()).sum()
    }

    /// Counts as lost all that was offered and is not known to be written.
    fn settle(&self, recorded: &mut RecordedSummary) {
        recorded.path.clone_from(&self.path);
        let missing =
            |(traffic, written): &Queue| (traffic.sent() + traffic.dropped()).saturating_sub(written(recorded));
        recorded.lost = self.queues.iter().map(missing).sum();
    }
}

/// What became of the tasks' outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) states: Vec<OutputState>,
    /// What the recordings lost of tasks that have ended, by the task's name.
    pub(crate) past: BTreeMap<String, PastLoss>,
}

/// How the recorder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecorderEnd {
    Finished,
    /// Of a panic, which is reported elsewhere.
    Died,
    /// A file system holds it up and makes no progress: what was not written by then is counted as lost.
    HeldUp,
}

/// Main's end of the recorder's thread. Only [`close`](Self::close) waits.
#[derive(Debug)]
pub(crate) struct RecorderThread {
    commands: Sender<Command>,
    outputs: Arc<Mutex<Outputs>>,
    offered: BTreeMap<u32, Offered>,
    ran: BTreeMap<u32, u64>, // ticks of tasks, where not all of them will be passed on
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

    /// Records these; to be called before their tasks' first tick.
    pub(crate) fn add(&mut self, outputs: Vec<TaskOutput>) {
        self.offered.extend(outputs.iter().filter_map(|output| Some((output.id, Offered::of(output)?))));
        self.send(Command::Add(outputs));
    }

    /// These tasks have ended. The recorder itself learns of it from the metrics thread, after their last ticks.
    pub(crate) fn forget(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| drop(self.offered.remove(id)));
    }

    /// The run is over: at the end, what the metrics thread has not passed on of the ticks that this task ran counts as lost.
    /// It may have died, or the records may have been dropped.
    pub(crate) fn expect_ticks_of(&mut self, id: u32, ran: u64) {
        self.ran.insert(id, ran);
    }

    /// What had become of each task's output after the latest round, and what found no room in its queues since.
    pub(crate) fn outputs(&self) -> Outputs {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = KernelClock::monotonic().now();
        for OutputState { id, recorded, dropped, values, at, lost_at, .. } in &mut outputs.states {
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
            // Their thread may wait for a disk.
            values.values_mut().filter_map(|value| value.age_ns.as_mut()).for_each(|age| *age += (now - *at).nanos());
            *at = now;
        }
        outputs
    }

    /// Logs when the recorder makes no progress for long. Main has looked without a gap since `watched`: while it was stopped
    /// itself, so was the recorder, and that is no sign of a disk.
    pub(crate) fn watch(&mut self, now: Instant, watched: Instant) {
        let steps = self.progress.steps();
        if steps != self.seen.0 {
            self.seen = (steps, now);
        }
        let since = self.seen.1.max(watched);
        // Nor is a thread that has panicked.
        let stuck = now - since >= LONG_WRITE && !self.thread.is_finished();
        let activity = || {
            let which = self.progress.writing().unwrap_or_default();
            format!("waiting for the file system of a recording {which} (what does not fit in the queues is lost)")
        };
        self.long_wait.report(now, stuck.then(|| Busy { activity: activity(), since }));
    }

    /// Finishes all recordings with all that was handed over before, and ends the thread; what became of each task's
    /// output. A disk that makes no progress is waited for during `patience`, a slow one until it has taken everything;
    /// `waits` is called several times a second.
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
        // The thread ends before its time only by a panic, which ends the run.
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
        // All that is there: the ticks are limited, and the tasks that ended are few.
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
