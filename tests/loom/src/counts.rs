//! Counts of a task that are read while it runs, and other consistent sets of numbers.

use crate::channels::{Counts, Latest, Live, LiveCounts};
use crate::time::Instant;
use crate::trial::Model;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

pub const MODELS: [Model; 4] = [
    Model { interruptions: Some(2), ..Model::new(of_one_moment) },
    Model { interruptions: Some(2), ..Model::new(before_the_record) },
    Model { interruptions: Some(1), ..Model::new(all_of_one_moment) },
    Model { interruptions: Some(2), ..Model::new(numbers_of_one_moment) },
];

fn at(n: u64) -> Option<Instant> {
    Some(Instant::from_nanos(n.into()))
}

/// The counts that a usual tick writes are consistent, and never older than those read before.
fn of_one_moment() {
    let live = Arc::new(LiveCounts::default());
    live.begins(at(0), Instant::MAX);
    let written = live.clone();
    let writer = thread::spawn(move || {
        for n in 1..=2 {
            written.ran(n, at(n));
        }
    });
    let mut latest = 0;
    for _ in 0..2 {
        let Some(Live { counts, next, .. }) = live.try_read() else { continue };
        assert_eq!(next, at(counts.ran));
        assert!(counts.ran >= latest);
        latest = counts.ran;
    }
    writer.join().unwrap();
    assert_eq!(live.try_read().map(|live| live.counts.ran), Some(2), "nothing is being written");
}

/// The same for all counts.
fn all_of_one_moment() {
    let live = Arc::new(LiveCounts::default());
    let written = live.clone();
    let all = |n| Counts { ran: n, skipped: n, overruns: n, over_budget: n, errors: n, disabled: n > 0 };
    let writer = thread::spawn(move || written.store(&all(1), at(1)));
    if let Some(Live { counts, next, .. }) = live.try_read() {
        assert_eq!((counts, next), (all(counts.ran), at(counts.ran).filter(|_| counts.ran > 0)));
    }
    writer.join().unwrap();
}

/// A thread that has seen the record of a tick, which goes through a queue, finds the tick counted.
fn before_the_record() {
    let live = Arc::new(LiveCounts::default());
    live.begins(at(0), Instant::MAX);
    let sent = Arc::new(AtomicU64::new(0));
    let (written, sender) = (live.clone(), sent.clone());
    let writer = thread::spawn(move || {
        for n in 1..=2 {
            written.ran(n, at(n));
            sender.store(n, Ordering::Release); // as a queue does
        }
    });
    let seen = sent.load(Ordering::Acquire);
    if let Some(live) = live.try_read() {
        assert!(live.counts.ran >= seen, "a tick that is not counted");
    }
    writer.join().unwrap();
}

/// Numbers stored together are seen together, the first ones too, and never older ones after newer ones.
fn numbers_of_one_moment() {
    let latest = Arc::new(Latest::<3>::default());
    let stored = latest.clone();
    let writer = thread::spawn(move || (1..=2).for_each(|n| stored.store([n; 3])));
    let mut before = 0;
    for _ in 0..2 {
        let Some(seen) = latest.try_read() else { continue };
        assert_eq!(seen, [seen[0]; 3]);
        assert!(seen[0] >= before);
        before = seen[0];
    }
    writer.join().unwrap();
    assert_eq!(latest.read(), [2; 3]);
}
