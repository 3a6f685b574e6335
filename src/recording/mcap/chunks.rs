//! The chunks of an MCAP file. Each is built in memory and written whole, so the file ends with a whole chunk at every moment. A chunk that
//! the disk does not accept waits and is retried. May block; time is an argument.

use crate::recording::file::RecordingFile;
use crate::time::{Instant, Span};
use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{McapError, WriteOptions, Writer};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size or age at which a chunk is finished.
const LARGEST_CHUNK: u64 = 1 << 20;
const OLDEST_CHUNK: Span = Span::from_seconds(1);

/// Bytes that a message takes besides its data: its record's header, and its index entry.
const PER_MESSAGE: u64 = 47;

/// What the writer has written but the disk has not accepted yet. The writer owns one end of it.
#[derive(Clone, Debug, Default)]
struct Spool(Arc<Mutex<Vec<u8>>>);

impl Spool {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) struct Chunks {
    writer: Writer<NoSeek<Spool>>,
    spool: Spool,
    pending: u64, // bytes in the chunk being built
    since: Option<Instant>,
    pub(super) messages: u64,
    chunks: u64,
    repeated: u64, // bytes of schemas and channels, which the summary repeats
    channels: u64,
    topics: BTreeMap<String, Schema>, // a topic has one schema per file
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("messages", &self.messages).field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

impl Chunks {
    pub(super) fn new() -> io::Result<Self> {
        let spool = Spool::default();
        let options = WriteOptions::new()
            .compression(None)
            .chunk_size(None)
            .disable_seeking(true)
            .library(concat!("hertzd ", env!("CARGO_PKG_VERSION")));
        let writer = options.create(NoSeek::new(spool.clone())).map_err(reason)?;
        Ok(Self {
            writer,
            spool,
            pending: 0,
            since: None,
            messages: 0,
            chunks: 0,
            repeated: 0,
            channels: 0,
            topics: BTreeMap::new(),
        })
    }

    /// Adds a channel and returns its number; `None` if the topic has a different schema in this file.
    pub(super) fn channel(&mut self, topic: &str, encoding: &str, schema: &Schema) -> io::Result<Option<u16>> {
        if self.topics.entry(topic.to_owned()).or_insert_with(|| schema.clone()) != schema {
            return Ok(None);
        }
        let schema_encoding = if encoding == "json" { "jsonschema" } else { encoding };
        let id = self.writer.add_schema(&schema.name, schema_encoding, &schema.data).map_err(reason)?;
        self.channels += 1;
        self.repeated += (schema.data.len() + schema.name.len() + topic.len() + 100) as u64;
        self.writer.add_channel(id, topic, encoding, &BTreeMap::new()).map(Some).map_err(reason)
    }

    /// Puts a message into the chunk.
    pub(super) fn put(&mut self, channel: u16, sequence: u64, utc: i128, data: &[u8], now: Instant) -> io::Result<()> {
        let time = u64::try_from(utc).unwrap_or_default();
        // A sequence number has 32 bits and wraps.
        let sequence = u32::try_from(sequence & u64::from(u32::MAX)).unwrap_or_default();
        let header = MessageHeader { channel_id: channel, sequence, log_time: time, publish_time: time };
        self.writer.write_to_known_channel(&header, data).map_err(reason)?;
        self.pending += data.len() as u64 + PER_MESSAGE;
        self.messages += 1;
        self.since.get_or_insert(now);
        Ok(())
    }

    /// An upper bound on the file's size if it were finished after one more message of `bytes`.
    pub(super) fn size_with(&self, file: &RecordingFile, bytes: usize) -> u64 {
        let index = (self.chunks + 1) * (100 + 30 * self.channels);
        let waiting = self.spool.bytes().len() as u64 + self.pending + self.repeated;
        file.length() + waiting + bytes as u64 + PER_MESSAGE + index + self.repeated + 1_000
    }

    pub(super) const fn is_large(&self) -> bool {
        self.pending >= LARGEST_CHUNK
    }

    pub(super) fn is_old(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now - since >= OLDEST_CHUNK)
    }

    /// Whether the disk has not accepted the previous chunk yet.
    pub(super) fn is_stuck(&self) -> bool {
        !self.spool.bytes().is_empty()
    }

    /// Finishes the chunk and writes it, preceded by anything that the disk did not accept before. Writes all of it or nothing.
    pub(super) fn write(&mut self, file: &mut RecordingFile) -> io::Result<()> {
        self.writer.flush().map_err(reason)?;
        self.chunks += u64::from(self.pending > 0);
        (self.pending, self.since) = (0, None);
        self.hand_over(file)
    }

    /// Writes the end of the file.
    pub(super) fn finish(&mut self, file: &mut RecordingFile) -> io::Result<()> {
        self.writer.finish().map_err(reason)?;
        self.hand_over(file)
    }

    fn hand_over(&self, file: &mut RecordingFile) -> io::Result<()> {
        let mut spool = self.spool.bytes();
        file.append(&spool)?;
        spool.clear();
        Ok(())
    }
}

/// The schema of a channel's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) data: Vec<u8>,
}

fn reason(error: McapError) -> io::Error {
    match error {
        McapError::Io(error) => error,
        error => io::Error::other(error),
    }
}
