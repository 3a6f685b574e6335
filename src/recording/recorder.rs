//! The recorder drains the tasks' queues of values and blocks, keeps the last, smallest and largest of each value, and passes everything to
//! the recordings.
//!
//! It runs on its own thread, because a slow disk may block it. Time is an argument of [`Recorder::drain`].

use super::content::{RecordedRow, RecordedTick};
use super::file::Moment;
use super::noted::{Noted, Word};
use super::output::{OutputState, PastLoss, TaskOutput};
use super::progress::Progress;
use super::recordings::Recording;
use crate::channels::{BlockReceiver, Quality, Row, Traffic};
use crate::snapshot::RecordedSummary;
use crate::sys::clock::KernelClock;
use crate::time::{Clock, Instant, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tracing::{info, warn};

/// The minimum interval between log messages about failed writes.
const LOG_EVERY: Span = Span::from_seconds(10);

/// Limits for one turn of a task, in bytes of blocks and in rows: as much as the largest queue usually holds. A task that is faster than
/// the disk therefore does not delay the others.
const BYTES_AT_A_TIME: usize = 64 << 20;
const ROWS_AT_A_TIME: usize = 1 << 18;

#[derive(Debug)]
struct DrainedTask {
    output: TaskOutput,
    seen: Vec<Noted>,
    to_utc: i128, // what to add to its clock, as of the most recent drain
    at: Instant,  // the most recent drain
    unsent: u64,  // once it has ended: ticks whose records were dropped on the way
    lost: u64,    // what its recording had lost by then
    lost_at: Option<Instant>,
}

/// Room for one row.
#[derive(Debug, Default)]
struct RowRoom {
    values: Vec<f64>,
    qualities: Vec<Quality>,
    usable: Vec<f64>, // the values that may be used; NaN in the place of others
}

/// A recording that is being written.
#[derive(Debug)]
struct OpenRecording {
    recording: Recording,
    failing: Option<Instant>, // when a failure was last logged
}

/// Drains the tasks' queues.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    progress: Arc<Progress>,
    tasks: Vec<DrainedTask>,
    recordings: Vec<OpenRecording>,
    to_utc: i128, // what to add to the monotonic clock, as of the most recent drain
    row: RowRoom,
    ticks: Vec<RecordedTick>,
    early: Vec<RecordedTick>,         // ticks of tasks that were unknown at the previous drain
    past: BTreeMap<String, PastLoss>, // by the task's name
}

