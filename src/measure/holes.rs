//! The longest hole: a thread that only reads the clock finds gaps in which it was not running.
//!
//! This shows what hwlatdetect finds (firmware, hypervisor), and also interrupts and the kernel, which a thread cannot keep away. The
//! thread watches in bursts, so that real-time throttling does not cause holes itself, and so that other programs get the CPU in between.

use super::result::Holes;
use super::watch::Watch;
use crate::config::Scheduling;
use crate::sys::clock::{KernelClock, pause};
use crate::sys::host::Host;
use crate::sys::thread::Bandwidth;
use crate::sys::usage;
use crate::time::{Clock, Span};
use crate::worker::set_up;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

/// Maximum length of a burst.
const BURST: Span = Span::from_millis(50);

/// More than a few clock readings take.
const HOLE: Span = Span::from_micros(1);

/// The threshold that hwlatdetect uses by default.
const LARGE: Span = Span::from_micros(10);

/// The unit, in nanoseconds, in which the kernel counts stolen time.
const JIFFY: i64 = 10_000_000;

/// Watches each CPU in turn, for its part of `length`; at least half of that time is rest.
pub(super) fn look(
    cpus: &[usize],
    scheduling: Scheduling,
    length: Span,
    what: &str,
    watch: &mut Watch<'_>,
) -> io::Result<Vec<Holes>> {
    let each = Span::from_nanos(length.nanos() / i64::try_from(cpus.len()).unwrap_or(i64::MAX).max(1));
    let pace = pace(Host::read().realtime_bandwidth);
    let mut all = Vec::new();
    for cpu in cpus.iter().copied() {
        let stop = watch.stop.clone();
        let before = steal(cpu);
        let body = move || {
            set_up(&[cpu], scheduling, Bandwidth::default());
            bursts(pace, each, &stop)
        };
        let thread = Builder::new().name(format!("hz-holes-{cpu}")).spawn(body)?;
        watch.wait(what, each, || thread.is_finished())?;
        let holes = thread.join().map_err(|_| io::Error::other("a thread that spins ended with a panic"))?;
        all.push(Holes { steal_ns: steal(cpu).saturating_sub(before), ..holes });
    }
    Ok(all)
}

/// The length of a burst and of the rest after it. It uses at most half of what real-time threads may run, so that throttling does not cut
/// a burst short.
fn pace(limit: Option<(i64, i64)>) -> (Span, Span) {
    match limit {
        Some((runtime, period)) if runtime > 0 && runtime < period => {
            let burst = Span::from_micros(runtime / 2).min(BURST);
            let rest = i128::from(burst.nanos()) * i128::from(2 * period - runtime) / i128::from(runtime);
            (burst, Span::from_wide(rest).max(burst))
        }
        _ => (BURST, BURST),
    }
}

fn bursts((burst, rest): (Span, Span), length: Span, stop: &AtomicBool) -> Holes {
    let clock = KernelClock::monotonic();
    let end = clock.now() + length;
    let mut holes = Holes::default();
    while clock.now() < end && !stop.load(Ordering::Relaxed) {
        one_burst(burst.min(Span::from_nanos((end - clock.now()).nanos() / 2)), &mut holes);
        pause(rest.min(end - clock.now()));
    }
    holes
}

fn one_burst(length: Span, holes: &mut Holes) {
    let clock = KernelClock::monotonic();
    let mut switches = usage::of_this_thread().involuntary;
    let begin = clock.now();
    let (end, mut last) = (begin + length, begin);
    while last < end {
        let now = clock.now();
        let hole = now - last;
        last = now;
        if hole <= HOLE {
            continue;
        }
        holes.lost_ns += hole.nanos();
        holes.over_10us += u64::from(hole >= LARGE);
        if hole.nanos() > holes.longest_ns {
            holes.longest_ns = hole.nanos();
            let so_far = usage::of_this_thread().involuntary;
            holes.longest_was_preemption = so_far != std::mem::replace(&mut switches, so_far);
            last = clock.now(); // asking took some time
        }
    }
    holes.looked_ns += (last - begin).nanos();
}

/// The time that the host has taken from a CPU so far, in nanoseconds; 0 if the kernel does not report it.
fn steal(cpu: usize) -> i64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{cpu} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
    let jiffies: i64 = line.split_whitespace().nth(7).and_then(|word| word.parse().ok()).unwrap_or(0);
    jiffies.saturating_mul(JIFFY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_no_more_than_what_was_looked_at() {
        let mut holes = Holes::default();
        for _ in 0..3 {
            one_burst(Span::from_millis(2), &mut holes);
        }
        assert!(holes.looked_ns >= 6_000_000, "{holes:?}");
        assert!(holes.longest_ns <= holes.lost_ns && holes.lost_ns <= holes.looked_ns, "{holes:?}");
        assert!(holes.longest_ns >= 10_000 || holes.over_10us == 0, "{holes:?}");
    }

    #[test]
    fn a_burst_stays_below_the_limit_of_real_time_threads() {
        let ms = Span::from_millis;
        let of = |runtime, period| pace(Some((runtime, period)));
        assert_eq!([of(-1, 1_000_000), pace(None)], [(ms(50), ms(50)); 2]);
        assert_eq!(of(20_000, 100_000), (ms(10), ms(90)));
        let (burst, rest) = of(950_000, 1_000_000);
        assert!(burst == ms(50) && rest >= burst, "{rest}");
    }
}
