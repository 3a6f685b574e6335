//! Writes a flight file. May block on the disk; reads no clock.

use super::record::{Packed, seal};
use super::text::Known;
use super::{HEADER, MAGIC, RECORD, VERSION};
use crate::sys::dir::Dir;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The file's name in its directory, and the name of the previous process's file.
pub(crate) const FLIGHT: &str = "flight";
pub(crate) const FLIGHT_BEFORE: &str = "flight.prev";

/// The name of a file that is being created.
const FRESH: &str = "flight.new";

/// With more than this many bytes of text about ended tasks and workers, a new file without that text is started.
const TEXT_AT_MOST: u64 = 4 << 20;

/// A flight file that is being written.
#[derive(Debug)]
pub(crate) struct FlightFile {
    directory: Arc<Dir>,
    file: File,
    capacity: u64, // records
    next: u64,     // the record to write next, counted over all laps
    text_end: u64,
    live: Vec<(Subject, u64, usize)>, // lines about live subjects, with offset and length
    ended: u64,                       // bytes of the other lines
}

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Run,
    Worker(u32),
    Task(u32),
}

impl FlightFile {
    /// Creates the file in this directory with room for this many records. An existing file, of the previous process, becomes
    /// `flight.prev`.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn begin(directory: &Arc<Dir>, capacity: u64) -> io::Result<Self> {
        match directory.rename(FLIGHT, directory, FLIGHT_BEFORE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
            // An earlier version may have left it readable for everyone. Anything but a regular file stays as it is.
            Ok(()) => drop(directory.share_file(FLIGHT_BEFORE)),
        }
        Self::create(directory, capacity)
    }

    fn create(directory: &Arc<Dir>, capacity: u64) -> io::Result<Self> {
        let file = directory.create(FRESH)?;
        let mut header = Vec::with_capacity(64);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&u32::try_from(RECORD).unwrap_or_default().to_le_bytes());
        header.extend_from_slice(&(HEADER as u64).to_le_bytes());
        header.extend_from_slice(&capacity.to_le_bytes());
        file.write_all_at(&header, 0)?;
        let text_end = HEADER as u64 + capacity * RECORD as u64;
        // The text exists from the start, and is empty until it gets a line.
        file.set_len(text_end)?;
        directory.rename(FRESH, directory, FLIGHT)?;
        Ok(Self { directory: directory.clone(), file, capacity, next: 0, text_end, live: Vec::new(), ended: 0 })
    }

    /// Writes a batch. If that fails, none of it counts as written, and the next batch overwrites it.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn write(&mut self, batch: &mut [Packed]) -> io::Result<()> {
        let mut next = self.next;
        let mut left = batch;
        while !left.is_empty() {
            let slot = next % self.capacity;
            let until_end = usize::try_from(self.capacity - slot).unwrap_or(usize::MAX);
            let (now, then) = left.split_at_mut(until_end.min(left.len()));
            let lap = u32::try_from(next / self.capacity + 1).unwrap_or(u32::MAX);
            now.iter_mut().for_each(|record| seal(record, lap));
            self.file.write_all_at(now.as_flattened(), HEADER as u64 + slot * RECORD as u64)?;
            next += now.len() as u64;
            left = then;
        }
        self.next = next;
        Ok(())
    }

    /// Writes a line about the run, a worker or a task. After very many reloads a new file is started with the lines about those still
    /// there. Then this returns `true`, and the records so far are gone.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn describe(&mut self, known: &Known) -> io::Result<bool> {
        let line = known.line();
        self.file.write_all_at(line.as_bytes(), self.text_end)?;
        let subject = match known {
            Known::Run(_) => Some(Subject::Run),
            Known::Worker(worker) => Some(Subject::Worker(worker.number)),
            Known::Task(task) => Some(Subject::Task(task.number)),
            Known::TaskEnded { number, .. } => self.forget(Subject::Task(*number), line.len()),
            Known::WorkerEnded { number, .. } => self.forget(Subject::Worker(*number), line.len()),
        };
        self.live.extend(subject.map(|subject| (subject, self.text_end, line.len())));
        self.text_end += line.len() as u64;
        if self.ended < TEXT_AT_MOST {
            return Ok(false);
        }
        let mut fresh = Self::create(&self.directory, self.capacity)?;
        for (subject, at, length) in &self.live {
            let mut line = vec![0; *length];
            self.file.read_exact_at(&mut line, *at)?;
            fresh.file.write_all_at(&line, fresh.text_end)?;
            fresh.live.push((*subject, fresh.text_end, *length));
            fresh.text_end += line.len() as u64;
        }
        *self = fresh;
        Ok(true)
    }

    fn forget(&mut self, gone: Subject, bytes: usize) -> Option<Subject> {
        let of_it = |(subject, ..): &&(Subject, u64, usize)| *subject == gone;
        self.ended += (bytes + self.live.iter().filter(of_it).map(|(.., length)| length).sum::<usize>()) as u64;
        self.live.retain(|(subject, ..)| *subject != gone);
        None
    }
}
