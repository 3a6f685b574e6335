//! The flight recorder's file: the latest ticks of every worker in a ring of fixed size, and who is who in them.
//!
//! ```text
//! 0       header    4,096 bytes: magic, version, size of a record, capacity, process
//! 4,096   ring      records of 64 bytes; each has a checksum and says which lap over the ring it is of
//!         text      JSON, a line for the machine and for each worker and task; grows with each reload
//! ```
//!
//! A batch of records is one `pwrite`, and ends with a mark: until when the file is whole, what was lost, and how far the
//! clocks are apart. So whatever ends the process, the reader knows what it has: all up to the latest mark, and nothing after.
//!
//! No clock is read. [`ring`] and [`file`](mod@file) may block on the disk; the rest is pure.

mod file;
mod record;
mod ring;
mod text;

pub(crate) use file::{Flight, LONGEST, is_flight, read};
pub(crate) use record::{Clocks, Entry, Mark, Miss, Packed, Place, Ran, Slept, Woken, pack};
pub(crate) use ring::{FLIGHT, FLIGHT_BEFORE, FlightFile};
pub(crate) use text::{Introduction, Known, KnownTask, KnownWorker};

/// The first bytes of each such file.
const MAGIC: [u8; 8] = *b"HZFLIGHT";

/// Of this format.
const VERSION: u32 = 1;

/// Bytes before the ring.
const HEADER: usize = 4_096;

/// Bytes of a record.
pub(crate) const RECORD: usize = 64;
