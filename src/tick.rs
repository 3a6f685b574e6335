//! What crosses from a hot thread to the cool ones: one [`TickRecord`] per tick over a bounded channel, and the values
//! of a task over a ring of its own.
//!
//! Neither side ever waits for the other. The hot side counts what finds no room and goes on; the cool side looks in
//! every few milliseconds and is never woken. No clock is read here, and only the constructors allocate.

use crate::tasks::TickError;
use crate::time::{Instant, Span};
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a tick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it should.
    Done,
    /// The task returned an error, and goes on.
    Failed(TickError),
    /// The task returned an error, and `on-error` ended it.
    Ended(TickError),
    /// The task panicked, and has been disabled.
    Panicked,
    /// The task reached its limit of repeated overruns, which ended it; with the error, if the tick failed as well.
    Limited(Option<TickError>),
}

impl Outcome {
    /// The task returned an error or panicked.
    pub const fn is_error(&self) -> bool {
        !matches!(self, Self::Done | Self::Limited(None))
    }

    /// The task runs no more.
    pub const fn ends_task(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Panicked | Self::Limited(_))
    }
}

/// One tick, as the hot thread saw it. Instants are on the worker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRecord {
    /// When the tick was meant to start.
    pub release: Instant,
    /// Index of the tick.
    pub n: u64,
    /// When the worker's last sleep ended, relative to the release; below zero with a spin tail.
    pub woke: Span,
    /// How late that sleep ended, if this is the first tick after it.
    pub oversleep: Option<Span>,
    /// Started − release.
    pub lateness: Span,
    /// Finished − release.
    pub response: Span,
    /// Releases given up before this tick, because something else held the worker.
    pub missed: u64,
    /// Releases given up when this tick had finished.
    pub dropped: u64,
    /// Number of the task; no two tasks of a process have the same, reloads included.
    pub task: u32,
    /// Its response exceeded its deadline.
    pub overrun: bool,
    /// Its run exceeded its budget.
    pub over_budget: bool,
    /// With this overrun the task reached its limit of repeated ones.
    pub over_limit: bool,
    /// How it ended.
    pub outcome: Outcome,
}

impl TickRecord {
    /// Finished − started.
    pub fn run(&self) -> Span {
        self.response - self.lateness
    }

    /// When the task began.
    pub fn started(&self) -> Instant {
        self.release + self.lateness
    }

    /// When the task returned.
    pub fn finished(&self) -> Instant {
        self.release + self.response
    }

    /// All releases given up that this tick reports.
    pub const fn skipped(&self) -> u64 {
        self.missed + self.dropped
    }
}

/// Takes records on the hot thread; must not wait, and on a real thread must not allocate.
pub trait TickSink {
    /// Takes `record`, or counts it as dropped.
    fn offer(&mut self, record: TickRecord);
}

/// What has gone through a channel so far.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Traffic {
    /// Things that were taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Things that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The hot end of a channel of records; there is exactly one.
#[derive(Debug)]
pub struct TickSender {
    records: Sender<TickRecord>,
    room: usize,
    traffic: Arc<Traffic>,
}

/// The cool end of a channel of records; there is exactly one.
#[derive(Debug)]
pub struct TickReceiver {
    records: Receiver<TickRecord>,
    traffic: Arc<Traffic>,
}

/// A channel that holds up to `capacity` records (at least 2).
pub fn channel(capacity: usize) -> (TickSender, TickReceiver) {
    let capacity = capacity.max(2);
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    let traffic = Arc::new(Traffic::default());
    let room = capacity - 1;
    (TickSender { records: sender, room, traffic: traffic.clone() }, TickReceiver { records: receiver, traffic })
}

