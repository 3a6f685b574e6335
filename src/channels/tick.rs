//! The channel of tick records from a hot thread to the metrics thread; it is bounded.
//!
//! No clock is read; only [`ticks`] allocates; neither side ever waits.

use super::Traffic;
use super::parts::{self, Assembly, Part, Rare};
use super::record::{IdleWake, Sent, TickRecord};
use crossbeam_channel::{Receiver, Sender};
use std::hint::black_box;
use std::sync::Arc;

/// Receives records on the hot thread. An implementation must not wait, nor (outside of tests) allocate.
pub trait TickSink {
    /// Takes `record`, or counts it as dropped.
    fn offer(&mut self, record: TickRecord);

    /// Receives a wake-up after which no tick ran. It explains given-up releases and is not counted. A sink that keeps only ticks ignores
    /// it.
    fn woke_idle(&mut self, _wake: IdleWake) {}

    /// A record comes soon: prefetches the memory that taking it touches, if possible.
    fn warm(&self) {}
}

/// The hot end of a channel of records; there is exactly one.
#[derive(Debug)]
pub struct TickSender {
    parts: Sender<Part>,
    room: usize,
    free: usize, // free parts, at least: the receiver may have freed more
    lost: bool,  // what came before the next record was dropped
    traffic: Arc<Traffic>,
}

/// The cool end of a channel of records; there is exactly one.
#[derive(Debug)]
pub struct TickReceiver {
    parts: Receiver<Part>,
    begun: Assembly,
    traffic: Arc<Traffic>,
}

/// A channel that holds up to `capacity` records (at least 4). Four things add one part each to a record: evidence, given-up releases, a
/// failed tick, and the end of a chain. So a record takes the room of one to five, and an idle wake-up the room of one or two.
pub fn ticks(capacity: usize) -> (TickSender, TickReceiver) {
    let room = capacity.max(4);
    // One more than the room, so that the channel never gets full.
    let (sender, receiver) = crossbeam_channel::bounded(room + 1);
    let traffic = Arc::new(Traffic::default());
    let begun = Assembly::default();
    (
        TickSender { parts: sender, room, free: room, lost: false, traffic: traffic.clone() },
        TickReceiver { parts: receiver, begun, traffic },
    )
}

impl TickSink for TickSender {
    #[inline]
    fn offer(&mut self, mut record: TickRecord) {
        record.after_loss = self.lost;
        let (rare, tick) = parts::apart(&record);
        let taken = match rare {
            None => self.has_room_for(1) && self.parts.try_send(tick).is_ok(),
            Some(rare) => self.send(rare, tick),
        };
        self.lost = !taken;
        self.traffic.count(taken);
    }

    fn woke_idle(&mut self, wake: IdleWake) {
        let (rare, end) = parts::wake_apart(&IdleWake { after_loss: self.lost, ..wake });
        self.lost = !self.send(rare, end);
    }

    fn warm(&self) {
        // Touches the positions of both ends; the slot itself lies inside crossbeam.
        black_box(self.parts.len());
        black_box(self.traffic.sent());
    }
}

impl TickSender {
    /// Sends the parts of a record, if there is room.
    fn send(&mut self, rare: Rare, end: Part) -> bool {
        self.has_room_for(rare.parts().count() + 1)
            && rare.parts().chain([end]).all(|part| self.parts.try_send(part).is_ok())
    }

    /// Whether there is room for this many parts. If so, they count as sent.
    fn has_room_for(&mut self, parts: usize) -> bool {
        // The channel must never be near full when `try_send` is called. If the next slot is claimed by the receiver but not yet released,
        // crossbeam spins until it is. A FIFO thread that has preempted the receiver on its own CPU then spins until real-time throttling
        // ends it, a second at a time (crossbeam#997; tests/alone/channel_guard.rs shows it). With one sender and one receiver, at most one
        // slot is in that state.
        if self.free < parts {
            // The receiver's position lies in a cache line that it writes at each step, so it is read only when needed.
            self.free = self.room.saturating_sub(self.parts.len());
        }
        let free = self.free >= parts;
        if free {
            self.free -= parts;
        }
        free
    }
}

impl TickReceiver {
    /// Takes the next tick record, if any, and skips idle wake-ups. Never blocks, like [`receive`](Self::receive).
    pub fn take(&mut self) -> Option<TickRecord> {
        loop {
            if let Sent::Tick(record) = self.receive()? {
                return Some(record);
            }
        }
    }

    /// Takes the next thing sent, if any. Never blocks: the hot thread would have to wake a waiting receiver.
    pub fn receive(&mut self) -> Option<Sent> {
        loop {
            let part = self.receive_part()?;
            if let Some(sent) = self.begun.add(&part) {
                return Some(sent);
            }
        }
    }

