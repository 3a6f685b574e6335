//! Reads the ticks of an MCAP recording, a chunk at a time. May block, and allocates a few words for each tick.

use super::content::Whys;
use super::message::{Overrun, TickMessage};
use super::past::{Past, PastTask, PastTick};
use crate::time::{Instant, Span};
use ::mcap::McapError;
use ::mcap::records::{Record, op};
use ::mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What a channel has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Ticks,
    Overruns,
}

/// Reads the ticks of a recording.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub(crate) fn read(path: &Path) -> Result<Past, String> {
    let wrong = |reason: String| format!("{}: {reason}", path.display());
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut ticks = Ticks::default();
    let mut reader = LinearReader::new();
    while let Some(event) = reader.next_event() {
        match event {
            Ok(LinearReadEvent::ReadRequest(wanted)) => {
                let room = reader.insert(wanted);
                let read = retried(|| file.read(room)).map_err(|error| wrong(error.to_string()))?;
                reader.notify_read(read);
            }
            // All else is of no interest here, even damaged.
            Ok(LinearReadEvent::Record { opcode, .. }) if !matches!(opcode, op::CHANNEL | op::MESSAGE) => {}
            Ok(LinearReadEvent::Record { data, opcode }) => {
                let record = ::mcap::parse_record(opcode, data).map_err(|error| wrong(damaged(&error)))?;
                ticks.take(&record).map_err(&wrong)?;
            }
            Err(McapError::UnexpectedEof | McapError::UnexpectedEoc | McapError::BadMagic)
                if !ticks.channels.is_empty() =>
            {
                ticks.past.cut_off = true;
                break;
            }
            Err(McapError::BadMagic | McapError::UnexpectedEof) => {
                return Err(wrong(
                    "this is no MCAP file; name a recording that a task wrote with record = \"FILE.mcap\"".into(),
                ));
            }
            Err(error) => return Err(wrong(damaged(&error))),
        }
    }
    let past = ticks.past();
    if past.tasks.is_empty() {
        return Err(wrong(
            "there is no tick in it; give each task of interest record = \"FILE.mcap\" and record again".into(),
        ));
    }
    Ok(past)
}

fn damaged(error: &McapError) -> String {
    format!("{error}; if another program has written or changed it, `mcap doctor FILE` says more")
}

fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The ticks that were found so far.
#[derive(Default)]
pub(super) struct Ticks {
    past: Past,
    channels: BTreeMap<u16, (usize, Topic)>, // of ticks, by number: the position of the task, and what it has
}

impl Ticks {
    /// The tasks with a tick.
    pub(super) fn past(mut self) -> Past {
        self.past.tasks.retain(|task| !task.ticks.is_empty());
        self.past
    }

    /// There is a channel of this number.
    pub(super) fn channel(&mut self, id: u16, topic: &str) {
        let ticks = topic.strip_suffix("/ticks").map(|name| (name, Topic::Ticks));
        let overruns = || topic.strip_suffix("/overruns").map(|name| (name, Topic::Overruns));
        let Some((name, topic)) = ticks.or_else(overruns) else { return };
        let tasks = &mut self.past.tasks;
        let position = tasks.iter().position(|task| task.name == name).unwrap_or_else(|| {
            tasks.push(PastTask { name: name.to_owned(), ..PastTask::default() });
            tasks.len() - 1
        });
        self.channels.insert(id, (position, topic));
    }

    /// Takes what a record tells.
    pub(super) fn take(&mut self, record: &Record<'_>) -> Result<(), String> {
        match record {
            Record::Channel(channel) => self.channel(channel.id, &channel.topic),
            Record::Message { header, data } => {
                let Some(&(position, topic)) = self.channels.get(&header.channel_id) else { return Ok(()) };
                let task = &mut self.past.tasks[position];
                match topic {
                    Topic::Overruns => take_overrun(task, data),
                    Topic::Ticks => take_tick(task, Instant::from_nanos(header.log_time.into()), data)?,
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn take_overrun(task: &mut PastTask, data: &[u8]) {
    // One that cannot be understood is an overrun without a cause.
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
