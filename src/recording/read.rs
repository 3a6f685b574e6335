//! Reads the ticks of an MCAP recording, a chunk at a time. May block, and allocates a few words for each tick.

use super::past::{Past, PastTask, PastTick};
use crate::metrics::Cause;
use crate::time::{Instant, Span};
use ::mcap::McapError;
use ::mcap::records::Record;
use ::mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A message of `TASK/ticks`; other keys may follow in later versions.
#[derive(Deserialize)]
struct Message {
    n: u64,
    run_ns: i64,
    response_ns: i64,
    skipped: u64,
    overrun: bool,
    woke_ns: Option<i64>,
    oversleep_ns: Option<i64>,
}

/// A message of `TASK/overruns`; it follows that of its tick.
#[derive(Deserialize)]
struct Overrun {
    n: u64,
    cause: String,
}

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
    let mut past = Past::default();
    let mut channels = BTreeMap::new(); // of ticks, by number: the position of the task, and what it has
    let mut reader = LinearReader::new();
    while let Some(event) = reader.next_event() {
        match event {
            Ok(LinearReadEvent::ReadRequest(wanted)) => {
                let room = reader.insert(wanted);
                let read = retried(|| file.read(room)).map_err(|error| wrong(error.to_string()))?;
                reader.notify_read(read);
            }
            Ok(LinearReadEvent::Record { data, opcode }) => {
                let record = ::mcap::parse_record(opcode, data).map_err(|error| wrong(damaged(&error)))?;
                take(&record, &mut past, &mut channels).map_err(&wrong)?;
            }
            Err(McapError::UnexpectedEof | McapError::UnexpectedEoc | McapError::BadMagic) if !channels.is_empty() => {
                past.cut_off = true;
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
    past.tasks.retain(|task| !task.ticks.is_empty());
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

fn take(record: &Record<'_>, past: &mut Past, channels: &mut BTreeMap<u16, (usize, Topic)>) -> Result<(), String> {
    match record {
        Record::Channel(channel) => {
            let ticks = channel.topic.strip_suffix("/ticks").map(|name| (name, Topic::Ticks));
            let overruns = || channel.topic.strip_suffix("/overruns").map(|name| (name, Topic::Overruns));
            let Some((name, topic)) = ticks.or_else(overruns) else { return Ok(()) };
            let position = past.tasks.iter().position(|task| task.name == name).unwrap_or_else(|| {
                past.tasks.push(PastTask { name: name.to_owned(), ticks: Vec::new(), causes: Vec::new(), before: 0 });
                past.tasks.len() - 1
            });
            channels.insert(channel.id, (position, topic));
        }
        Record::Message { header, data } => {
            let Some(&(position, topic)) = channels.get(&header.channel_id) else { return Ok(()) };
            let task = &mut past.tasks[position];
            if topic == Topic::Overruns {
                // One that cannot be understood is an overrun without a cause.
                let Ok(Overrun { n, cause }) = serde_json::from_slice(data) else { return Ok(()) };
                task.causes.extend(Cause::ALL.into_iter().find(|known| known.word() == cause).map(|cause| (n, cause)));
                return Ok(());
            }
            let message: Message = serde_json::from_slice(data)
                .map_err(|error| format!("{}/ticks holds what is no tick of hertzd: {error}", task.name))?;
            if task.ticks.last().is_some_and(|last| message.n <= last.n) {
                task.before += task.ticks.len() as u64;
                task.ticks.clear();
                task.causes.clear();
            }
            let nanos = Span::from_nanos;
            let sleep = message.woke_ns.zip(message.oversleep_ns);
            task.ticks.push(PastTick {
                n: message.n,
                release: Instant::from_nanos(header.log_time.into()),
                run: nanos(message.run_ns).max(Span::ZERO),
                response: nanos(message.response_ns),
                skipped: message.skipped,
                overrun: message.overrun,
                sleep: sleep.map(|(woke, late)| (nanos(woke) - nanos(late), nanos(late))),
            });
        }
        _ => {}
    }
    Ok(())
}