impl Recorder {
    /// Creates a recorder without tasks. `progress` shows what it is writing.
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, ..Self::default() }
    }

    /// Adds a task. The task's number must be higher than all earlier ones.
    pub(crate) fn add(&mut self, output: TaskOutput) {
        if let Some(recording) = &output.recording {
            recording.join(output.id, &output.content);
            if !self.recordings.iter().any(|open| open.recording == *recording) {
                self.recordings.push(OpenRecording { recording: recording.clone(), failing: None });
            }
        }
        let seen = vec![Noted::default(); output.content.columns.len()];
        self.tasks.push(DrainedTask { seen, output, to_utc: 0, at: Instant::ZERO, unsent: 0, lost: 0, lost_at: None });
    }

    /// Adds a tick for the next [`drain`](Self::drain).
    pub(crate) fn tick(&mut self, tick: RecordedTick) {
        self.ticks.push(tick);
    }

    /// Removes ended tasks by number, after [`finish_of`](Self::finish_of). `ids` contains the number of ticks of each that never arrived.
    pub(crate) fn remove(&mut self, ids: &BTreeMap<u32, u64>) {
        if ids.is_empty() {
            return;
        }
        self.end_of(|id| ids.contains_key(&id), Recording::hurry);
        for mut ended in self.tasks.extract_if(.., |task| ids.contains_key(&task.output.id)) {
            ended.unsent = ids.get(&ended.output.id).copied().unwrap_or_default();
            let state = ended.state();
            let lost = PastLoss::add(&mut self.past, &state);
            if let (1.., Some(recorded)) = (lost, &state.recorded) {
                let (task, path) = (&state.task, &recorded.path);
                warn!(
                    task,
                    path,
                    lost,
                    "{task}: its recording lost {lost} rows, blocks or ticks before the reload ended it: {path}"
                );
            }
            ended.output.recording.iter().for_each(|recording| recording.leave(ended.output.id));
        }
    }

    /// Takes everything from the queues and writes it. `utc_offset` returns what to add to a clock to get nanoseconds since 1970.
    pub(crate) fn drain(&mut self, now: Instant, utc_offset: impl Fn(KernelClock) -> i128) {
        let at = Moment { now, to_utc: utc_offset(KernelClock::monotonic()) };
        self.to_utc = at.to_utc;
        for OpenRecording { recording, .. } in &self.recordings {
            writes(&self.progress, recording, users(&self.tasks, recording));
            recording.begin(at);
        }
        for task in &mut self.tasks {
            let monotonic = task.output.clock == KernelClock::monotonic();
            task.to_utc = if monotonic { at.to_utc } else { utc_offset(task.output.clock) };
            task.output
                .recording
                .iter()
                .for_each(|recording| writes(&self.progress, recording, std::iter::once(&*task)));
            task.drain(&mut self.row, at.to_utc);
        }
        self.drain_ticks();
        for OpenRecording { recording, failing } in &mut self.recordings {
            let path = recording.path().display().to_string();
            let users = || users(&self.tasks, recording);
            writes(&self.progress, recording, users());
            match recording.flush() {
                // Nothing was written, so it is unknown whether writing works again.
                Ok(false) => {}
                Ok(true) => {
                    if failing.take().is_some() {
                        let task = names(users());
                        info!(task, path, "{task}: recording resumed: {path}");
                    }
                }
                Err(error) if failing.is_none_or(|logged| now - logged >= LOG_EVERY) => {
                    *failing = Some(now);
                    let lost: u64 = users().filter_map(|task| Some(task.recorded()?.lost)).sum();
                    let task = names(users());
                    warn!(task, path, lost, "{task}: recording failed; the task continues: {path}: {error}");
                }
                Err(_) => {}
            }
        }
        self.progress.writes(None);
        self.tasks.iter_mut().for_each(|task| task.note_losses(now));
        self.log_inputs(now);
        self.log_values();
    }

    /// Logs which inputs cannot be used, and which can be again.
    fn log_inputs(&mut self, now: Instant) {
        let mut words = Vec::new();
        for (at, task) in self.tasks.iter_mut().enumerate() {
            for (input, watched) in task.output.inputs.iter_mut().enumerate() {
                words.extend(watched.word(now).map(|word| (at, input, word)));
            }
        }
        for (at, input, word) in words {
            let TaskOutput { content, inputs, .. } = &self.tasks[at].output;
            let (task, input) = (&content.task, &inputs[input]);
            let name = &input.name;
            match word {
                Word::Bad => {
                    let at_source = self.tasks.iter().find_map(|task| task.trouble_of(name));
                    let trouble = at_source.or(input.summary(now).map(|input| input.trouble())).unwrap_or_default();
                    let reason = input.bad.map(|(reason, _)| reason.word());
                    warn!(task, input = name, reason, "{task}: cannot use {name}: {trouble}");
                }
                Word::Back => info!(task, input = name, "{task}: can use {name} again"),
            }
        }
    }

    /// Logs which values have been bad for long, if no task that takes them says so, and which are good again.
    fn log_values(&mut self) {
        let mut words = Vec::new();
        let takers = self.tasks.iter().flat_map(|task| &task.output.inputs).filter(|input| input.bad.is_some());
        let said: BTreeSet<_> = takers.map(|input| input.name.clone()).collect();
        for (at, task) in self.tasks.iter_mut().enumerate() {
            let TaskOutput { content, clock, .. } = &task.output;
            for (seen, column) in task.seen.iter_mut().zip(&content.columns) {
                let name = || format!("{}.{}", content.task, column.name);
                let word = seen.word(|| clock.now(), || said.contains(&name()));
                words.extend(word.map(|word| (at, column.name.clone(), word)));
            }
        }
        for (at, value, word) in words {
            let task = &self.tasks[at].output.content.task;
            match word {
                Word::Bad => {
                    let trouble = self.tasks[at].trouble_of(&format!("{task}.{value}")).unwrap_or_default();
                    warn!(task, value, "{task}: {value} has been {trouble}");
                }
                Word::Back => info!(task, value, "{task}: {value} is good again"),
            }
        }
    }

    /// Passes on the ticks. Ticks of an unknown task are kept until the next drain, because the task may just have been added.
    fn drain_ticks(&mut self) {
        let early = std::mem::take(&mut self.early);
        let mut noted = None; // the task whose recording is being written
        for (tick, is_kept) in
            early.into_iter().map(|tick| (tick, true)).chain(self.ticks.drain(..).map(|tick| (tick, false)))
        {
            // Tasks are sorted by number, because they are added in that order.
            match self.tasks.binary_search_by_key(&tick.task, |task| task.output.id) {
                Ok(index) => {
                    let DrainedTask { output, to_utc, .. } = &self.tasks[index];
                    if noted.replace(index) != Some(index) {
                        output
                            .recording
                            .iter()
                            .for_each(|to| writes(&self.progress, to, self.tasks[index..=index].iter()));
                    }
                    let utc = tick.release.nanos() + to_utc;
                    output.recording.iter().for_each(|recording| recording.lock().tick(&tick, utc));
                }
                Err(_) if is_kept => {}
                Err(_) => self.early.push(tick),
            }
        }
    }

    /// Takes everything left in the queues of these tasks. They must have ended: a running task might produce more than the disk can take.
    fn empty(&mut self, ended: impl Fn(u32) -> bool) {
        for task in self.tasks.iter_mut().filter(|task| ended(task.output.id)) {
            while task.drain(&mut self.row, self.to_utc) {}
        }
    }

    /// Finishes the recordings whose tasks have all ended, including everything left in their queues. Must be preceded by a
    /// [`drain`](Self::drain).
    pub(crate) fn finish_of(&mut self, ended: impl Fn(u32) -> bool) {
        self.end_of(ended, |_| ());
    }

    fn end_of(&mut self, ended: impl Fn(u32) -> bool, before: fn(&Recording)) {
        self.empty(&ended);
        self.recordings.retain(|open| {
            let goes_on = users(&self.tasks, &open.recording).any(|task| !ended(task.output.id));
            if !goes_on {
                writes(&self.progress, &open.recording, users(&self.tasks, &open.recording));
                before(&open.recording);
                finish(&open.recording, &names(users(&self.tasks, &open.recording)));
            }
            goes_on
        });
        self.progress.writes(None);
    }

    /// Finishes all recordings. No task may still be running.
    pub(crate) fn finish(&mut self) {
        self.finish_of(|_| true);
    }

    /// What the recordings of removed tasks lost, by the task's name.
    pub(crate) fn past(&self) -> &BTreeMap<String, PastLoss> {
        &self.past
    }

    /// What was recorded of each task so far.
    pub(crate) fn states(&self) -> Vec<OutputState> {
        self.tasks.iter().map(DrainedTask::state).collect()
    }
}

