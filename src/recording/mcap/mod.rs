//! MCAP files with everything from one or more tasks: values, samples, ticks and overruns as JSON, sound and pictures in Foxglove's
//! schemas. Each kind of a task's data has its own channel, such as `TASK/values`. May block; time is an argument.

mod chunks;
mod foxglove;
mod json;
#[cfg(test)]
mod tests;
mod topics;

use super::content::{Content, RecordedTick};
use super::file::{Moment, RecordingFile};
use super::ledger::WriteCounts;
use super::samples;
use super::writer::Writer;
use crate::channels::{Block, Format};
use crate::config::RecordConfig;
use crate::recording::content::RecordedRow;
use chunks::Chunks;
use std::collections::BTreeMap;
use std::io;
use topics::{Kind, TaskTopics};

/// More than an overrun message takes besides the culprit's name, which is the name of a task or a program.
const LARGEST_OVERRUN: usize = 512;

#[derive(Debug)]
pub(super) struct Mcap {
    file: RecordingFile,
    tasks: BTreeMap<u32, TaskTopics>,
    chunks: Option<Chunks>, // while the file is open
    wrote: bool,
    message: Vec<u8>,
}

/// The properties of a message other than its data.
#[derive(Clone, Copy)]
struct MessageHead {
    id: u32,
    kind: Kind,
    sequence: u64,
    utc: i128,
}

impl Mcap {
    pub(super) fn new(file: RecordingFile) -> Self {
        Self { file, tasks: BTreeMap::new(), chunks: None, wrote: false, message: Vec::new() }
    }

    /// Begins a file, unless that has just failed. If tasks disagree about a topic's schema, the task `first` decides, and after it the
    /// most recent task.
    fn start(&mut self, first: Option<u32>) {
        if self.chunks.is_some() || !self.file.may_try() {
            return;
        }
        match self.file.open().and_then(|()| self.first_chunk(first)) {
            Ok(chunks) => {
                self.chunks = Some(chunks);
                self.file.begun();
            }
            Err(error) => self.file.give_up(error),
        }
    }

    fn first_chunk(&mut self, first: Option<u32>) -> io::Result<Chunks> {
        let mut chunks = Chunks::new()?;
        let mut tasks: Vec<_> = self.tasks.iter_mut().rev().collect();
        tasks.sort_by_key(|(id, _)| Some(**id) != first);
        for topic in tasks.into_iter().flat_map(|(_, task)| &mut task.topics) {
            topic.channel = chunks.channel(&topic.name, topic.encoding, &topic.schema)?;
        }
        chunks.write(&mut self.file)?;
        Ok(chunks)
    }

    /// Writes the end of the file. Data that the disk does not accept is lost. A file that another program has cut off gets no end: its
    /// index would point to data that is gone.
    fn end(&mut self) {
        let Some(mut chunks) = self.chunks.take() else { return };
        let written = match self.file.is_cut_off() {
            true => {
                let gone = self.file.lose_partial_writes();
                let text = format!("another program has made the file shorter: {gone} are gone; a new one begins");
                Err(io::Error::other(text))
            }
            false => chunks.write(&mut self.file),
        };
        let end = self.file.length();
        self.file.ledger.settle((written.is_ok() && !self.file.is_deleted()).then_some(end));
        if let Err(error) = written.and_then(|()| chunks.finish(&mut self.file)) {
            self.file.fail(error);
        }
    }

    /// Begins the next file, for a message of task `first`.
    fn turn(&mut self, first: Option<u32>) {
        self.end();
        if let Err(error) = self.file.retire() {
            // The file has its end and cannot be continued. The next one begins when this one can be put aside.
            self.file.give_up(error);
        }
        self.start(first);
    }

    /// Adds the message that `write` creates, and writes the chunk if it is large.
    fn put(&mut self, head: MessageHead, counts: WriteCounts, write: impl FnOnce(&TaskTopics, &mut Vec<u8>)) {
        self.put_with(head, counts, 0, write);
        self.write_large();
    }

    /// The same without writing the chunk, into a file that also has room for `more` bytes after the message. Returns true if the message
    /// was added.
    fn put_with(
        &mut self,
        head: MessageHead,
        counts: WriteCounts,
        more: usize,
        write: impl FnOnce(&TaskTopics, &mut Vec<u8>),
    ) -> bool {
        let MessageHead { id, kind, sequence, utc } = head;
        let Some(task) = self.tasks.get(&id) else { return false };
        self.message.clear();
        write(task, &mut self.message);
        let too_large = |chunks: &Chunks| {
            chunks.messages > 0 && self.file.is_full(chunks.size_with(&self.file, self.message.len() + more))
        };
        // A topic has one schema per file: the first message with a different schema begins the next file.
        let clashes = task.topics.iter().any(|topic| topic.kind == kind && topic.channel.is_none());
        if self.chunks.as_ref().is_some_and(|chunks| !chunks.is_stuck() && (clashes || too_large(chunks))) {
            self.turn(Some(id));
        }
        let channel = self.tasks.get(&id).and_then(|task| task.topics.iter().find(|topic| topic.kind == kind)?.channel);
        let (Some(chunks), Some(channel)) = (self.chunks.as_mut().filter(|chunks| !chunks.is_stuck()), channel) else {
            self.file.ledger.lose(id, counts);
            return false;
        };
        self.file.stamp(utc);
        match chunks.put(channel, sequence, utc, &self.message, self.file.at.now) {
            Ok(()) => {
                self.file.ledger.pend(id, WriteCounts { bytes: self.message.len() as u64, ..counts });
                true
            }
            Err(error) => {
                self.file.ledger.lose(id, counts);
                self.file.fail(error);
                false
            }
        }
    }

