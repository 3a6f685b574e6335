//! Reads an MCAP file record by record. Skipped records are not read, so walking through many gigabytes takes well under a second. No
//! length in the file is trusted: memory is allocated only for data that exists, and only up to the maximum record length. Blocks on the
//! file.

use super::mcap_record::{Chunk, HEAD, McapRecord, first, op};
use crate::sys::input;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &[u8] = b"\x89MCAP0\r\n";

/// More than any record that hertzd writes or that it assembles from a device's data.
const LONGEST: u64 = 1 << 30;

/// What to do about a damaged file.
const DAMAGED: &str = "; `mcap recover FILE -o NEW` saves what is whole";

/// A record in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) opcode: u8,
    pub(super) begin: u64, // of what follows the opcode and length
    pub(super) length: u64,
    /// The file ends within the record.
    partial: bool,
    /// For a chunk: the times of its first and last message.
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

impl McapFile {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let open = || {
            let file = input::open_regular(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let is_none =
            || format!("{name}: this is no MCAP file; name a recording that a task wrote with record = \"FILE.mcap\"");
        let (file, length) = open().map_err(|error: io::Error| match error.kind() {
            ErrorKind::InvalidInput => is_none(),
            _ => format!("{name}: {error}"),
        })?;
        let mut magic = [0; 8];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) if magic == MAGIC => {}
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(format!("{name}: {error}")),
            _ => return Err(is_none()),
        }
        Ok(Self { file, name, length, at: MAGIC.len() as u64, buffer: Vec::new() })
    }

    /// An error message about the file.
    pub(super) fn wrong(&self, reason: impl std::fmt::Display) -> String {
        format!("{}: {reason}", self.name)
    }

    /// The next record; `None` after the last whole one. A partial chunk whose beginning exists is also returned.
    pub(super) fn next(&mut self) -> Result<Option<At>, String> {
        if self.length.saturating_sub(self.at) < HEAD as u64 {
            return Ok(None);
        }
        let (mut head, begin) = ([0; HEAD], self.at + HEAD as u64);
        self.read_at(&mut head, self.at)?;
        let [opcode, length @ ..] = head;
        let (length, left) = (u64::from_le_bytes(length), self.length - begin);
        let partial = length > left;
        if (opcode == 0 || partial) && self.is_whole()? {
            let what = match opcode {
                0 => "no record begins there".to_owned(),
                _ => {
                    format!("a {} is said to have {length} bytes, and the file has only {left} more", op::name(opcode))
                }
            };
            return Err(self.damaged(self.at, &what));
        }
        // No record has the opcode 0: the disk has not written this part.
        if opcode == 0 || partial && opcode != op::CHUNK {
            return Ok(None);
        }
        let length = length.min(left);
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

    /// Whether the file has a proper end.
    pub(super) fn is_whole(&self) -> Result<bool, String> {
        let mut magic = [0; 8];
        let Some(from) = self.length.checked_sub(16) else { return Ok(false) };
        self.read_at(&mut magic, from + 8)?;
        Ok(magic == MAGIC)
    }

    /// Passes the records in the chunk at `at` to `take`. If the record at `at` is not a chunk, passes that record.
    pub(super) fn records(
        &mut self,
        at: At,
        mut take: impl FnMut(McapRecord<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.load(at)?;
        if at.opcode != op::CHUNK {
            let record = McapRecord::of(at.opcode, &self.buffer).ok_or_else(|| self.unreadable(at.begin, at.opcode))?;
            return take(record).map_err(|error| self.wrong(error));
        }
        let chunk = match Chunk::of(&self.buffer, at.partial) {
            Some(chunk) => chunk,
            None if at.partial => return Ok(()),
            None => return Err(self.unreadable(at.begin, op::CHUNK)),
        };
        if !chunk.compression.is_empty() {
            let what = "its chunks are compressed, which hertzd does not read; `mcap decompress FILE -o NEW` makes one that it does";
            return Err(self.wrong(what));
        }
        if !at.partial && chunk.crc != 0 && crc32fast::hash(chunk.records) != chunk.crc {
            return Err(self.damaged(at.begin, "the checksum of a chunk does not match its content"));
        }
        let begin = |rest: &[u8]| {
            at.begin + (chunk.records.as_ptr_range().end.addr() - self.buffer.as_ptr().addr() - rest.len()) as u64
        };
        let mut rest = chunk.records;
        while let Some((opcode, record, next)) = first(rest) {
            match McapRecord::of(opcode, record) {
                Some(record) => take(record).map_err(|error| self.wrong(error))?,
                None if at.partial => return Ok(()),
                None => return Err(self.unreadable(begin(rest), opcode)),
            }
            rest = next;
        }
        match rest.is_empty() || at.partial {
            true => Ok(()),
            false => Err(self.damaged(begin(rest), "a record in a chunk is longer than what is left of the chunk")),
        }
    }

    fn unreadable(&self, offset: u64, opcode: u8) -> String {
        self.damaged(
            offset,
            &format!("a length in a {} is larger than the {0} itself, or a name is no UTF-8", op::name(opcode)),
        )
    }

    /// The error message for damage at this offset.
    fn damaged(&self, offset: u64, what: &str) -> String {
        self.wrong(format!("damaged at byte {offset}: {what}{DAMAGED}"))
    }

    fn load(&mut self, at: At) -> Result<(), String> {
        let length = usize::try_from(at.length).ok().filter(|_| at.length <= LONGEST);
        let length = length.ok_or_else(|| {
            let what = format!("a {} of {} bytes; hertzd reads up to {LONGEST}", op::name(at.opcode), at.length);
            self.damaged(at.begin, &what)
        })?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if buffer.try_reserve_exact(length).is_err() {
            return Err(self.wrong(format!("there is no memory for a {} of {length} bytes", op::name(at.opcode))));
        }
        buffer.resize(length, 0);
        let read = self.read_at(&mut buffer, at.begin);
        self.buffer = buffer;
        read
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<(), String> {
        self.file.read_exact_at(into, offset).map_err(|error| self.wrong(error))
    }
}
