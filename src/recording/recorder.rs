//! The recorder: drains the tasks' queues of values and blocks, keeps the last, smallest and largest of each value, and
//! hands everything to the recordings.
//!
//! It runs on a thread of its own, so that a slow disk holds up neither workers nor metrics. Time comes from the clock
//! that its owner hands to [`Recorder::drain`], as the offset of UTC.

use super::{Content, Moment, RecordedTick, Recording};
use crate::channels::Traffic;
use crate::channels::{BlockReceiver, RowReceiver};
use crate::metrics::{RecordedSummary, ValueSummary};
use crate::sys::clock::KernelClock;
use crate::task::Column;
use crate::time::{Instant, Span};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{info, warn};

/// Failures to write are told at most this often.
const TELL_EVERY: Span = Span::from_seconds(10);

/// Bytes of blocks, and rows, that are taken from one task at a time, so that one which is faster than the disk does not
/// hold up the others: as much as the largest queue usually holds.
const BYTES_AT_A_TIME: usize = 64 << 20;
const ROWS_AT_A_TIME: usize = 1 << 18;

/// What one task produces, on its way out.
#[derive(Debug)]
pub(crate) struct TaskOutput {
    /// Number of the task.
    pub id: u32,
    /// The clock its releases are on.
    pub clock: KernelClock,
    /// What there is of it.
    pub content: Content,
    /// The cool end of its queue of rows.
    pub rows: RowReceiver,
    /// The cool end of its queue of blocks; `None`: nobody wants them.
    pub blocks: Option<BlockReceiver>,
    /// Where it is recorded, if anywhere.
    pub recording: Option<Recording>,
    /// What has become of its ticks on their way to the recorder; `None`: nobody wants them.
    pub ticks: Option<Arc<Traffic>>,
}

/// What became of one task's values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutputState {
    /// Number of the task.
    pub id: u32,
    /// Its values, by name.
    pub values: BTreeMap<String, ValueSummary>,
    /// The recording, if there is one.
    pub recorded: Option<RecordedSummary>,
}

#[derive(Debug)]
struct Taken {
    stream: TaskOutput,
    extremes: Vec<Option<[f64; 3]>>, // last, smallest, largest
    to_utc: i128,                    // what to add to its clock, at the latest drain
}

/// A recording that is written to.
#[derive(Debug)]
struct Written {
    recording: Recording,
    failing: Option<Instant>, // told last
}

/// Drains the tasks' queues.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    taken: Vec<Taken>,
    written: Vec<Written>,
    to_utc: i128, // what to add to the monotonic clock, at the latest drain
    row: Vec<f64>,
    ticks: Vec<RecordedTick>,
    early: Vec<RecordedTick>, // of tasks that were not known at the drain before
}

impl Recorder {
    /// Adds a stream. The numbers of their tasks must go up.
    pub(crate) fn add(&mut self, stream: TaskOutput) {
        if let Some(recording) = &stream.recording {
            recording.join(stream.id, &stream.content);
            if !self.written.iter().any(|written| written.recording == *recording) {
                self.written.push(Written { recording: recording.clone(), failing: None });
            }
        }
        self.taken.push(Taken { extremes: vec![None; stream.content.columns.len()], stream, to_utc: 0 });
    }

    /// Takes a tick, for the next [`drain`](Self::drain).
    pub(crate) fn tick(&mut self, tick: RecordedTick) {
        self.ticks.push(tick);
    }

    /// Lets go of streams whose tasks have ended, with all that is left in their queues, and finishes recordings that
    /// nobody is left to write to. A [`drain`](Self::drain) comes before it.
    pub(crate) fn remove(&mut self, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        self.empty(|id| ids.contains(&id));
        for taken in self.taken.extract_if(.., |taken| ids.contains(&taken.stream.id)) {
            taken.stream.recording.iter().for_each(|recording| recording.leave(taken.stream.id));
        }
        let taken = &self.taken;
        self.written.retain(|written| {
            let used = taken.iter().any(|taken| taken.stream.recording.as_ref() == Some(&written.recording));
            if !used {
                finish(&written.recording, "");
            }
            used
        });
    }

