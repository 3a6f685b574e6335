//! Everything that crosses from a hot thread (a worker's real-time thread) to a cool one: a record per tick, a row of values
//! per tick, and blocks of samples, sound or pictures.
//!
//! Neither side ever waits for the other. Without room, the hot side counts the loss and continues; the cool side polls and is never woken.
//! No clock is read here, and only the constructors allocate.

pub(crate) mod alarm;
mod block;
mod evidence;
mod extremes;
mod format;
mod input;
mod latest;
mod links;
mod live;
mod mailbox;
mod parts;
mod quality;
mod record;
mod row;
pub(crate) mod size;
mod tick;

pub(crate) use block::{Block, BlockReceiver, Stream, blocks};
pub use block::{BlockSender, Head};
pub(crate) use evidence::Evidence;
pub use evidence::EvidenceSource;
pub(crate) use extremes::Extremes;
pub use format::{AudioFormat, Column, Format, ImageFormat, SampleFormat, Shape};
pub use input::Input;
pub(crate) use input::{InputSource, ValueName};
pub(crate) use latest::Latest;
pub(crate) use links::{Limits, LinkReceiver, LinkSender, Origin, RowHead, link};
pub(crate) use live::{Counts, Live, LiveCounts};
pub(crate) use parts::{Assembly, Part};
pub(crate) use quality::{Basis, NONE, errno_of, or_none, stale_after};
pub use quality::{Quality, Reason};
pub(crate) use record::{IdleWake, InputAge, Outcome, Sent};
pub use record::{TickError, TickRecord};
pub(crate) use row::{Row, RowReceiver, RowSender, rows};
pub(crate) use tick::{TickReceiver, TickSender};
pub use tick::{TickSink, ticks};

use crate::atomic::{AtomicU64, Ordering};
use crate::time::Span;

/// What happens to items that arrive faster than the recorder takes them. The names follow the presentation modes of graphics APIs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Keeps all items, in order. When the queue is full, the newest is dropped and counted.
    #[default]
    Fifo,
    /// Keeps only the newest item. An item that is replaced before it is taken counts as dropped.
    Mailbox,
}

/// How many items have gone through a channel so far.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    dropped: AtomicU64,
    replaced: AtomicU64,
}

impl Traffic {
    /// Counts one item.
    pub(crate) fn count(&self, taken: bool) {
        increment(if taken { &self.sent } else { &self.dropped });
    }

    /// Counts one item of a mailbox, and the previous one as dropped if it was replaced.
    pub(crate) fn count_posted(&self, replaced: bool) {
        if replaced {
            increment(&self.replaced);
            // Whoever sees the item as dropped also sees that it was replaced, and does not take it for a loss.
            self.dropped.store(self.dropped.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        increment(&self.sent);
    }

    /// Items that were accepted.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Items that found no room, or that a newer one replaced in a mailbox.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Acquire)
    }

    /// The items that were replaced in a mailbox: at least as many as a previous read of `dropped` included.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }
}

/// Adds one. With a single writer a load and a store are enough, and cheaper than a locked addition.
fn increment(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Nanoseconds as a word of 64 bits, which holds any reading of a real clock for the next 292 years.
fn word(nanos: i128) -> u64 {
    Span::from_wide(nanos).nanos().cast_unsigned()
}

#[derive(Debug)]
enum Sender<T> {
    Fifo(rtrb::Producer<T>),
    Mailbox(mailbox::Sender),
}

#[derive(Debug)]
enum Receiver<T> {
    Fifo(rtrb::Consumer<T>),
    Mailbox(mailbox::Receiver),
}

/// Both ends of a ring for `room` items, or of a mailbox for `words`.
fn channel<T: Copy + Default>(queue: Queue, room: usize, words: usize) -> (Sender<T>, Receiver<T>) {
    match queue {
        Queue::Fifo => {
            let (producer, consumer) = touched_ring(room);
            (Sender::Fifo(producer), Receiver::Fifo(consumer))
        }
        Queue::Mailbox => {
            let (sender, receiver) = mailbox::mailbox(words);
            (Sender::Mailbox(sender), Receiver::Mailbox(receiver))
        }
    }
}

/// A ring for `room` items. Every page of it is touched here, so that no tick causes a page fault.
fn touched_ring<T: Copy + Default>(room: usize) -> (rtrb::Producer<T>, rtrb::Consumer<T>) {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(room);
    if let Ok(chunk) = producer.write_chunk_uninit(room) {
        chunk.fill_from_iter(std::iter::repeat(T::default()));
    }
    if let Ok(chunk) = consumer.read_chunk(room) {
        chunk.commit_all();
    }
    (producer, consumer)
}