impl DrainedTask {
    /// Takes up to the limits for one turn. Returns true if there was anything.
    fn drain(&mut self, room: &mut RowRoom, monotonic_to_utc: i128) -> bool {
        let TaskOutput { id, content, rows, blocks, recording, .. } = &mut self.output;
        let mut recording = recording.as_ref().map(Recording::lock);
        let mut some = false;
        for _ in 0..ROWS_AT_A_TIME {
            let RowRoom { values, qualities, usable } = &mut *room;
            let Some(row) = rows.take(values) else { break };
            some = true;
            qualities.clear();
            usable.clear();
            for (at, (seen, &value)) in self.seen.iter_mut().zip(row.values).enumerate() {
                let quality = seen.add(&row, value, content.valid.get(at));
                qualities.push(quality);
                usable.push(if quality.is_usable() { value } else { f64::NAN });
            }
            if content.raw {
                usable.extend(row.values);
            }
            if let Some(recording) = &mut recording {
                let utc = row.release.nanos() + self.to_utc;
                recording.row(*id, &RecordedRow { row: Row { values: usable, ..row }, qualities }, utc);
            }
        }
        let all = &mut self.seen;
        rows.take_unseen(|column, unseen| all.get_mut(column).into_iter().for_each(|seen| seen.add_unseen(unseen)));
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

    fn state(&self) -> OutputState {
        let now = self.output.clock.now();
        let TaskOutput { content, inputs, .. } = &self.output;
        let values = content
            .columns
            .iter()
            .zip(&self.seen)
            .enumerate()
            .map(|(at, (column, seen))| (column.name.clone(), seen.summary(column, content.valid.get(at), now)));
        let inputs = inputs.iter().filter_map(|input| Some((input.name.clone(), input.summary(self.at)?)));
        let (recorded, dropped) = (self.recorded(), self.dropped());
        OutputState {
            id: self.output.id,
            task: self.output.content.task.clone(),
            values: values.collect(),
            inputs: inputs.collect(),
            recorded,
            dropped,
            at: self.at,
            lost_at: self.lost_at,
        }
    }

    fn note_losses(&mut self, now: Instant) {
        self.at = now;
        self.output.inputs.iter_mut().for_each(|input| input.look(now));
        let lost = self.recorded().map_or(0, |recorded| recorded.lost.saturating_sub(recorded.replaced));
        if lost > self.lost {
            (self.lost, self.lost_at) = (lost, Some(now));
        }
    }

    /// Why its value `TASK.VALUE` is bad; `None` if it is not, or not its.
    fn trouble_of(&self, name: &str) -> Option<String> {
        let TaskOutput { content, clock, .. } = &self.output;
        let value = name.strip_prefix(&*content.task)?.strip_prefix('.')?;
        let at = content.columns.iter().position(|column| column.name == value)?;
        self.seen[at].summary(&content.columns[at], content.valid.get(at), clock.now()).trouble()
    }

    /// The queues that feed its recording.
    fn queues(&self) -> impl Iterator<Item = &Traffic> {
        let TaskOutput { content, rows, blocks, recording, ticks, .. } = &self.output;
        let wants_rows = recording.as_ref().is_some_and(|recording| content.has_rows_for(recording.format()));
        let rows = wants_rows.then(|| rows.traffic());
        [rows, blocks.as_ref().map(BlockReceiver::traffic), ticks.as_ref()].into_iter().flatten().map(AsRef::as_ref)
    }

    /// How much found no room in a queue and is missing from its recording.
    fn dropped(&self) -> u64 {
        self.queues().map(Traffic::dropped).sum()
    }

    fn recorded(&self) -> Option<RecordedSummary> {
        let TaskOutput { id, recording, .. } = &self.output;
        let recording = recording.as_ref()?;
        let counts = recording.counts(*id);
        Some(RecordedSummary {
            path: recording.path().display().to_string(),
            rows: counts.rows,
            lost: counts.lost + self.dropped() + self.unsent,
            lost_before_reload: 0,
            replaced: self.queues().map(Traffic::replaced).sum(),
            blocks: counts.blocks,
            samples: counts.samples,
            ticks: counts.ticks,
            bytes: counts.bytes,
            files: counts.files,
            gaps: counts.gaps,
            lost_age_ns: None,
        })
    }
}

fn finish(recording: &Recording, task: &str) {
    if let Err(error) = recording.finish() {
        let path = recording.path().display().to_string();
        warn!(task, path, "{task}: the recording could not be finished: {path}: {error}");
    }
}

/// The tasks that are recorded there.
fn users<'a>(tasks: &'a [DrainedTask], recording: &Recording) -> impl Iterator<Item = &'a DrainedTask> {
    tasks.iter().filter(move |task| task.output.recording.as_ref() == Some(recording))
}

