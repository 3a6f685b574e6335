//! The chunks of an MCAP file. Each is put together in memory and written whole, so that the file ends with a whole chunk at
//! every moment. One that the disk does not take waits and is tried again. May block; time is an argument.

use crate::recording::content::RecordedTick;
use crate::recording::digest::{self, Channels, Piece};
use crate::recording::file::RecordingFile;
use crate::time::{Instant, Span};
use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{Attachment, McapError, WriteOptions, Writer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A chunk is finished at this size, or at this age.
const LARGEST_CHUNK: u64 = 1 << 20;
const OLDEST_CHUNK: Span = Span::from_seconds(1);

/// What was recorded since the last digest is summed up when there is so much of it, or at this age: a reader has to read no more
/// than that of a file without an end.
const LARGEST_PIECE: u64 = 64 << 20;
const OLDEST_PIECE: Span = Span::from_seconds(60);

/// The share of the largest size of a file that is kept free for its last digest.
const DIGEST_SHARE: u64 = 32;

/// More than a channel's part of a digest usually takes.
const DIGEST_OF_CHANNEL: u64 = 64 << 10;

/// Bytes that an attachment takes beside its data and twice its name, with its entry in the index.
const PER_ATTACHMENT: u64 = 160;

/// Bytes that a message takes beside its data: its record's header, and its entry in the index.
const PER_MESSAGE: u64 = 47;

/// What the writer has written and the disk has not taken yet. The writer owns one end of it.
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

/// What was put into a file since its last digest.
#[derive(Debug, Default)]
struct Undigested {
    piece: Piece,
    since: Option<Instant>, // its first message
    bytes: u64,
}

pub(super) struct Chunks {
    writer: Writer<NoSeek<Spool>>,
    spool: Spool,
    pending: u64, // bytes in the chunk that is being put together
    since: Option<Instant>,
    pub(super) messages: u64,
    chunks: u64,
    repeated: u64, // bytes of schemas and channels, which the summary repeats
    channels: u64,
    topics: BTreeMap<String, Schema>, // a topic has one schema in a file
    undigested: Undigested,
    ticks: Channels,  // with ticks and overruns
    digested: u64,    // where the last digest ends
    attachments: u64, // digests
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
            undigested: Undigested::default(),
            ticks: Channels::new(),
            digested: 0,
            attachments: 0,
        })
    }

    /// Adds a channel and returns its number. `None`: the topic has another schema in this file.
    pub(super) fn channel(&mut self, topic: &str, encoding: &str, schema: &Schema) -> io::Result<Option<u16>> {
        if self.topics.entry(topic.to_owned()).or_insert_with(|| schema.clone()) != schema {
            return Ok(None);
        }
        let schema_encoding = if encoding == "json" { "jsonschema" } else { encoding };
        let id = self.writer.add_schema(&schema.name, schema_encoding, &schema.data).map_err(reason)?;
        self.channels += 1;
        self.repeated += (schema.data.len() + schema.name.len() + topic.len() + 100) as u64;
        let channel = self.writer.add_channel(id, topic, encoding, &BTreeMap::new()).map_err(reason)?;
        if topic.ends_with("/ticks") || topic.ends_with("/overruns") {
            self.ticks.insert(channel, topic.to_owned());
        }
        Ok(Some(channel))
    }

    /// Puts a message into the chunk.
    pub(super) fn put(&mut self, channel: u16, sequence: u64, utc: i128, data: &[u8], now: Instant) -> io::Result<()> {
        let time = u64::try_from(utc).unwrap_or_default();
        // A sequence has 32 bits and wraps.
        let sequence = u32::try_from(sequence & u64::from(u32::MAX)).unwrap_or_default();
        let header = MessageHeader { channel_id: channel, sequence, log_time: time, publish_time: time };
        self.writer.write_to_known_channel(&header, data).map_err(reason)?;
        self.pending += data.len() as u64 + PER_MESSAGE;
        self.messages += 1;
        self.since.get_or_insert(now);
        self.undigested.since.get_or_insert(now);
        self.undigested.bytes += data.len() as u64 + PER_MESSAGE;
        Ok(())
    }

    /// Sums up a tick of this task, which was put in.
    pub(super) fn sum_up(&mut self, task: &str, tick: &RecordedTick, utc: i128) {
        self.undigested.piece.tick(task, tick, i64::try_from(utc.max(0)).unwrap_or(i64::MAX));
    }

    /// An upper bound of the file's size if it were finished with one more message of `bytes`.
    pub(super) fn size_with(&self, file: &RecordingFile, bytes: usize) -> u64 {
        let index = (self.chunks + 1) * (100 + 30 * self.channels) + self.attachments * PER_ATTACHMENT;
        let waiting = self.spool.bytes().len() as u64 + self.pending + self.repeated;
        file.length() + waiting + bytes as u64 + PER_MESSAGE + index + self.repeated + 1_000
    }

    /// Bytes that are kept free for the last digest of a file whose size is limited.
    pub(super) fn reserve(&self, file: &RecordingFile) -> u64 {
        file.largest().map_or(0, |largest| (largest / DIGEST_SHARE).min(self.channels * DIGEST_OF_CHANNEL))
    }

    pub(super) const fn is_large(&self) -> bool {
        self.pending >= LARGEST_CHUNK
    }

    pub(super) fn is_old(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now - since >= OLDEST_CHUNK)
    }

    /// Whether the disk has not taken the chunk before.
    pub(super) fn is_stuck(&self) -> bool {
        !self.spool.bytes().is_empty()
    }

    /// Finishes the chunk and writes it, after what the disk has not taken before; whole, or nothing. A digest follows it if it
    /// is time.
    pub(super) fn write(&mut self, file: &mut RecordingFile) -> io::Result<()> {
        self.finish_chunk()?;
        let Undigested { since, bytes, .. } = self.undigested;
        let old = since.is_some_and(|since| file.at.now - since >= OLDEST_PIECE);
        if bytes >= LARGEST_PIECE || old {
            self.digest(file)?;
        }
        self.hand_over(file)
    }

    /// The same at the end of a file.
    pub(super) fn write_last(&mut self, file: &mut RecordingFile) -> io::Result<()> {
        self.finish_chunk()?;
        if self.undigested.bytes > 0 {
            self.digest(file)?;
        }
        self.hand_over(file)
    }

    fn finish_chunk(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(reason)?;
        self.chunks += u64::from(self.pending > 0);
        (self.pending, self.since) = (0, None);
        Ok(())
    }

    /// Sums up what was put in since the last digest, unless the file would get too large by that.
    fn digest(&mut self, file: &RecordingFile) -> io::Result<()> {
        let begin = file.length() + self.spool.bytes().len() as u64;
        let text = digest::write(&self.undigested.piece, self.ticks.clone(), (self.digested, begin));
        let bytes = text.len() as u64 + PER_ATTACHMENT;
        if file.exceeds(self.size_with(file, 0) + bytes) {
            return Ok(());
        }
        let time = u64::try_from(file.at.utc()).unwrap_or_default();
        let (name, media_type) = (digest::NAME.to_owned(), "application/json".to_owned());
        let attachment = Attachment { log_time: time, create_time: time, data: Cow::Owned(text), name, media_type };
        self.writer.attach(&attachment).map_err(reason)?;
        self.attachments += 1;
        self.digested = file.length() + self.spool.bytes().len() as u64;
        self.undigested.piece.turn();
        (self.undigested.since, self.undigested.bytes) = (None, 0);
        Ok(())
    }

    /// Writes what belongs at the end of a file.
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

/// What the messages of a channel are.
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
