//! The cost of reading the clock, and of pushing a record into a worker's channel, on one CPU at the granted priority.

use super::result::Costs;
use super::watch::Watch;
use crate::channels::{TickRecord, TickSink, ticks};
use crate::config::Scheduling;
use crate::sys::clock::KernelClock;
use crate::sys::thread::Bandwidth;
use crate::time::{Clock, Span};
use crate::worker::set_up;
use std::hint::black_box;
use std::io;
use std::thread::Builder;

const READINGS: i64 = 10_000;
const PUSHES: usize = 1_000;

/// Measures each cost once.
pub(super) fn costs(cpu: usize, scheduling: Scheduling, watch: &mut Watch<'_>, into: &mut Costs) -> io::Result<()> {
    let body = move || {
        set_up(&[cpu], scheduling, Bandwidth::default());
        (reading(), push())
    };
    let thread = Builder::new().name("hz-costs".into()).spawn(body)?;
    watch.wait("costs", Span::ZERO, || thread.is_finished())?;
    let (reading, push) = thread.join().map_err(|_| io::Error::other("a thread ended with a panic"))?;
    into.clock_reading_ns.push(reading);
    into.channel_push_ns.push(push);
    Ok(())
}

fn reading() -> i64 {
    let clock = KernelClock::monotonic();
    let begin = clock.now();
    for _ in 0..READINGS {
        black_box(clock.now());
    }
    rounded((clock.now() - begin).nanos(), READINGS)
}

/// The cost for an ordinary record, while nothing takes records out.
fn push() -> i64 {
    let (mut sender, mut receiver) = ticks(PUSHES + 4);
    // A first pass without timing, so that the channel's memory is touched.
    for _ in 0..PUSHES {
        sender.offer(TickRecord::EMPTY);
    }
    while receiver.take().is_some() {}
    let clock = KernelClock::monotonic();
    let begin = clock.now();
    for _ in 0..PUSHES {
        sender.offer(black_box(TickRecord::EMPTY));
    }
    rounded((clock.now() - begin).nanos(), i64::try_from(PUSHES).unwrap_or(1))
}

const fn rounded(sum: i64, count: i64) -> i64 {
    (sum + count / 2) / count
}
