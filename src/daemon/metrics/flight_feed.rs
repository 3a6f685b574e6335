//! From the metrics thread to the flight recorder: each tick with the verdicts on missed releases, in batches.
//!
//! Neither end waits for the other. A batch that finds no room is counted as lost. Reads clocks about once a second.

use crate::channels::size::FLIGHT_BYTES;
use crate::channels::{IdleWake, TickRecord};
use crate::config::WorkerConfig;
use crate::flight::{
    Clocks, Entry, Known, KnownTask, KnownWorker, Mark, Miss, Packed, Place, RECORD, Ran, Woken, pack,
};
use crate::metrics::{TaskFacts, Verdict, Verdicts};
use crate::sys::clock::{Ahead, KernelClock, utc_offset};
use crate::sys::thread::ThreadId;
use crate::time::{Instant, Span};
use crate::worker::Granted;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Maximum number of records in a batch; one round may send several batches.
const BATCH: usize = 512;

/// How often to measure the distances between the clocks, unless a worker follows a clock that can be stepped.
const CLOCKS_EVERY: Span = Span::from_seconds(1);

/// The time that the file covers, unless its size is given; and the maximum and minimum size in bytes.
const COVERS: f64 = 120.0; // seconds
const AT_MOST: u64 = 16 << 20;
const AT_LEAST: u64 = 1 << 20;

/// What the flight recorder gets.
#[derive(Debug)]
pub(crate) enum Handed {
    /// Sent first: how many records the file has room for.
    Begin(u64),
    Known(Known),
    Batch(Vec<Packed>),
}

/// State shared by both ends and main.
#[derive(Debug, Default)]
pub(crate) struct FlightState {
    pub(crate) capacity: AtomicU64, // records
    pub(crate) written: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) waiting: AtomicU64,             // bytes
    pub(crate) trouble: Mutex<Option<String>>, // why the last batch was not written
}

/// The metrics thread's end.
#[derive(Debug)]
pub(crate) struct FlightFeed(Option<Open>);

#[derive(Debug)]
struct Open {
    batch: Vec<Packed>,
    sender: Sender<Handed>,
    spare: Receiver<Vec<Packed>>, // written batches, to be reused
    state: Arc<FlightState>,
    size: Option<u64>, // bytes
    clocks: Clocks,
    measured: Option<Instant>, // the clocks
    steps: bool,               // a worker follows a clock that can be stepped
}

/// The metrics thread's end, and the flight recorder's two: what it receives, and where it returns batches. `size`: bytes for records;
/// `None`: from the rates.
pub(crate) fn feed(size: Option<u64>, state: Arc<FlightState>) -> (FlightFeed, Receiver<Handed>, Sender<Vec<Packed>>) {
    let (sender, receiver) = unbounded();
    let (back, spare) = unbounded();
    let (clocks, measured, steps) = (Clocks::default(), None, false);
    (FlightFeed(Some(Open { batch: Vec::new(), sender, spare, state, size, clocks, measured, steps })), receiver, back)
}

impl FlightFeed {
    /// A feed without a flight recorder.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    pub(super) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Call this before the first record of any task. `hertz`: ticks per second of all tasks.
    pub(crate) fn begin(&mut self, hertz: f64) {
        let Some(open) = &mut self.0 else { return };
        if open.state.capacity.load(Ordering::Relaxed) == 0 {
            let capacity = open.size.unwrap_or_else(|| bytes_for(hertz)) / RECORD as u64;
            open.state.capacity.store(capacity.max(16), Ordering::Relaxed);
            open.send(Handed::Begin(capacity.max(16)));
        }
    }

    pub(crate) fn add_worker(
        &mut self,
        worker: usize,
        thread: ThreadId,
        config: &WorkerConfig,
        granted: &Granted,
        now: Instant,
    ) {
        let Some(open) = &mut self.0 else { return };
        open.steps |= config.clock.word() != "monotonic";
        open.send(Handed::Known(Known::Worker(KnownWorker {
            number: number(worker),
            name: config.name.clone(),
            thread: thread.number(),
            clock: config.clock.word().into(),
            cpus: granted.cpus.clone(),
            policy: granted.policy.into(),
            priority: granted.priority,
            at_ns: nanos(now),
        })));
    }