    fn write_large(&mut self) {
        if self.chunks.as_ref().is_some_and(Chunks::is_large) {
            self.write();
        }
    }

    #[cfg(test)]
    pub(super) fn fill_up(&mut self) {
        self.file.fill_up();
    }

    #[cfg(test)]
    pub(super) fn make_room(&mut self) {
        self.file.make_room();
    }

    /// Writes the chunk. If the disk does not accept it, it waits, and messages that come after it are lost.
    pub(super) fn write(&mut self) {
        if self.chunks.is_some() && self.file.is_cut_off() {
            return self.turn(None);
        }
        let Some(chunks) = &mut self.chunks else { return };
        match chunks.write(&mut self.file) {
            Ok(()) => {
                let end = self.file.length();
                self.file.ledger.settle(Some(end));
                self.wrote = true;
            }
            Err(error) => {
                self.file.tried = Some(self.file.at.now);
                self.file.fail(error);
            }
        }
    }
}

impl Writer for Mcap {
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.file.join(id, content, limits);
        let mut task = TaskTopics::of(content);
        if let Some(chunks) = &mut self.chunks {
            for topic in &mut task.topics {
                topic.channel = chunks.channel(&topic.name, topic.encoding, &topic.schema).ok().flatten();
            }
        }
        self.tasks.insert(id, task);
    }

    fn leave(&mut self, id: u32) {
        self.file.leave(id);
        self.tasks.remove(&id);
    }

    fn begin(&mut self, at: Moment) {
        self.file.at = at;
        let has_holes = self.file.has_holes();
        let has_messages = |chunks: &Chunks| chunks.messages > 0 && !chunks.is_stuck();
        if self.file.is_gone() {
            // The open file can still be finished at its new place.
            self.end();
            self.file.close();
        } else if self.chunks.as_ref().is_some_and(Chunks::is_stuck) && self.file.may_try() {
            self.write();
        } else if self.chunks.is_some() && (has_holes || self.file.is_cut_off())
            || self.file.is_old() && self.chunks.as_ref().is_some_and(has_messages)
        {
            self.turn(None);
        }
        self.start(None);
    }

    fn row(&mut self, id: u32, row: &RecordedRow<'_>, utc: i128) {
        let RecordedRow { row, qualities } = row;
        let head = MessageHead { id, kind: Kind::Values, sequence: row.n, utc };
        if !row.values.is_empty() {
            let values = row.values.iter().copied();
            self.put(head, WriteCounts { rows: 1, ..WriteCounts::default() }, |task, message| {
                task.values.write(message, values, qualities)
            });
        }
    }

    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128) {
        let Some(format) = self.tasks.get(&id).and_then(|task| task.format.clone()) else { return };
        let (index, utc) = (block.head.index, block.head.at.nanos() + to_utc);
        let head = MessageHead { id, kind: Kind::Blocks, sequence: index, utc };
        let counts = WriteCounts { blocks: 1, ..WriteCounts::default() };
        let count = samples::count(&format, block.bytes);
        self.file.ledger.block(id, index, count);
        match format {
            Format::Audio(format) => {
                let write = |_: &TaskTopics, message: &mut Vec<u8>| foxglove::audio(message, format, utc, block.bytes);
                self.put(head, WriteCounts { samples: count, ..counts }, write);
            }
            Format::Image(format) => {
                self.put(head, counts, |task, message| foxglove::image(message, format, utc, &task.name, block.bytes));
            }
            Format::Samples(columns) => {
                for (sample, nth) in samples::read(block.bytes, columns.len()).zip(1..) {
                    let head = MessageHead { sequence: index + nth - 1, utc: i128::from(sample.at) + to_utc, ..head };
                    // The block counts with its last sample: if one sample is lost, so are those after it.
                    let counts = WriteCounts { blocks: u64::from(nth == count), samples: 1, ..WriteCounts::default() };
                    self.put(head, counts, |task, message| task.samples.write(message, sample.values(), &[]));
                }
            }
        }
    }

    fn tick(&mut self, tick: &RecordedTick, utc: i128) {
        let head = MessageHead { id: tick.task, kind: Kind::Ticks, sequence: tick.n, utc };
        let counts = WriteCounts { ticks: 1, ..WriteCounts::default() };
        // Both messages go into one file, so that the cause of an overrun is next to it.
        let more = if tick.overrun().is_some() { LARGEST_OVERRUN } else { 0 };
        let is_in = self.put_with(head, counts, more, |_, message| json::tick(message, tick));
        if is_in && tick.overrun().is_some() {
            let head = MessageHead { kind: Kind::Overruns, ..head };
            self.put_with(head, WriteCounts::default(), 0, |_, message| json::overrun(message, tick));
        }
        self.write_large();
    }

    fn flush(&mut self) -> io::Result<bool> {
        if self.chunks.as_ref().is_some_and(|chunks| !chunks.is_stuck() && chunks.is_old(self.file.at.now)) {
            self.write();
        }
        let wrote = std::mem::take(&mut self.wrote);
        self.file.flush(wrote)
    }

    fn hurry(&mut self) {
        self.file.hurries = true;
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end();
        self.file.finish();
        self.file.flush(false).map(drop)
    }

    fn counts(&self, id: u32) -> WriteCounts {
        self.file.counts(id)
    }
}
