//! The evidence of a worker's thread, from the kernel.
//!
//! For the hot thread: only the constructor allocates or waits. Reads the thread's processor time; other times are arguments.
//!
//! Each sleep sets a mark, which costs one system call of about 0.4 µs. A mark counts switches and faults exactly. Its processor time is
//! the value at the kernel's last update, from which the exact value is estimated. Only a missed release takes evidence, which reads the
//! exact processor time.

use crate::channels::{Evidence, EvidenceSource};
use crate::sys::clock::thread_cpu_time;
use crate::sys::usage::{self, RunQueue, Usage};
use crate::time::Span;

/// The most processor time of its own that a thread spends on a sleep and a wake-up; usually 5 to 30 µs.
const SLEEP_COST: Span = Span::from_micros(50);

/// The evidence of the thread that created it. Only that thread may call it.
#[derive(Debug)]
pub struct ThreadEvidence {
    counted: Usage,
    cpu: Span, // at the mark: exact after evidence, otherwise the best estimate
    run_queue: Option<RunQueue>,
}

impl ThreadEvidence {
    /// The evidence of the calling thread, from now on. Opens a file.
    pub fn of_this_thread() -> Self {
        Self { counted: usage::of_this_thread(), cpu: thread_cpu_time(), run_queue: RunQueue::of_this_thread() }
    }
}

impl EvidenceSource for ThreadEvidence {
    fn mark(&mut self, awake: Span, slept: bool) {
        let counted = usage::of_this_thread();
        self.cpu = used_at_mark(self.cpu, counted.cpu, awake, slept);
        self.counted = counted;
    }

    fn take(&mut self, awake: Span, slept: bool, missed: bool) -> Evidence {
        let cpu = thread_cpu_time();
        let (before, now) = (self.counted, usage::of_this_thread());
        let evidence = Evidence {
            awake,
            cpu: (cpu - self.cpu).max(Span::ZERO),
            voluntary: now.voluntary.since(before.voluntary).saturating_sub(u32::from(slept)),
            involuntary: now.involuntary.since(before.involuntary),
            minor_faults: now.minor_faults.since(before.minor_faults),
            major_faults: now.major_faults.since(before.major_faults),
            run_queue: if missed { self.run_queue.as_ref().and_then(RunQueue::waited) } else { None },
        };
        (self.counted, self.cpu) = (now, cpu);
        evidence
    }
}

/// The processor time used at a mark. `before` is the time at the previous mark, `looked` the time at the kernel's last update, and the
/// thread was `awake` in between.
fn used_at_mark(before: Span, looked: Span, awake: Span, slept: bool) -> Span {
    let most = match slept {
        // The kernel updated the time at the wake-up or later, so at most the whole time awake has been used since then.
        true => (before + awake + SLEEP_COST).min(looked + awake),
        // The kernel's last update may be older than the previous mark, so it says nothing about the time since.
        false => before + awake,
    };
    most.max(looked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::{KernelClock, pause};
    use crate::sys::emulation::is_emulated;
    use crate::sys::memory::fault_cost;
    use crate::time::Clock;
    use std::hint::black_box;

    /// Does `work` and takes its evidence.
    fn evidence_of(slept: bool, work: impl FnOnce()) -> Evidence {
        let clock = KernelClock::monotonic();
        let mut usage = ThreadEvidence::of_this_thread();
        let before = clock.now();
        work();
        usage.take(clock.now() - before, slept, true)
    }

    fn spin(span: Span) {
        let clock = KernelClock::monotonic();
        clock.spin_until(clock.now() + span);
    }

    /// Asserts that `holds` is true of an attempt without page faults, since such a fault waits while another test maps memory or forks.
    /// Under emulation one of fifty attempts is enough, because QEMU may make a thread wait for QEMU's own locks at any time.
    fn assert_holds(take: impl Fn() -> Evidence, holds: impl Fn(&Evidence) -> bool) {
        let mut all = Vec::new();
        while all.len() < 50 {
            let taken = take();
            if holds(&taken) {
                return;
            }
            let is_decided = taken.minor_faults == 0 && !is_emulated();
            all.push(taken);
            if is_decided {
                break;
            }
        }
        panic!("{all:?}");
    }

    #[test]
    fn time_on_the_processor_is_told_from_time_asleep() {
        let (work, rest) = (|| spin(Span::from_millis(5)), || pause(Span::from_millis(5)));
        // Time off the processor was spent waiting for it: no sleep is counted.
        assert_holds(
            || evidence_of(false, work),
            |worked| {
                let waited = worked.run_queue.expect("this kernel counts it");
                worked.voluntary == 0 && worked.cpu + waited >= Span::from_millis(4)
            },
        );
        let slept = evidence_of(false, rest);
        assert!(slept.voluntary >= 1 && slept.cpu + Span::from_millis(4) < slept.awake, "{slept:?}");
        assert_holds(|| evidence_of(true, rest), |between| between.voluntary == 0);
    }

    #[test]
    fn page_faults_are_counted() {
        // An allocation may get memory that was already touched, so this maps new pages, 640 KiB in all.
        let faults = evidence_of(false, || {
            black_box(fault_cost());
        });
        assert!(faults.minor_faults >= 10, "{faults:?}");
    }

    #[test]
    fn processor_time_at_a_mark_is_never_far_from_the_exact_one() {
        let clock = KernelClock::monotonic();
        let mut usage = ThreadEvidence::of_this_thread();
        for _ in 0..50 {
            pause(Span::from_micros(200));
            let woke = clock.now();
            spin(Span::from_micros(300));
            let exact = thread_cpu_time();
            let awake = clock.now() - woke;
            usage.mark(awake, true);
            // Never less than the kernel knew, and never more than that plus all of the time awake.
            assert!(usage.cpu >= usage.counted.cpu && usage.cpu <= usage.counted.cpu + awake, "{usage:?}");
            assert!(usage.counted.cpu <= exact + Span::from_micros(50), "{usage:?} {exact}");
        }
    }

    #[test]
    fn the_estimate_at_a_mark_does_not_drift() {
        let micros = Span::from_micros;
        let (cost, awake) = (20, 1_000); // of a sleep, and after it
        let (mut used, mut known) = (0, Span::ZERO);
        for n in 0..1_000 {
            used += cost;
            // Every fourth time, a timer tick makes the kernel update the time as well.
            let looked = used + if n % 4 == 3 { 600 } else { 0 };
            used += awake;
            known = used_at_mark(known, micros(looked), micros(awake), true);
            let error = known - micros(used);
            assert!(error >= Span::ZERO && error <= SLEEP_COST, "{n}: {error}");
        }
    }
}
