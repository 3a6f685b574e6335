//! Everything of one task or several as MCAP: values, samples, ticks and overruns as JSON, sound and pictures as Foxglove
//! has them. Every kind of data of a task has a channel of its own, `TASK/values`.

mod chunks;

mod foxglove;

mod json;

mod topics;

#[cfg(test)]
mod tests;

use super::{Content, Form, Gaps, Ledger, RecordedTick, Tally, samples};
use crate::channels::{Block, Format, Row};
use crate::config::RecordConfig;
use crate::recording::file::{Disk, Moment};
use chunks::Chunks;
use std::collections::BTreeMap;
use std::io;
use topics::{Kind, Member};

#[derive(Debug)]
pub(super) struct Mcap {
    disk: Disk,
    ledger: Ledger,
    tasks: BTreeMap<u32, Member>,
    file: Option<Chunks>,
    gaps: Gaps,
    wrote: bool,
    failure: Option<io::Error>,
    at: Option<Moment>,
    message: Vec<u8>,
}

/// Where a message belongs.
#[derive(Clone, Copy)]
struct Place {
    id: u32,
    kind: Kind,
    sequence: u64,
    utc: i128,
}

impl Mcap {
    pub(super) fn open(limits: &RecordConfig) -> io::Result<Self> {
        drop(Disk::probe(&limits.path)?);
        Ok(Self {
            disk: Disk::new(limits.clone(), false),
            ledger: Ledger::default(),
            tasks: BTreeMap::new(),
            file: None,
            gaps: Gaps::default(),
            wrote: false,
            failure: None,
            at: None,
            message: Vec::new(),
        })
    }

    /// Begins a file, unless that was tried in vain just now. Its topics get the schemas of the task `first`, if they
    /// differ, and then of the latest.
    fn start(&mut self, at: Moment, first: Option<u32>) {
        if self.file.is_some() || !self.disk.may_try(at.now) {
            return;
        }
        match self.disk.open(at).and_then(|()| self.new_file(first)) {
            Ok(file) => {
                self.file = Some(file);
                self.disk.begun();
            }
            Err(error) => {
                self.disk.close();
                self.failure.get_or_insert(error);
            }
        }
    }

    fn new_file(&mut self, first: Option<u32>) -> io::Result<Chunks> {
        let mut file = Chunks::new()?;
        let mut tasks: Vec<_> = self.tasks.iter_mut().rev().collect();
        tasks.sort_by_key(|(id, _)| Some(**id) != first);
        for topic in tasks.into_iter().flat_map(|(_, task)| &mut task.topics) {
            topic.channel = file.channel(&topic.name, topic.encoding, &topic.schema)?;
        }
        file.write(&mut self.disk)?;
        Ok(file)
    }

    /// Writes what belongs at the end. What the disk does not take is lost.
    fn end(&mut self) {
        let Some(mut file) = self.file.take() else { return };
        let written = file.write(&mut self.disk);
        self.ledger.settle(written.is_ok());
        if let Err(error) = written.and_then(|()| file.finish(&mut self.disk)) {
            self.failure.get_or_insert(error);
        }
    }

    /// Goes over to the next file, for a message of this task.
    fn turn(&mut self, at: Moment, first: Option<u32>) {
        self.end();
        if let Err(error) = self.disk.retire(at.now) {
            // It has its end, and cannot be written on: the next one is begun when that has become possible.
            self.failure.get_or_insert(error);
            self.disk.close();
        }
        self.start(at, first);
    }

    /// Puts in what `write` writes.
    fn put(&mut self, place: Place, tally: Tally, write: impl FnOnce(&Member, &mut Vec<u8>)) {
        let Place { id, kind, sequence, utc } = place;
        let (Some(at), Some(task)) = (self.at, self.tasks.get(&id)) else { return };
        self.message.clear();
        write(task, &mut self.message);
        let too_large = |file: &Chunks| {
            file.messages() > 0 && self.disk.is_full(file.size_with(&self.disk, self.message.len()), at.now)
        };
        // A topic has one schema in a file: the first message with another one begins the next.
        let clashes = task.topics.iter().any(|topic| topic.kind == kind && topic.channel.is_none());
        if self.file.as_ref().is_some_and(|file| !file.is_stuck() && (clashes || too_large(file))) {
            self.turn(at, Some(id));
        }
        let channel = self.tasks.get(&id).and_then(|task| task.topics.iter().find(|topic| topic.kind == kind)?.channel);
        let (Some(file), Some(channel)) = (self.file.as_mut().filter(|file| !file.is_stuck()), channel) else {
            return self.ledger.lose(id, tally);
        };
        self.disk.stamp(utc);
        match file.put(channel, sequence, utc, &self.message, at.now) {
            Ok(()) => self.ledger.pend(id, Tally { bytes: self.message.len() as u64, ..tally }),
            Err(error) => {
                self.ledger.lose(id, tally);
                self.failure.get_or_insert(error);
            }
        }
        if file.is_large() {
            self.write();
        }
    }

