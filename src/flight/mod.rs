//! The flight recorder's file: the most recent ticks of every worker in a ring of fixed size, and the names behind their numbers.
//!
//! ```text
//! 0       header    4,096 bytes: magic, version, size of a record, capacity, process
//! 4,096   ring      records of 64 bytes; each has a checksum and says which lap over the ring it is of
//!         text      JSON, a line for the machine and for each worker and task; grows with each reload
//! ```
//!
//! A batch of records is one `pwrite` and ends with a mark: up to when the file is complete, what was lost, and the offsets between the
//! clocks. So however the process ends, the reader knows what it has: everything up to the last mark, and nothing after it.
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

/// The first bytes of every flight file.
const MAGIC: [u8; 8] = *b"HZFLIGHT";

/// The version of this format.
const VERSION: u32 = 1;

/// Bytes before the ring.
const HEADER: usize = 4_096;

/// Bytes of a record.
pub(crate) const RECORD: usize = 64;
