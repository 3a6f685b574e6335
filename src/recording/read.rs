//! Reads the ticks of an MCAP recording, one chunk at a time. May block, and allocates a few words per tick.

use super::content::Whys;
use super::mcap_file::McapFile;
use super::mcap_record::{McapRecord, op};
use super::message::{Overrun, TickMessage};
use super::past::{Past, PastTask, PastTick};
use crate::time::{Instant, Span};
use std::collections::BTreeMap;
use std::path::Path;

/// What a channel contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Ticks,
    Overruns,
}

/// The error for a file without ticks.
pub(super) const NO_TICK: &str =
    "there is no tick in it; give each task of interest record = \"FILE.mcap\" and record again";

/// The maximum number of tasks in a recording: as many as an MCAP file can distinguish at a time.
const MOST_TASKS: usize = 1 << 16;

/// Reads the ticks of a recording.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub(crate) fn read(path: &Path) -> Result<Past, String> {
    let mut file = McapFile::open(path)?;
    let mut ticks = Ticks::default();
    while let Some(at) = file.next()? {
        match at.opcode {
            op::CHUNK | op::CHANNEL | op::MESSAGE => file.records(at, |record| ticks.take(record))?,
            op::DATA_END => break,
            // Other records do not matter here, even if they are damaged.
            _ => {}
        }
    }
    let past = Past { cut_off: !file.is_whole()?, ..ticks.past() };
    match past.tasks.is_empty() {
        false => Ok(past),
        true => Err(file.wrong(NO_TICK)),
    }
}

/// The ticks found so far.
#[derive(Default)]
pub(super) struct Ticks {
    past: Past,
    positions: BTreeMap<String, usize>,      // by task name: the index in `past.tasks`
    channels: BTreeMap<u16, (usize, Topic)>, // by channel number: the task's index, and what the channel contains
}

impl Ticks {
    /// The tasks that have ticks.
    pub(super) fn past(mut self) -> Past {
        self.past.tasks.retain(|task| !task.ticks.is_empty());
        self.past
    }

    /// Adds the channel with this number.
    pub(super) fn channel(&mut self, id: u16, topic: &str) -> Result<(), String> {
        let ticks = topic.strip_suffix("/ticks").map(|name| (name, Topic::Ticks));
        let overruns = || topic.strip_suffix("/overruns").map(|name| (name, Topic::Overruns));
        let Some((name, topic)) = ticks.or_else(overruns) else { return Ok(()) };
        let tasks = &mut self.past.tasks;
        if self.channels.get(&id).is_some_and(|(known, of)| *of == topic && tasks[*known].name == name) {
            return Ok(());
        }
        if tasks.len() >= MOST_TASKS {
            return Err(format!("it names more than {MOST_TASKS} tasks; hertzd has not written it"));
        }
        let position = *self.positions.entry(name.to_owned()).or_insert_with(|| {
            tasks.push(PastTask { name: name.to_owned(), ..PastTask::default() });
            tasks.len() - 1
        });
        self.channels.insert(id, (position, topic));
        Ok(())
    }

    /// Enters the content of a record.
    pub(super) fn take(&mut self, record: McapRecord<'_>) -> Result<(), String> {
        match record {
            McapRecord::Channel { id, topic } => self.channel(id, topic)?,
            McapRecord::Message { channel, log_time, data } => {
                let Some(&(position, topic)) = self.channels.get(&channel) else { return Ok(()) };
                let task = &mut self.past.tasks[position];
                match topic {
                    Topic::Overruns => take_overrun(task, data),
                    Topic::Ticks => take_tick(task, Instant::from_nanos(log_time.into()), data)?,
                }
            }
            McapRecord::Other => {}
        }
        Ok(())
    }
}

fn take_overrun(task: &mut PastTask, data: &[u8]) {
    // An overrun message that cannot be parsed is ignored: the overrun then has no cause.
    let Ok(overrun) = serde_json::from_slice::<Overrun>(data) else { return };
    let n = overrun.n;
    task.causes.extend(overrun.known().map(|cause| (n, cause)));
    if let Some((_, whys)) = task.whys.last_mut().filter(|(of, _)| *of == n) {
        overrun.explain(whys);
    }
}

fn take_tick(task: &mut PastTask, release: Instant, data: &[u8]) -> Result<(), String> {
    let mut message = TickMessage::of(data, &task.name)?;
    if task.ticks.last().is_some_and(|last| message.n <= last.n) {
        task.before += task.ticks.len() as u64;
        task.ticks.clear();
        task.causes.clear();
        task.whys.clear();
    }
    let nanos = Span::from_nanos;
    let sleep = message.woke_ns.zip(message.oversleep_ns);
    task.whys.extend(message.missed().map(|whys: Box<Whys>| (message.n, whys)));
    task.ticks.push(PastTick {
        n: message.n,
        release,
        run: nanos(message.run_ns).max(Span::ZERO),
        response: nanos(message.response_ns),
        skipped: message.skipped,
        overrun: message.overrun,
        sleep: sleep.map(|(woke, late)| (nanos(woke) - nanos(late), nanos(late))),
    });
    Ok(())
}