    /// Takes and hands on all that is there, and sees to it that it is written. `utc_offset` says what to add to a clock
    /// to get nanoseconds since 1970.
    pub(crate) fn drain(&mut self, now: Instant, utc_offset: impl Fn(KernelClock) -> i128) {
        let at = Moment { now, to_utc: utc_offset(KernelClock::monotonic()) };
        self.to_utc = at.to_utc;
        self.written.iter().for_each(|written| written.recording.begin(at));
        for taken in &mut self.taken {
            let monotonic = taken.stream.clock == KernelClock::monotonic();
            taken.to_utc = if monotonic { at.to_utc } else { utc_offset(taken.stream.clock) };
            taken.drain(&mut self.row, at.to_utc);
        }
        self.drain_ticks();
        for Written { recording, failing } in &mut self.written {
            let path = recording.path().display().to_string();
            let users = || self.taken.iter().filter(|taken| taken.stream.recording.as_ref() == Some(recording));
            match recording.flush() {
                // Nothing to write proves nothing.
                Ok(false) => {}
                Ok(true) if failing.take().is_some() => info!(task = names(users()), path, "recording goes on"),
                Ok(true) => {}
                Err(error) if failing.is_none_or(|told| now - told >= TELL_EVERY) => {
                    *failing = Some(now);
                    let lost: u64 = users().filter_map(|taken| Some(taken.recorded()?.lost)).sum();
                    warn!(task = names(users()), path, lost, "recording failed, the task goes on: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// Hands on the ticks. Those of a task that is not known yet get a second chance: it may have been added just now.
    fn drain_ticks(&mut self) {
        let early = std::mem::take(&mut self.early);
        for (tick, last_chance) in
            early.into_iter().map(|tick| (tick, true)).chain(self.ticks.drain(..).map(|tick| (tick, false)))
        {
            // Streams are added in the order of their numbers.
            match self.taken.binary_search_by_key(&tick.task, |taken| taken.stream.id) {
                Ok(place) => {
                    let Taken { stream, to_utc, .. } = &self.taken[place];
                    let utc = tick.release.nanos() + to_utc;
                    stream.recording.iter().for_each(|recording| recording.lock().tick(&tick, utc));
                }
                Err(_) if last_chance => {}
                Err(_) => self.early.push(tick),
            }
        }
    }

    /// Takes all that is left of these tasks. They have ended: of those that run, more might come than the disk takes.
    fn empty(&mut self, ended: impl Fn(u32) -> bool) {
        for taken in self.taken.iter_mut().filter(|taken| ended(taken.stream.id)) {
            while taken.drain(&mut self.row, self.to_utc) {}
        }
    }

    /// Finishes all recordings, for good, with all that is left in the queues: what comes later is lost. No task runs any
    /// more, and a [`drain`](Self::drain) comes before it.
    pub(crate) fn finish(&mut self) {
        self.empty(|_| true);
        for written in std::mem::take(&mut self.written) {
            let users = self.taken.iter().filter(|taken| taken.stream.recording.as_ref() == Some(&written.recording));
            finish(&written.recording, &names(users));
        }
    }

    /// What has become of each stream so far.
    pub(crate) fn streamed(&self) -> Vec<OutputState> {
        self.taken.iter().map(Taken::streamed).collect()
    }
}

impl Taken {
    /// Takes as much as is taken at a time; true: there was something.
    fn drain(&mut self, values: &mut Vec<f64>, monotonic_to_utc: i128) -> bool {
        let TaskOutput { id, rows, blocks, recording, .. } = &mut self.stream;
        let mut recording = recording.as_ref().map(Recording::lock);
        let mut some = false;
        for _ in 0..ROWS_AT_A_TIME {
            let Some(row) = rows.take(values) else { break };
            some = true;
            for (seen, &value) in self.extremes.iter_mut().zip(row.values) {
                if !value.is_nan() {
                    let [_, min, max] = seen.unwrap_or([value; 3]);
                    *seen = Some([value, value.min(min), value.max(max)]);
                }
            }
            if let Some(recording) = &mut recording {
                recording.row(*id, &row, row.release.nanos() + self.to_utc);
            }
        }
        let (Some(blocks), Some(recording)) = (blocks, &mut recording) else { return some };
        let mut bytes = 0;
        while bytes < BYTES_AT_A_TIME
            && let Some(block) = blocks.take()
        {
            some = true;
            bytes += block.bytes.len();
            recording.block(*id, &block, monotonic_to_utc);
        }
        some
    }

    fn streamed(&self) -> OutputState {
        let values = self.stream.content.columns.iter().zip(&self.extremes).map(|(Column { name, unit }, seen)| {
            let part = |index| seen.map(|seen: [f64; 3]| seen[index]);
            (name.clone(), ValueSummary { last: part(0), min: part(1), max: part(2), unit: unit.clone() })
        });
        OutputState { id: self.stream.id, values: values.collect(), recorded: self.recorded() }
    }

    fn recorded(&self) -> Option<RecordedSummary> {
        let TaskOutput { id, content, rows, blocks, recording, ticks, .. } = &self.stream;
        let recording = recording.as_ref()?;
        let tally = recording.tally(*id);
        let rows = if content.has_rows_for(recording.form()) { rows.traffic().dropped() } else { 0 };
        let blocks = blocks.as_ref().map_or(0, |blocks| blocks.traffic().dropped());
        let ticks = ticks.as_ref().map_or(0, |ticks| ticks.dropped());
        Some(RecordedSummary {
            path: recording.path().display().to_string(),
            rows: tally.rows,
            lost: tally.lost + rows + blocks + ticks,
            blocks: tally.blocks,
            samples: tally.samples,
            ticks: tally.ticks,
            bytes: tally.bytes,
            files: tally.files,
            gaps: tally.gaps,
        })
    }
}

fn finish(recording: &Recording, task: &str) {
    if let Err(error) = recording.finish() {
        let path = recording.path().display().to_string();
        warn!(task, path, "the recording could not be finished: {error}");
    }
}

fn names<'a>(users: impl Iterator<Item = &'a Taken>) -> String {
    users.map(|taken| taken.stream.content.task.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Queue, Row, rows};
    use crate::config::{RecordConfig, RecordFormat};
    use crate::recording::Recordings;

    #[test]
    fn values_are_summed_up_and_recorded_in_utc() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let content =
            Content { task: "t".into(), columns: vec![Column { name: "v".into(), unit: "m".into() }], format: None };
        let (mut sender, receiver) = rows(Queue::Fifo, 4, 1);
        for (n, value) in [2.0, f64::NAN, -1.0, 0.5, 9.0].iter().enumerate() {
            let n = n as u64;
            let release = Instant::from_nanos(i128::from(n));
            sender.offer(Row { n, release, lateness: Span::ZERO, values: std::slice::from_ref(value) });
        }
        let limits =
            RecordConfig { path: path.clone(), format: RecordFormat::Csv, max_size: None, max_time: None, keep: None };
        let recording = Some(Recordings::default().open(&limits, &content).unwrap());
        let mut recorder = Recorder::default();
        let clock = KernelClock::monotonic();
        recorder.add(TaskOutput { id: 7, clock, content, rows: receiver, blocks: None, recording, ticks: None });
        recorder.drain(Instant::ZERO, |_| 1_000_000_000);
        let streamed = recorder.streamed();
        let value = ValueSummary { last: Some(0.5), min: Some(-1.0), max: Some(2.0), unit: "m".into() };
        assert_eq!(streamed[0].values["v"], value);
        let recorded = streamed[0].recorded.clone().unwrap();
        assert_eq!((recorded.rows, recorded.lost, recorded.files), (4, 1, 1));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().nth(3), Some("2,1970-01-01T00:00:01.000000002Z,0,-1"));
        recorder.remove(&[7]);
        assert!(recorder.streamed().is_empty() && recorder.written.is_empty());
    }

    #[test]
    fn the_last_look_takes_all_that_is_left() {
        let content =
            Content { task: "t".into(), columns: vec![Column { name: "v".into(), unit: String::new() }], format: None };
        let wanted = ROWS_AT_A_TIME + 2;
        let (mut sender, receiver) = rows(Queue::Fifo, wanted, 1);
        for n in 0..wanted {
            let (n, values) = (n as u64, [n as f64]);
            sender.offer(Row { n, release: Instant::ZERO, lateness: Span::ZERO, values: &values });
        }
        let mut recorder = Recorder::default();
        let clock = KernelClock::monotonic();
        recorder.add(TaskOutput { id: 0, clock, content, rows: receiver, blocks: None, recording: None, ticks: None });
        recorder.drain(Instant::ZERO, |_| 0);
        let last = |recorder: &Recorder| recorder.streamed()[0].values["v"].last;
        assert_eq!(last(&recorder), Some(ROWS_AT_A_TIME as f64 - 1.0));
        recorder.finish();
        assert_eq!(last(&recorder), Some(wanted as f64 - 1.0));
    }
}