/// Notes that this recording of these tasks is being written, in case the write takes long.
fn writes<'a>(progress: &Progress, recording: &Recording, users: impl Iterator<Item = &'a DrainedTask>) {
    progress.writes(Some(format!("of {} in {}", names(users), recording.path().display())));
}

fn names<'a>(users: impl Iterator<Item = &'a DrainedTask>) -> String {
    users.map(|task| task.output.content.task.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::content::Content;
    use super::*;
    use crate::channels::{Basis, Queue, Row, RowSender, rows};
    use crate::recording::Recordings;
    use crate::recording::tests::testing::{column, content, in_folder, limits};

    /// A recorder with this task, and the task's queue of rows.
    fn recorder(room: usize, content: Content, recording: Option<Recording>) -> (Recorder, RowSender) {
        let ((sender, rows), clock) = (rows(Queue::Fifo, room, 1), KernelClock::monotonic());
        let mut recorder = Recorder::default();
        recorder.add(TaskOutput {
            id: 7,
            clock,
            content,
            inputs: Vec::new(),
            rows,
            blocks: None,
            recording,
            ticks: None,
        });
        (recorder, sender)
    }

    #[test]
    fn values_are_summed_up_and_recorded_in_utc() {
        let (_folder, path) = in_folder("x.csv");
        let content = content(vec![column("v", "m")], None);
        let recording = Some(Recordings::default().open(&limits(&path), &content).unwrap());
        let (mut recorder, mut sender) = recorder(4, content, recording);
        for (n, value) in [2.0, f64::NAN, -1.0, 0.5, 9.0].iter().enumerate() {
            let n = n as u64;
            let release = Instant::from_nanos(i128::from(n));
            sender.offer(Row {
                n,
                basis: Basis::Good,
                release,
                lateness: Span::ZERO,
                values: std::slice::from_ref(value),
            });
        }
        recorder.drain(Instant::ZERO, |_| 1_000_000_000);
        let states = recorder.states();
        let value = &states[0].values["v"];
        let parts = (value.last, value.min, value.max, value.unit.as_str());
        assert_eq!(parts, (Some(9.0), Some(-1.0), Some(9.0), "m"), "also of the row that found no room");
        assert!(value.age_ns.is_some() && states[0].lost_at.is_some());
        let recorded = states[0].recorded.clone().unwrap();
        assert_eq!((recorded.rows, recorded.lost, recorded.files), (4, 1, 1));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().nth(3), Some("2,1970-01-01T00:00:01.000000002Z,0,-1"));
        recorder.remove(&[(7, 41)].into());
        assert!(recorder.states().is_empty() && recorder.recordings.is_empty());
        assert_eq!(recorder.past()["t"].lost, 1 + 41, "what found no room, and ticks that never came");
    }

    #[test]
    fn the_last_drain_takes_all_that_is_left() {
        let wanted = ROWS_AT_A_TIME + 2;
        let (mut recorder, mut sender) = recorder(wanted, content(vec![column("v", "")], None), None);
        for n in 0..wanted {
            let (n, values) = (n as u64, [n as f64]);
            sender.offer(Row { n, basis: Basis::Good, release: Instant::ZERO, lateness: Span::ZERO, values: &values });
        }
        recorder.drain(Instant::ZERO, |_| 0);
        let last = |recorder: &Recorder| recorder.states()[0].values["v"].last;
        assert_eq!(last(&recorder), Some(ROWS_AT_A_TIME as f64 - 1.0));
        recorder.finish();
        assert_eq!(last(&recorder), Some(wanted as f64 - 1.0));
    }
}
