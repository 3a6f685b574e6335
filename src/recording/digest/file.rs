//! An MCAP file, record by record: what is passed over is not read, so that a file of many gigabytes is walked through in well
//! under a second. Blocks on the file.

use super::text::Channels;
use ::mcap::McapError;
use ::mcap::read::ChunkReader;
use ::mcap::records::{Record, op};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &[u8] = b"\x89MCAP0\r\n";

/// Opcode and length of a record.
const HEAD: usize = 9;

/// More than any record that hertzd writes, or puts together from what a device gives: a length beyond it is damage.
const LONGEST: u64 = 1 << 31;

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) opcode: u8,
    pub(super) begin: u64, // of what follows its opcode and length
    pub(super) length: u64,
    /// The file ends within it.
    partial: bool,
    /// Of a chunk: the times of its first and its last message.
    pub(super) times: (u64, u64),
}

#[derive(Debug)]
pub(super) struct McapFile {
    file: File,
    name: String,
    pub(super) length: u64,
    at: u64,
    buffer: Vec<u8>,
}

impl At {
    /// Where its record begins and ends.
    pub(super) const fn bounds(&self) -> (u64, u64) {
        (self.begin - HEAD as u64, self.begin + self.length)
    }
}

impl McapFile {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let open = || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let (file, length) = open().map_err(|error: io::Error| format!("{name}: {error}"))?;
        let mut magic = [0; 8];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) if magic == MAGIC => {}
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(format!("{name}: {error}")),
            _ => {
                return Err(format!(
                    "{name}: this is no MCAP file; name a recording that a task wrote with record = \"FILE.mcap\""
                ));
            }
        }
        Ok(Self { file, name, length, at: MAGIC.len() as u64, buffer: Vec::new() })
    }

    /// Something is wrong with the file.
    pub(super) fn wrong(&self, reason: impl std::fmt::Display) -> String {
        format!("{}: {reason}", self.name)
    }

    /// The next record; `None`: behind the last whole one, but for a chunk whose beginning is there.
    pub(super) fn next(&mut self) -> Result<Option<At>, String> {
        if self.length.saturating_sub(self.at) < HEAD as u64 {
            return Ok(None);
        }
        let (mut head, begin) = ([0; HEAD], self.at + HEAD as u64);
        self.read_at(&mut head, self.at)?;
        let [opcode, length @ ..] = head;
        let length = u64::from_le_bytes(length);
        // No record has the opcode 0: a disk has not written what is here.
        let partial = length > self.length - begin;
        if opcode == 0 || partial && opcode != op::CHUNK {
            return Ok(None);
        }
        let length = length.min(self.length - begin);
        self.at = begin + length;
        let mut times = (0, 0);
        if opcode == op::CHUNK && length >= 16 {
            let mut both = [0; 16];
            self.read_at(&mut both, begin)?;
            let time = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
            times = (time(&both[..8]), time(&both[8..]));
        }
        Ok(Some(At { opcode, begin, length, partial, times }))
    }

    /// Whether the file has its end.
    pub(super) fn is_whole(&self) -> Result<bool, String> {
        let mut magic = [0; 8];
        let Some(from) = self.length.checked_sub(16) else { return Ok(false) };
        self.read_at(&mut magic, from + 8)?;
        Ok(magic == MAGIC)
    }

    /// The attachment at that place, if it has this name and is undamaged.
    pub(super) fn attachment(&mut self, at: At, name: &str) -> Result<Option<Vec<u8>>, String> {
        // Its times, the length of its name, and its name.
        let mut begin = vec![0; usize::try_from(at.length).unwrap_or(usize::MAX).min(20 + name.len())];
        self.read_at(&mut begin, at.begin)?;
        let named = begin.get(16..20) == Some(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes()[..]);
        if !named || begin.get(20..) != Some(name.as_bytes()) {
            return Ok(None);
        }
        self.load(at)?;
        let Some((content, crc)) = self.buffer.split_last_chunk::<4>() else { return Ok(None) };
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Ok(None);
        }
        let data = |content: &[u8]| {
            let (_, rest) = content.split_at_checked(begin.len())?;
            let (kind, rest) = rest.split_first_chunk::<4>()?;
            let (_, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*kind)).ok()?)?;
            let (length, data) = rest.split_first_chunk::<8>()?;
            (u64::from_le_bytes(*length) == data.len() as u64).then(|| data.to_vec())
        };
        Ok(data(content))
    }

    /// Hands out the records of a chunk, or the record at that place.
    pub(super) fn records(
        &mut self,
        at: At,
        mut take: impl FnMut(&Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.load(at)?;
        if at.partial {
            return self.beginning(take);
        }
        let damaged = |error: McapError| {
            format!(
                "{}: {error}; if another program has written or changed it, `mcap doctor FILE` says more",
                self.name
            )
        };
        match ::mcap::parse_record(at.opcode, &self.buffer).map_err(damaged)? {
            Record::Chunk { header, data } if header.compression.is_empty() => {
                if header.uncompressed_crc != 0 && crc32fast::hash(&data) != header.uncompressed_crc {
                    return Err(damaged(McapError::BadChunkCrc {
                        saved: header.uncompressed_crc,
                        calculated: crc32fast::hash(&data),
                    }));
                }
                let mut rest = &data[..];
                while let Some((opcode, record, next)) = first(rest) {
                    take(&::mcap::parse_record(opcode, record).map_err(damaged)?).map_err(|error| self.wrong(error))?;
                    rest = next;
                }
                if !rest.is_empty() {
                    return Err(damaged(McapError::UnexpectedEoc));
                }
            }
            Record::Chunk { header, data } => {
                for record in ChunkReader::new(header, &data).map_err(damaged)? {
                    take(&record.map_err(damaged)?).map_err(|error| self.wrong(error))?;
                }
            }
            record => take(&record).map_err(|error| self.wrong(error))?,
        }
        Ok(())
    }

    /// The whole records of the loaded beginning of a chunk, if it is not compressed.
    fn beginning(&self, mut take: impl FnMut(&Record<'_>) -> Result<(), String>) -> Result<(), String> {
        // Two times, size and checksum; then the length of the compression's name, and that of the records.
        let data = self.buffer.split_at_checked(28).and_then(|(_, rest)| rest.strip_prefix(&[0; 4]));
        let Some((_, mut rest)) = data.and_then(|rest| rest.split_at_checked(8)) else { return Ok(()) };
        while let Some((opcode, record, next)) = first(rest)
            && let Ok(record) = ::mcap::parse_record(opcode, record)
        {
            take(&record).map_err(|error| self.wrong(error))?;
            rest = next;
        }
        Ok(())
    }

    fn load(&mut self, at: At) -> Result<(), String> {
        let length = usize::try_from(at.length).ok().filter(|_| at.length < LONGEST);
        let length = length.ok_or_else(|| self.wrong("a record in it is longer than any that hertzd writes"))?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(length, 0);
        let read = self.read_at(&mut buffer, at.begin);
        self.buffer = buffer;
        read
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<(), String> {
        self.file.read_exact_at(into, offset).map_err(|error| self.wrong(error))
    }
}

/// The first of these records, and those behind it; `None`: it is not all there.
fn first(records: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (opcode, rest) = records.split_first()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (record, next) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((*opcode, record, next))
}

/// The topics of a task's ticks and overruns.
pub(super) fn topics(channels: &mut Channels, record: &Record<'_>) {
    if let Record::Channel(channel) = record
        && (channel.topic.ends_with("/ticks") || channel.topic.ends_with("/overruns"))
    {
        channels.insert(channel.id, channel.topic.clone());
    }
}