    pub(crate) fn add_task(&mut self, id: u32, facts: &TaskFacts, now: Instant) {
        let Some(open) = &mut self.0 else { return };
        open.send(Handed::Known(Known::Task(KnownTask {
            number: id,
            name: facts.name.to_string(),
            worker: number(facts.worker),
            rate: facts.rate.to_string(),
            period_ns: facts.period.nanos(),
            deadline_ns: facts.deadline.nanos(),
            at_ns: nanos(now),
        })));
    }

    /// The last tick of this task was offered.
    pub(super) fn end_task(&mut self, id: u32, now: Instant) {
        self.send_all();
        if let Some(open) = &self.0 {
            open.send(Handed::Known(Known::TaskEnded { number: id, at_ns: nanos(now) }));
        }
    }

    /// The last tick of this worker's tasks was offered.
    pub(super) fn end_worker(&mut self, worker: usize, now: Instant) {
        self.send_all();
        if let Some(open) = &self.0 {
            open.send(Handed::Known(Known::WorkerEnded { number: number(worker), at_ns: nanos(now) }));
        }
    }

    /// Takes a tick, with the causes of missed releases.
    pub(crate) fn tick(&mut self, record: &TickRecord, verdicts: &Verdicts) {
        let Some(open) = &mut self.0 else { return };
        open.put(&Entry::Ran(Ran::of(record)));
        let Verdicts { before, overrun, after, .. } = &verdicts.unknown();
        let places = [Place::Before(record.n), Place::Overrun(record.n), Place::After(record.n)];
        for (place, verdict) in places.into_iter().zip([before, overrun, after]) {
            verdict.iter().for_each(|verdict| open.put(&missed(record.task, place, verdict)));
        }
    }

    /// Takes a wake-up after which no tick ran.
    pub(crate) fn idle(&mut self, worker: usize, wake: &IdleWake) {
        let Some(open) = &mut self.0 else { return };
        let sleep = wake.sleep.map(|(asked, woke)| (nanos(asked), nanos(woke)));
        let (ended, after_loss) = (nanos(wake.ended), wake.after_loss);
        open.put(&Entry::Woke(Woken { worker: number(worker), sleep, ended, after_loss }));
    }

    /// Takes releases that no tick reports. `first`: when the first of them was due, on the worker's clock.
    pub(crate) fn unreported(&mut self, task: u32, first: Option<Instant>, verdict: &Verdict) {
        if let Some(open) = &mut self.0 {
            open.put(&missed(task, Place::Unreported(first.map(nanos)), verdict));
        }
    }

    /// Hands over everything taken: all that workers had sent by `now`. `dropped`: ticks they have dropped so far.
    pub(super) fn hand_over(&mut self, now: Instant, dropped: u64) {
        if let Some(open) = self.0.as_mut().filter(|open| !open.batch.is_empty()) {
            open.mark(now, dropped, false);
            open.send_batch();
        }
    }

    /// The same for the last time: the run is over.
    pub(crate) fn finish(&mut self, now: Instant, dropped: u64) {
        // A refused start has begun no file, and leaves the previous process's file as it is.
        let begun = |open: &Open| open.state.capacity.load(Ordering::Relaxed) > 0;
        if let Some(mut open) = self.0.take().filter(begun) {
            open.mark(now, dropped, true);
            open.send_batch();
        }
    }

    fn send_all(&mut self) {
        if let Some(open) = self.0.as_mut().filter(|open| !open.batch.is_empty()) {
            open.send_batch();
        }
    }
}

impl Open {
    fn put(&mut self, entry: &Entry) {
        if self.batch.len() == BATCH {
            self.send_batch();
        }
        self.batch.push(pack(entry));
    }

