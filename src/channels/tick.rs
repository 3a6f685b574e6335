//! The record of a tick, which crosses from a hot thread to the metrics thread over a bounded channel.
//!
//! No clock is read; only [`ticks`] allocates; neither side ever waits.

use super::parts::{self, Part, Rare};
use super::{Evidence, Traffic};
use crate::time::{Instant, Span};
use crossbeam_channel::{Receiver, Sender};
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

/// Why a tick failed. Of fixed size, so that a failure allocates nothing.
///
/// ```
/// use hertzd::TickError;
///
/// let error = TickError::from_io("reading", &std::io::Error::from_raw_os_error(19));
/// assert_eq!(error.to_string(), "reading: No such device (os error 19)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickError {
    what: &'static str,
    errno: i32, // 0: none
    away: bool,
}

impl TickError {
    /// A failure without an error number of the system.
    pub const fn new(what: &'static str) -> Self {
        Self { what, errno: 0, away: false }
    }

    /// The device is not there; another thread waits for it.
    pub(crate) const fn away(what: &'static str) -> Self {
        Self { what, errno: 0, away: true }
    }

    /// Whether the task waits for its device.
    pub(crate) const fn is_away(&self) -> bool {
        self.away
    }

    /// The failure of a system call: what was attempted, and the system's reason.
    pub fn from_io(what: &'static str, error: &std::io::Error) -> Self {
        Self { what, errno: error.raw_os_error().unwrap_or(0), away: false }
    }
}

impl fmt::Display for TickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => f.write_str(self.what),
            errno => write!(f, "{}: {}", self.what, std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for TickError {}

/// How a tick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned without an error.
    Done,
    /// The task returned an error, and continues.
    Failed(TickError),
    /// The task returned an error, and `on-error` ended it.
    Ended(TickError),
    /// The task panicked.
    Panicked {
        /// It has been disabled by that.
        ended: bool,
    },
    /// The task reached its `overrun-limit`, which ended it; with the error, if the tick failed as well.
    Limited(Option<TickError>),
}

impl Outcome {
    /// The task returned an error or panicked.
    pub const fn is_error(&self) -> bool {
        !matches!(self, Self::Done | Self::Limited(None))
    }

    /// The task will not run again.
    pub const fn ends_task(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Panicked { ended: true } | Self::Limited(_))
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
    /// Releases given up before this tick, because something else delayed the worker.
    pub missed: u64,
    /// The largest step of the clock that releases lie on since the task's previous tick; zero: there was none.
    pub stepped: Span,
    /// How late such steps made this release, or the oldest that was given up before it.
    pub jumped: Span,
    /// Releases given up when this tick had finished.
    pub dropped: u64,
    /// Number of the task, unique in the process, also over reloads.
    pub task: u32,
    /// Its response exceeded its deadline.
    pub overrun: bool,
    /// Its run exceeded its budget.
    pub over_budget: bool,
    /// With this overrun the task reached its `overrun-limit`.
    pub over_limit: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// What happened to the thread, where a release was missed and the worker takes evidence; with `evidence = "tick"`, of
    /// every tick.
    pub evidence: Option<Evidence>,
}

impl TickRecord {
    /// Tick 0 of task 0, released at the zero of its clock: it took no time, and nothing happened.
    pub const EMPTY: Self = Self {
        release: Instant::ZERO,
        n: 0,
        woke: Span::ZERO,
        oversleep: None,
        lateness: Span::ZERO,
        response: Span::ZERO,
        missed: 0,
        stepped: Span::ZERO,
        jumped: Span::ZERO,
        dropped: 0,
        task: 0,
        overrun: false,
        over_budget: false,
        over_limit: false,
        outcome: Outcome::Done,
        evidence: None,
    };

    /// Finished − started.
    pub fn run(&self) -> Span {
        self.response - self.lateness
    }

    /// When the tick began.
    pub fn started(&self) -> Instant {
        self.release + self.lateness
    }

    /// When the tick returned.
    pub fn finished(&self) -> Instant {
        self.release + self.response
    }