    #[cfg(test)]
    pub(super) fn fill_up(&mut self) -> bool {
        self.disk.fill_up()
    }

    #[cfg(test)]
    pub(super) fn make_room(&mut self) {
        self.disk.make_room();
    }

    /// Writes the chunk. What the disk does not take waits, and what comes after it is lost.
    pub(super) fn write(&mut self) {
        let Some(file) = &mut self.file else { return };
        match file.write(&mut self.disk) {
            Ok(()) => {
                self.ledger.settle(true);
                self.wrote = true;
            }
            Err(error) => {
                if let Some(at) = self.at {
                    self.disk.tried(at.now);
                }
                self.failure.get_or_insert(error);
            }
        }
    }
}

impl Form for Mcap {
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig) {
        self.disk.limit(limits.clone());
        let mut task = Member::of(content);
        if let Some(file) = &mut self.file {
            for topic in &mut task.topics {
                topic.channel = file.channel(&topic.name, topic.encoding, &topic.schema).ok().flatten();
            }
        }
        self.tasks.insert(id, task);
    }

    fn leave(&mut self, id: u32) {
        self.tasks.remove(&id);
    }

    fn begin(&mut self, at: Moment) {
        self.at = Some(at);
        if self.disk.lost(at.now) {
            self.file = None;
            self.ledger.settle(false);
        }
        if self.disk.is_old(at.now) && self.file.as_ref().is_some_and(|file| file.messages() > 0 && !file.is_stuck()) {
            self.turn(at, None);
        }
        if self.file.as_ref().is_some_and(Chunks::is_stuck) && self.disk.may_try(at.now) {
            self.write();
        }
        self.start(at, None);
    }

    fn row(&mut self, id: u32, row: &Row<'_>, utc: i128) {
        let place = Place { id, kind: Kind::Values, sequence: row.n, utc };
        if !row.values.is_empty() {
            let values = row.values.iter().copied();
            self.put(place, Tally { rows: 1, ..Tally::default() }, |task, message| task.values.write(message, values));
        }
    }

    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128) {
        let Some(format) = self.tasks.get(&id).and_then(|task| task.format.clone()) else { return };
        let (index, utc) = (block.head.index, block.head.at.nanos() + to_utc);
        let place = Place { id, kind: Kind::Blocks, sequence: index, utc };
        let tally = Tally { blocks: 1, ..Tally::default() };
        let count = match &format {
            Format::Audio(format) => block.bytes.len() / (format.sample.bytes() * usize::from(format.channels)),
            Format::Image(_) => 1,
            Format::Samples(columns) => samples::read(block.bytes, columns.len()).count(),
        } as u64;
        self.ledger.gap(id, self.gaps.jumps(id, index, count));
        match format {
            Format::Audio(format) => {
                let write = |_: &Member, message: &mut Vec<u8>| foxglove::audio(message, format, utc, block.bytes);
                self.put(place, Tally { samples: count, ..tally }, write);
            }
            Format::Image(format) => {
                self.put(place, tally, |task, message| foxglove::image(message, format, utc, &task.name, block.bytes));
            }
            Format::Samples(columns) => {
                for (sample, nth) in samples::read(block.bytes, columns.len()).zip(1..) {
                    let place = Place { sequence: index + nth - 1, utc: i128::from(sample.at) + to_utc, ..place };
                    // The block counts with its last sample: where one is lost, so are those after it.
                    let tally = Tally { blocks: u64::from(nth == count), samples: 1, ..Tally::default() };
                    self.put(place, tally, |task, message| task.samples.write(message, sample.values()));
                }
            }
        }
    }

    fn tick(&mut self, tick: &RecordedTick, utc: i128) {
        let place = Place { id: tick.task, kind: Kind::Ticks, sequence: tick.n, utc };
        self.put(place, Tally { ticks: 1, ..Tally::default() }, |_, message| json::tick(message, tick));
        if tick.cause.is_some() {
            let place = Place { kind: Kind::Overruns, ..place };
            self.put(place, Tally::default(), |_, message| json::overrun(message, tick));
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        let old =
            self.at.is_some_and(|at| self.file.as_ref().is_some_and(|file| !file.is_stuck() && file.is_old(at.now)));
        if old {
            self.write();
        }
        let wrote = std::mem::take(&mut self.wrote);
        self.failure.take().map_or(Ok(wrote), Err)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end();
        self.disk.close();
        self.failure.take().map_or(Ok(()), Err)
    }

    fn tally(&self, id: u32) -> Tally {
        Tally { files: self.disk.files(), ..self.ledger.of(id) }
    }
}
