//! Parses the records of an MCAP file that hold ticks, from bytes that anyone may have damaged. No length is trusted before that many bytes
//! are known to exist, and nothing is copied. Pure.

/// The opcodes of records.
pub(super) mod op {
    pub(in crate::recording) const SCHEMA: u8 = 0x03;
    pub(in crate::recording) const CHANNEL: u8 = 0x04;
    pub(in crate::recording) const MESSAGE: u8 = 0x05;
    pub(in crate::recording) const CHUNK: u8 = 0x06;
    pub(in crate::recording) const DATA_END: u8 = 0x0f;

    /// The name of a record in an error message.
    pub(in crate::recording) const fn name(opcode: u8) -> &'static str {
        match opcode {
            SCHEMA => "schema",
            CHANNEL => "channel",
            MESSAGE => "message",
            CHUNK => "chunk",
            _ => "record",
        }
    }
}

/// The size of a record's opcode and length.
pub(super) const HEAD: usize = 9;

/// A record that matters for ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum McapRecord<'a> {
    Channel { id: u16, topic: &'a str },
    Message { channel: u16, log_time: u64, data: &'a [u8] },
    Other,
}

/// The records in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) compression: &'a str,
    /// The checksum of the records before compression; 0 if there is none.
    pub(super) crc: u32,
    pub(super) records: &'a [u8],
}

/// In the year 2116. Sums and differences of times up to this fit in 64 bits.
const LATEST: u64 = 1 << 62;

impl<'a> McapRecord<'a> {
    /// Parses what follows the opcode and length of a record; `None` if it is damaged.
    pub(super) fn of(opcode: u8, mut bytes: &'a [u8]) -> Option<Self> {
        match opcode {
            op::CHANNEL => {
                let id = u16::from_le_bytes(take(&mut bytes)?);
                let _schema: [u8; 2] = take(&mut bytes)?;
                Some(Self::Channel { id, topic: text(&mut bytes)? })
            }
            op::MESSAGE => {
                let channel = u16::from_le_bytes(take(&mut bytes)?);
                let _sequence: [u8; 4] = take(&mut bytes)?;
                let log_time = Some(u64::from_le_bytes(take(&mut bytes)?)).filter(|time| *time <= LATEST)?;
                let _publish_time: [u8; 8] = take(&mut bytes)?;
                Some(Self::Message { channel, log_time, data: bytes })
            }
            _ => Some(Self::Other),
        }
    }
}

impl<'a> Chunk<'a> {
    /// Parses a chunk; `None` if it is damaged. With `partial`, the chunk may be incomplete, and has the records that exist.
    pub(super) fn of(mut bytes: &'a [u8], partial: bool) -> Option<Self> {
        let _times_and_size: [u8; 24] = take(&mut bytes)?;
        let crc = u32::from_le_bytes(take(&mut bytes)?);
        let compression = text(&mut bytes)?;
        let length = u64::from_le_bytes(take(&mut bytes)?);
        let there = usize::try_from(length).ok().and_then(|length| bytes.get(..length));
        Some(Self { compression, crc, records: if partial { there.unwrap_or(bytes) } else { there? } })
    }
}

/// The first of these records, and the records after it; `None` if the first is incomplete.
pub(super) fn first(records: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (opcode, rest) = records.split_first()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (record, next) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((*opcode, record, next))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = u32::from_le_bytes(take(bytes)?);
    let (text, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    str::from_utf8(text).ok()
}