    /// All given-up releases that this tick reports.
    pub const fn skipped(&self) -> u64 {
        self.missed + self.dropped
    }
}

/// Takes records on the hot thread. An implementation must not wait, nor (outside of tests) allocate.
pub trait TickSink {
    /// Takes `record`, or counts it as dropped.
    fn offer(&mut self, record: TickRecord);

    /// A record comes soon: loads what taking it touches into the processor's caches, where that can be done.
    fn warm(&self) {}
}

/// The hot end of a channel of records; there is exactly one.
#[derive(Debug)]
pub struct TickSender {
    parts: Sender<Part>,
    room: usize,
    traffic: Arc<Traffic>,
}

/// The cool end of a channel of records; there is exactly one.
#[derive(Debug)]
pub struct TickReceiver {
    parts: Receiver<Part>,
    begun: Rare, // of the record that ends next
    traffic: Arc<Traffic>,
}

/// A channel that holds up to `capacity` records (at least 4). One with evidence, with releases that were given up, or of a tick
/// that failed takes the room of two, or of up to four if all three apply.
pub fn ticks(capacity: usize) -> (TickSender, TickReceiver) {
    let room = capacity.max(4);
    // One more: the channel never gets full.
    let (sender, receiver) = crossbeam_channel::bounded(room + 1);
    let traffic = Arc::new(Traffic::default());
    let begun = Rare::default();
    (TickSender { parts: sender, room, traffic: traffic.clone() }, TickReceiver { parts: receiver, begun, traffic })
}

impl TickSink for TickSender {
    fn offer(&mut self, record: TickRecord) {
        // The channel must never be near full when `try_send` is called. When the next slot is one that the receiver
        // has claimed but not yet released, crossbeam spins until it is; a FIFO thread that has preempted the receiver
        // on its own CPU then spins until real-time throttling ends it, a second at a time (crossbeam#997;
        // tests/channel_guard.rs shows it). With one sender and one receiver at most one slot is in that state.
        let (rare, tick) = parts::apart(&record);
        let taken = self.parts.len() + rare.parts().count() < self.room
            && rare.parts().chain([tick]).all(|part| self.parts.try_send(part).is_ok());
        self.traffic.count(taken);
    }

    fn warm(&self) {
        // Both ends' positions; the place itself lies inside crossbeam.
        black_box(self.parts.len());
        black_box(self.traffic.sent());
    }
}

impl TickReceiver {
    /// Takes the next record, if any. Never blocks: the hot thread would have to wake a receiver that waits.
    pub fn take(&mut self) -> Option<TickRecord> {
        while let Ok(part) = self.parts.try_recv() {
            match std::mem::take(&mut self.begun).with(part) {
                Ok(record) => return Some(record),
                Err(begun) => self.begun = begun,
            }
        }
        None
    }

    /// How many records wait, at most.
    pub(crate) fn waiting(&self) -> usize {
        self.parts.len()
    }

    /// How many records it can hold.
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
    use super::*;

    #[test]
    fn a_full_channel_drops_and_counts() {
        let (lateness, response) = (Span::from_nanos(20), Span::from_nanos(50));
        let record = TickRecord { lateness, response, missed: 1, dropped: 2, ..TickRecord::EMPTY };
        let (mut sender, mut receiver) = ticks(8);
        for n in 0..20 {
            sender.offer(TickRecord { n, ..record });
        }
        // Each has a second part, for the releases that were given up.
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (4, 16));
        let taken: Vec<_> = std::iter::from_fn(|| receiver.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3].map(|n| TickRecord { n, ..record }));
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
            outcome: if n & 64 > 0 { Outcome::Limited(Some(TickError::away("x"))) } else { Outcome::Done },
            evidence: (n & 128 > 0).then_some(Evidence { run_queue: (n & 1 > 0).then_some(Span::MAX), ..evidence }),
        };
        let (mut sender, mut receiver) = ticks(4);
        for n in 0..256 {
            sender.offer(record(n));
            assert_eq!(receiver.take(), Some(record(n)));
            assert_eq!(receiver.take(), None);
        }
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (256, 0));
    }
}
