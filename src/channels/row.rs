//! Rows of a task's values: one per tick that returned, with or without an error.
//!
//! No clock is read; only [`rows`] allocates; neither side ever waits.

use super::extremes::WORDS;
use super::mailbox::{self, mailbox};
use super::quality::{Basis, Quality};
use super::{Extremes, Queue, Receiver, Sender, Traffic, channel, size, word};
use crate::time::{Instant, Span};
use std::sync::Arc;

/// One row of a task's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// Index of the tick, below 2⁶¹.
    pub n: u64,
    /// What holds for all its values.
    pub basis: Basis,
    /// Release of the tick, on the worker's clock.
    pub release: Instant,
    /// Started − release.
    pub lateness: Span,
    /// One slot for each of the task's columns. A `NaN` tells why the tick had no such value.
    pub values: &'a [f64],
}

/// Words of a row before its values: index and basis, release, lateness.
const HEAD: usize = 3;

/// Bits of the first word that hold the index.
const INDEX_BITS: u32 = 61;

/// The hot end of a task's queue of rows.
#[derive(Debug)]
pub struct RowSender {
    words: Sender<u64>,
    traffic: Arc<Traffic>,
    unseen: Box<Unseen>,
}

/// The extremes of each value over the rows that found no room.
#[derive(Debug)]
struct Unseen {
    columns: Box<[Option<Extremes>]>, // empty for a mailbox
    valid: Box<[[f64; 2]]>,           // empty: any number is
    to: mailbox::Sender,
}

impl Unseen {
    fn keep(&mut self, row: Row<'_>) {
        for (at, (seen, &value)) in self.columns.iter_mut().zip(row.values).enumerate() {
            let quality = Quality::of(value, row.basis, self.valid.get(at));
            Extremes::add(seen, Extremes::of(row.n, row.release + row.lateness, value, quality));
        }
        self.to.post(self.columns.iter().flat_map(|seen| Extremes::words(*seen)));
    }
}

/// The cool end of a task's queue of rows.
#[derive(Debug)]
pub(crate) struct RowReceiver {
    words: Receiver<u64>,
    columns: usize,
    traffic: Arc<Traffic>,
    unseen: mailbox::Receiver,
}

/// A queue for rows of `columns` values. A FIFO has room for `room` rows, at least one, but fewer if that many do not fit in memory.
pub(crate) fn rows(queue: Queue, room: usize, columns: usize) -> (RowSender, RowReceiver) {
    let traffic = Arc::new(Traffic::default());
    let (words, receiver) = channel(queue, size::words_of_rows(room, HEAD + columns), HEAD + columns);
    let kept = vec![None; if queue == Queue::Fifo { columns } else { 0 }].into_boxed_slice();
    let (to, unseen) = mailbox(kept.len() * WORDS);
    let receiver = RowReceiver { words: receiver, columns, traffic: traffic.clone(), unseen };
    (RowSender { words, traffic, unseen: Box::new(Unseen { columns: kept, valid: Box::default(), to }) }, receiver)
}

impl RowSender {
    /// The same, for values of which only these count. Empty: any number does.
    #[must_use]
    pub(crate) fn with_valid(mut self, valid: &[[f64; 2]]) -> Self {
        self.unseen.valid = valid.into();
        self
    }

    /// Sends a row as a whole or not at all. A row without room, or one that is replaced, counts as dropped. The last,
    /// smallest and largest values of rows without room are kept. Wait-free.
    pub fn offer(&mut self, row: Row<'_>) {
        let head =
            [row.n | row.basis.word() << INDEX_BITS, word(row.release.nanos()), word(row.lateness.nanos().into())];
        let words = head.into_iter().chain(row.values.iter().map(|value| value.to_bits()));
        match &mut self.words {
            Sender::Fifo(producer) => {
                let chunk = producer.write_chunk_uninit(HEAD + row.values.len());
                let has_room = chunk.map(|chunk| chunk.fill_from_iter(words)).is_ok();
                self.traffic.count(has_room);
                if !has_room {
                    self.unseen.keep(row);
                }
            }
            Sender::Mailbox(sender) => self.traffic.count_posted(sender.post(words)),
        }
    }
}

