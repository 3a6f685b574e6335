//! Wake-up lateness as cyclictest measures it: a thread on each CPU sleeps until absolute instants one period apart, and reads the clock
//! first thing after each wake-up.
//!
//! While measuring, a thread makes no system call except the sleep, and allocates nothing.

use super::watch::Watch;
use crate::config::Scheduling;
use crate::metrics::Histogram;
use crate::sys::clock::KernelClock;
use crate::sys::thread::{Bandwidth, affinity, pin};
use crate::time::{Clock, Span, Wake};
use crate::worker::{Granted, set_up};
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

/// The results of one thread.
pub(super) struct Slept {
    pub(super) granted: Granted,
    pub(super) late: Histogram,
    pub(super) passed_over: u64,
}

/// Measures on all `cpus` at once, for `length`.
pub(super) fn sleep(
    cpus: &[usize],
    scheduling: Scheduling,
    period: Span,
    length: Span,
    what: &str,
    watch: &mut Watch<'_>,
) -> io::Result<Vec<Slept>> {
    let thread = |cpu: usize| {
        let stop = watch.stop.clone();
        Builder::new().name(format!("hz-sleep-{cpu}")).spawn(move || one(cpu, scheduling, period, length, &stop))
    };
    let threads = cpus.iter().map(|cpu| thread(*cpu)).collect::<io::Result<Vec<_>>>()?;
    on(cpus, || watch.wait(what, length, || threads.iter().all(std::thread::JoinHandle::is_finished)))?;
    let ended = |thread: std::thread::JoinHandle<Slept>| {
        thread.join().map_err(|_| io::Error::other("a thread that sleeps ended with a panic"))
    };
    threads.into_iter().map(ended).collect()
}

/// Waits on these CPUs and no others, as cyclictest does. If the waiting thread polls every 10 ms on another CPU, sleeps on this one end
/// some microseconds later (cyclictest's own too, with `--mainaffinity`). That would be an effect of the measurement, not of the machine.
fn on<T>(cpus: &[usize], wait: impl FnOnce() -> T) -> T {
    let before = affinity();
    // If refused, the thread stays where it is and measures anyway.
    let _ = pin(cpus);
    let waited = wait();
    let _ = before.and_then(|before| pin(&before));
    waited
}

fn one(cpu: usize, scheduling: Scheduling, period: Span, length: Span, stop: &AtomicBool) -> Slept {
    let room = length.nanos() / period.nanos().max(1) + 1;
    // Write to it, so that it is in memory.
    let mut late = vec![1_i64; usize::try_from(room).unwrap_or(0)];
    black_box(&mut late).clear();
    let granted = set_up(&[cpu], scheduling, Bandwidth::default());
    let clock = KernelClock::monotonic();
    // Only now: before its promotion, the thread may have waited long for its CPU.
    let begin = clock.now() + period;
    let end = begin + length;
    let (mut asked, mut passed_over) = (begin, 0);
    while asked < end && !stop.load(Ordering::Relaxed) {
        if clock.sleep_until(asked) == Wake::Interrupted {
            continue;
        }
        let woke = clock.now();
        late.push((woke - asked).nanos());
        asked = asked + period;
        while asked <= woke && asked < end {
            asked = asked + period;
            passed_over += 1;
        }
    }
    let mut histogram = Histogram::new(3);
    // Leave real-time priority: the following takes time, and other threads may be waiting for this CPU.
    let _ = crate::sys::thread::demote(crate::sys::thread::id());
    late.into_iter().for_each(|nanos| histogram.add(Span::from_nanos(nanos)));
    Slept { granted, late: histogram, passed_over }
}