impl TickSink for TickSender {
    fn offer(&mut self, record: TickRecord) {
        // The channel must never be near full when `try_send` is called. When the next slot is one that the receiver
        // has claimed but not yet released, crossbeam spins until it is; a FIFO thread that has preempted the receiver
        // on its own CPU then spins until real-time throttling ends it, a second at a time (crossbeam#997;
        // tests/channel_guard.rs shows it). With one sender and one receiver at most one slot is in that state.
        let taken = self.records.len() < self.room && self.records.try_send(record).is_ok();
        let count = if taken { &self.traffic.sent } else { &self.traffic.dropped };
        // One writer: a load and a store are enough, and cheaper than a locked addition.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl TickReceiver {
    /// Takes the next record, if there is one. Never blocks: a receiver that waits would have to be woken, and the
    /// waking would fall to the hot thread.
    pub fn take(&self) -> Option<TickRecord> {
        self.records.try_recv().ok()
    }

    /// What has gone through so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

/// One row of a task's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// Index of the tick.
    pub n: u64,
    /// Release of the tick, on the worker's clock.
    pub release: Instant,
    /// Started − release.
    pub lateness: Span,
    /// One slot for each of the task's columns; `NaN` where the tick had no value.
    pub values: &'a [f64],
}

/// What a row has beside its values: index, release, lateness.
const ROW_HEAD: usize = 3;

/// The hot end of a task's ring of values.
#[derive(Debug)]
pub struct RowSender {
    words: rtrb::Producer<u64>,
    traffic: Arc<Traffic>,
}

/// The cool end of a task's ring of values.
#[derive(Debug)]
pub struct RowReceiver {
    words: rtrb::Consumer<u64>,
    columns: usize,
    traffic: Arc<Traffic>,
}

/// A ring that holds up to `rows` rows of `columns` values.
pub fn rows(rows: usize, columns: usize) -> (RowSender, RowReceiver) {
    let capacity = rows.max(1) * (ROW_HEAD + columns);
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(capacity);
    // Every page of it is touched here, so that no tick has to fault one in.
    if let Ok(chunk) = producer.write_chunk_uninit(capacity) {
        chunk.fill_from_iter(std::iter::repeat(0));
    }
    if let Ok(chunk) = consumer.read_chunk(capacity) {
        chunk.commit_all();
    }
    let traffic = Arc::new(Traffic::default());
    (RowSender { words: producer, traffic: traffic.clone() }, RowReceiver { words: consumer, columns, traffic })
}

impl RowSender {
    /// Hands over a row, whole or not at all; one that finds no room is counted as dropped. Wait-free.
    pub fn offer(&mut self, row: Row<'_>) {
        let head = [row.n, word(row.release.nanos()), word(row.lateness.nanos().into())];
        let values = row.values.iter().map(|value| value.to_bits());
        let count = match self.words.write_chunk_uninit(ROW_HEAD + row.values.len()) {
            Ok(chunk) => {
                chunk.fill_from_iter(head.into_iter().chain(values));
                &self.traffic.sent
            }
            Err(_) => &self.traffic.dropped,
        };
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl RowReceiver {
    /// Takes the next row into `values`, if there is one. `values` is cleared and filled.
    pub fn take<'a>(&mut self, values: &'a mut Vec<f64>) -> Option<Row<'a>> {
        let chunk = self.words.read_chunk(ROW_HEAD + self.columns).ok()?;
        let mut words = chunk.into_iter();
        let (n, release, lateness) = (words.next()?, words.next()?, words.next()?);
        values.clear();
        values.extend(words.map(f64::from_bits));
        Some(Row {
            n,
            release: Instant::from_nanos(release.cast_signed().into()),
            lateness: Span::from_nanos(lateness.cast_signed()),
            values,
        })
    }

    /// What has gone through so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

/// Nanoseconds in 64 bits: any reading of a real clock for the next 292 years fits.
fn word(nanos: i128) -> u64 {
    Span::from_wide(nanos).nanos().cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_channel_drops_and_counts() {
        let record = TickRecord {
            release: Instant::ZERO,
            n: 0,
            woke: Span::ZERO,
            oversleep: None,
            lateness: Span::from_nanos(20),
            response: Span::from_nanos(50),
            missed: 1,
            dropped: 2,
            task: 0,
            overrun: false,
            over_budget: false,
            over_limit: false,
            outcome: Outcome::Done,
        };
        let (mut sender, receiver) = channel(8);
        for n in 0..20 {
            sender.offer(TickRecord { n, ..record });
        }
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (7, 13));
        let taken: Vec<_> = std::iter::from_fn(|| receiver.take()).map(|record| record.n).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((record.run(), record.skipped()), (Span::from_nanos(30), 3));
    }

    #[test]
    fn rows_arrive_whole_and_in_order() {
        let (mut sender, mut receiver) = rows(3, 2);
        for n in 0..5_u32 {
            let values = [f64::from(n), f64::NAN];
            let release = Instant::from_nanos(i128::from(n) * 1_000);
            sender.offer(Row { n: n.into(), release, lateness: Span::from_nanos(-7), values: &values });
        }
        let mut values = Vec::new();
        for n in 0..3_u32 {
            let row = receiver.take(&mut values).unwrap();
            assert_eq!((row.n, row.release.nanos(), row.lateness.nanos()), (n.into(), i128::from(n) * 1_000, -7));
            assert!(row.values[0] == f64::from(n) && row.values[1].is_nan());
        }
        assert!(receiver.take(&mut values).is_none());
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (3, 2));
    }
}
