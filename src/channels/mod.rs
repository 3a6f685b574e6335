//! Everything that crosses from a hot thread to a cool one: a record per tick, a row of values per tick, and blocks of
//! samples, sound or pictures.
//!
//! Neither side ever waits for the other. The hot side counts what finds no room and goes on; the cool side polls and is
//! never woken. No clock is read here, and only the constructors allocate.

mod block;

mod format;

mod mailbox;

mod row;

mod tick;

pub use block::{Block, BlockReceiver, BlockSender, Head, blocks};
pub use format::{AudioFormat, Column, Format, ImageFormat, SampleFormat, Shape};
pub use row::{Row, RowReceiver, RowSender, rows};
pub use tick::{Outcome, TickError, TickReceiver, TickRecord, TickSender, TickSink, ticks};

use std::sync::atomic::{AtomicU64, Ordering};

/// What becomes of things that come faster than the recorder takes them; after the presentation modes of graphics
/// interfaces (FIFO, and mailbox).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// All are kept, in order; when the queue is full the newest is dropped, and counted.
    #[default]
    Fifo,
    /// Only the latest is kept; one that was replaced before it was taken counts as dropped.
    Mailbox,
}

/// What has gone through a channel so far.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Traffic {
    /// Counts one thing. There is one writer: a load and a store are enough, and cheaper than a locked addition.
    pub(crate) fn count(&self, taken: bool) {
        let count = if taken { &self.sent } else { &self.dropped };
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Things that were taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Things that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