    /// Takes the next part, for an [`Assembly`] elsewhere. If used, it must be the only way to take parts. Never blocks.
    pub(crate) fn receive_part(&mut self) -> Option<Part> {
        self.parts.try_recv().ok()
    }

    /// An upper bound on the number of waiting records: a record may have several parts.
    pub(crate) fn waiting(&self) -> usize {
        self.parts.len()
    }

    /// How many parts of records it can hold.
    pub(crate) fn room(&self) -> usize {
        self.parts.capacity().unwrap_or(usize::MAX) - 1
    }

    /// How many records have gone through so far.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }
}

#[cfg(test)]
mod tests {
    use super::super::Evidence;
    use super::super::record::{InputAge, Outcome, TickError};
    use super::*;
    use crate::time::{Instant, Span};

    #[test]
    fn a_full_channel_drops_and_counts() {
        let (lateness, response) = (Span::from_nanos(20), Span::from_nanos(50));
        let record = TickRecord { lateness, response, missed: 1, dropped: 2, ..TickRecord::EMPTY };
        let (mut sender, mut receiver) = ticks(8);
        for n in 0..20 {
            sender.offer(TickRecord { n, ..record });
        }
        // Each record has a second part, for the given-up releases.
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (4, 16));
        let taken: Vec<_> = std::iter::from_fn(|| receiver.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3].map(|n| TickRecord { n, ..record }));
        for n in 0..40 {
            sender.offer(TickRecord { n, ..TickRecord::EMPTY });
            assert_eq!(receiver.take().map(|record| record.n), Some(n), "the room is there again");
        }
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (44, 16));
        assert_eq!((record.run(), record.skipped()), (Span::from_nanos(30), 3));
    }

    #[test]
    fn a_record_arrives_as_it_was_sent() {
        let evidence =
            Evidence { awake: Span::MAX, cpu: Span::from_nanos(-1), voluntary: u32::MAX, ..Evidence::default() };
        let record = |n: u64| TickRecord {
            release: Instant::from_nanos(1 << 62),
            n,
            woke: Span::from_nanos(-9),
            oversleep: (n & 1 > 0).then_some(Span::from_nanos(-3)),
            lateness: Span::from_nanos(20),
            response: Span::MAX,
            missed: if n & 2 > 0 { u64::MAX } else { 0 },
            stepped: Span::ZERO,
            jumped: Span::from_nanos(if n & 4 > 0 { -5 } else { 0 }),
            dropped: 0,
            task: u32::MAX,
            overrun: n & 8 > 0,
            over_budget: n & 16 > 0,
            over_limit: n & 32 > 0,
            after_loss: false,
            outcome: if n & 64 > 0 { Outcome::Limited(Some(TickError::away("x"))) } else { Outcome::Done },
            age: (n & 256 > 0).then_some(InputAge { age: Span::MAX, measured_by: 9 }),
            evidence: (n & 128 > 0).then_some(Evidence { run_queue: (n & 1 > 0).then_some(Span::MAX), ..evidence }),
        };
        let (mut sender, mut receiver) = ticks(5);
        for n in 0..512 {
            sender.offer(record(n));
            assert_eq!(receiver.take(), Some(record(n)));
            assert_eq!(receiver.take(), None);
        }
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (512, 0));
    }

    #[test]
    fn idle_wake_ups_come_in_order_and_what_follows_a_loss_says_so() {
        let at = |nanos| Instant::from_nanos(nanos);
        let evidence = Some(Evidence { awake: Span::MAX, run_queue: Some(Span::from_nanos(7)), ..Evidence::default() });
        let wake = IdleWake { sleep: Some((at(1), at(2))), ended: at(3), after_loss: false, evidence };
        let (mut sender, mut receiver) = ticks(4);
        sender.offer(TickRecord::EMPTY);
        sender.woke_idle(wake); // takes two places
        sender.woke_idle(wake); // no room
        sender.offer(TickRecord { n: 1, ..TickRecord::EMPTY });
        let empty = TickRecord::EMPTY;
        let after_loss = Sent::Tick(TickRecord { n: 1, after_loss: true, ..empty });
        let sent: Vec<_> = std::iter::from_fn(|| receiver.receive()).collect();
        assert_eq!(sent, [Sent::Tick(empty), Sent::IdleWake(wake), after_loss]);
        let without = IdleWake { sleep: None, evidence: None, ..wake };
        sender.woke_idle(without);
        assert_eq!(receiver.receive(), Some(Sent::IdleWake(without)));
        sender.woke_idle(without);
        sender.offer(empty);
        assert_eq!(receiver.take(), Some(empty), "nothing was lost since");
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (3, 0), "only ticks are counted");
    }
}