impl RowReceiver {
    /// Takes the next row, if any. Clears `values` and fills it with the row's values.
    pub(crate) fn take<'a>(&mut self, values: &'a mut Vec<f64>) -> Option<Row<'a>> {
        match &mut self.words {
            Receiver::Fifo(consumer) => row(consumer.read_chunk(HEAD + self.columns).ok()?.into_iter(), values),
            Receiver::Mailbox(receiver) => row(receiver.take()?, values),
        }
    }

    /// Calls `take` with the extremes of each column over all rows so far that found no room, unless they were already taken.
    pub(crate) fn take_unseen(&mut self, mut take: impl FnMut(usize, Option<Extremes>)) {
        if let Some(mut words) = self.unseen.take() {
            (0..self.columns).for_each(|column| take(column, Extremes::next(&mut words)));
        }
    }

    /// How many rows have gone through so far.
    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }
}

fn row(mut words: impl Iterator<Item = u64>, values: &mut Vec<f64>) -> Option<Row<'_>> {
    let (n, release, lateness) = (words.next()?, words.next()?, words.next()?);
    values.clear();
    values.extend(words.map(f64::from_bits));
    Some(Row {
        n: n & ((1 << INDEX_BITS) - 1),
        basis: Basis::of_word(n >> INDEX_BITS),
        release: Instant::from_nanos(release.cast_signed().into()),
        lateness: Span::from_nanos(lateness.cast_signed()),
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_arrive_whole_and_in_order() {
        let (mut sender, mut receiver) = rows(Queue::Fifo, 3, 2);
        for n in 0..5_u32 {
            let values = [f64::from(n), f64::NAN];
            let release = Instant::from_nanos(i128::from(n) * 1_000);
            sender.offer(Row {
                n: n.into(),
                basis: Basis::Good,
                release,
                lateness: Span::from_nanos(-7),
                values: &values,
            });
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

    #[test]
    fn the_extremes_of_rows_without_room_arrive() {
        let (mut sender, mut receiver) = rows(Queue::Fifo, 1, 3);
        let mut offer = |n: u64, value: f64| {
            let (release, values) = (Instant::from_nanos(i128::from(n) * 1_000), [value, f64::NAN, -value]);
            sender.offer(Row { n, basis: Basis::Good, release, lateness: Span::from_nanos(7), values: &values });
        };
        let mut take = || {
            let mut taken = Vec::new();
            receiver.take_unseen(|column, seen| {
                taken.extend(seen.map(|seen| (column, seen.n, seen.at.nanos(), seen.last, seen.min, seen.max)));
            });
            taken
        };
        offer(0, 99.0);
        assert_eq!(take(), [], "this one had room");
        [(1, 20.0), (2, 95.0), (3, 30.0)].into_iter().for_each(|(n, value)| offer(n, value));
        assert_eq!(take(), [(0, 3, 3_007, 30.0, 20.0, 95.0), (2, 3, 3_007, -30.0, -95.0, -20.0)]);
        assert_eq!(take(), []);
        offer(4, 10.0);
        assert_eq!(take()[0], (0, 4, 4_007, 10.0, 10.0, 95.0));
    }

    #[test]
    fn a_mailbox_has_the_latest_row() {
        let (mut sender, mut receiver) = rows(Queue::Mailbox, 3, 1);
        let mut values = Vec::new();
        assert!(receiver.take(&mut values).is_none());
        for round in 0..3 {
            for n in 0..5_u32 {
                let (release, values) = (Instant::ZERO, [f64::from(n)]);
                sender.offer(Row { n: n.into(), basis: Basis::Good, release, lateness: Span::ZERO, values: &values });
            }
            assert_eq!(receiver.take(&mut values).unwrap().values, [4.0]);
            assert!(receiver.take(&mut values).is_none(), "{round}");
        }
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (15, 12));
    }
}