    fn mark(&mut self, now: Instant, dropped: u64, ended: bool) {
        if self.steps || self.measured.is_none_or(|measured| now - measured >= CLOCKS_EVERY) {
            self.measured = Some(now);
            let monotonic = KernelClock::monotonic();
            let ahead = |clock| {
                let Ahead { least, most } = Ahead::measure(clock, monotonic);
                Span::from_wide(i128::midpoint(least, most)).nanos()
            };
            self.clocks = Clocks {
                realtime: Span::from_wide(utc_offset(monotonic)).nanos(),
                boottime: ahead(KernelClock::boottime()),
                tai: ahead(KernelClock::tai()),
            };
        }
        let lost = self.state.lost.load(Ordering::Relaxed);
        self.put(&Entry::Mark(Mark { at: nanos(now), lost, dropped, clocks: self.clocks, ended }));
    }

    fn send_batch(&mut self) {
        let bytes = (self.batch.len() * RECORD) as u64;
        if self.state.waiting.load(Ordering::Relaxed) + bytes > FLIGHT_BYTES {
            self.state.lost.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
            self.batch.clear();
            return;
        }
        self.state.waiting.fetch_add(bytes, Ordering::Relaxed);
        let empty = self.spare.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, empty);
        self.send(Handed::Batch(batch));
    }

    fn send(&self, handed: Handed) {
        // Fails once the flight recorder has ended; that does not matter.
        let _ = self.sender.send(handed);
    }
}

fn missed(task: u32, place: Place, verdict: &Verdict) -> Entry {
    let Verdict { cause, by, time, count } = *verdict;
    Entry::Missed(Miss { task, place, cause, by, time: time.nanos(), count })
}

/// Bytes for two minutes of records: the ticks, the marks between them, and some for missed releases.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn bytes_for(hertz: f64) -> u64 {
    const MARKS: f64 = 50.0; // per second
    let records = COVERS * (hertz * 1.05 + MARKS);
    (records * RECORD as f64).clamp(AT_LEAST as f64, AT_MOST as f64) as u64
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn nanos(at: Instant) -> i64 {
    (at - Instant::ZERO).nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Cause;

    #[test]
    fn without_a_disk_records_are_lost_and_counted_and_nothing_waits() {
        let state = Arc::<FlightState>::default();
        let (mut feed, receiver, back) = feed(None, state.clone());
        feed.begin(1_000.0);
        assert!(matches!(receiver.try_recv(), Ok(Handed::Begin(132_000))));
        let verdicts = Verdicts { overrun: Some(Verdict::plain(Cause::RanLong, 1)), ..Verdicts::default() };
        for round in 0..100 {
            for n in 0..200 {
                feed.tick(&TickRecord { n, ..TickRecord::EMPTY }, &verdicts);
            }
            feed.hand_over(Instant::from_nanos(round), 0);
        }
        // Each round is 200 ticks, as many verdicts, and a mark.
        let (waiting, lost) = (state.waiting.load(Ordering::Relaxed), state.lost.load(Ordering::Relaxed));
        assert!(
            waiting <= FLIGHT_BYTES && waiting + lost * RECORD as u64 == 100 * 401 * RECORD as u64,
            "{waiting} {lost}"
        );
        // The disk is back: batches go through, and the next mark says how many were lost.
        let written: Vec<_> = receiver.try_iter().collect();
        state.waiting.store(0, Ordering::Relaxed);
        for handed in written {
            let Handed::Batch(mut batch) = handed else { panic!("{handed:?}") };
            batch.clear();
            back.send(batch).unwrap();
        }
        feed.finish(Instant::ZERO, 3);
        let handed: Vec<_> = receiver.try_iter().collect();
        let [Handed::Batch(batch)] = &handed[..] else { panic!("{handed:?}") };
        let Some(last) = batch.last() else { panic!("it is empty") };
        assert_eq!((last[8], &last[24..32], last[32]), (4, &lost.to_le_bytes()[..], 3));
    }

    #[test]
    fn the_file_covers_two_minutes_within_limits() {
        assert_eq!(bytes_for(0.1), AT_LEAST);
        assert_eq!(bytes_for(1_000.0), 120 * 1_100 * 64);
        assert_eq!(bytes_for(1e9), AT_MOST);
    }
}
