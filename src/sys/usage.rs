//! The kernel's counts for the calling thread: switches, page faults, time on the run queue.
//!
//! For the hot thread: nothing here allocates or waits, except that creating a [`RunQueue`] opens a file. No clock is read.

use super::thread::ThreadId;
use super::wide;
use crate::time::Span;
use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;

/// A total that wraps around: where `long` has 32 bits, a thread that sleeps a thousand times a second exceeds it after 25 days. Only the
/// difference between two totals is meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrappingCount(libc::c_long);

impl WrappingCount {
    #[cfg(test)]
    pub(crate) const fn of(count: libc::c_long) -> Self {
        Self(count)
    }

    /// The growth since `before`; saturates. The total must not have wrapped all the way round to `before`.
    pub(crate) fn since(self, before: Self) -> u32 {
        // Converted through 128 bits, because the width of the type depends on the platform.
        u32::try_from(u128::from(self.0.wrapping_sub(before.0).cast_unsigned())).unwrap_or(u32::MAX)
    }
}

/// Totals of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time as of the kernel's last accounting: when the thread last got the processor, or at a timer tick since.
    pub cpu: Span,
    /// How often it gave up the processor.
    pub voluntary: WrappingCount,
    /// How often the processor was taken from it.
    pub involuntary: WrappingCount,
    /// Pages mapped without reading a disk.
    pub minor_faults: WrappingCount,
    /// Pages read from a disk.
    pub major_faults: WrappingCount,
}

/// The totals of the calling thread: one system call, about 0.4 µs.
pub(crate) fn of_this_thread() -> Usage {
    // SAFETY: rusage is made of integers, for which all-zero bytes are valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is owned and of the type the kernel fills.
    let returned = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    debug_assert_eq!(returned, 0, "every Linux since 2.6.26 counts threads");
    let span = |time: libc::timeval| Span::from_seconds(wide(time.tv_sec)) + Span::from_micros(wide(time.tv_usec));
    Usage {
        cpu: span(usage.ru_utime) + span(usage.ru_stime),
        voluntary: WrappingCount(usage.ru_nvcsw),
        involuntary: WrappingCount(usage.ru_nivcsw),
        minor_faults: WrappingCount(usage.ru_minflt),
        major_faults: WrappingCount(usage.ru_majflt),
    }
}

/// A thread's total waiting time for a processor.
#[derive(Debug)]
pub(crate) struct RunQueue(File);

impl RunQueue {
    /// For the calling thread; `None`: the kernel or the sandbox does not provide it.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let queue = Self(File::open("/proc/thread-self/schedstat").ok()?);
        queue.waited().is_some().then_some(queue)
    }

    /// For another thread of this process. Any thread may then read it, at about the same cost.
    pub(crate) fn of(thread: ThreadId) -> Option<Self> {
        File::open(format!("/proc/self/task/{}/schedstat", thread.number())).ok().map(Self)
    }

    /// Time runnable but not running since the thread began; a system call, about 1 µs.
    pub(crate) fn waited(&self) -> Option<Span> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0).ok()?;
        // Processor time, waiting time, number of time slices.
        let text = str::from_utf8(&text[..length]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok().map(Span::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_that_have_gone_round_are_as_far_apart_as_before() {
        let since = |now, before| WrappingCount(now).since(WrappingCount(before));
        assert_eq!((since(1_000, 990), since(7, 7)), (10, 0));
        // As wide as the kernel's `long` is here.
        let (last, first) = (libc::c_long::MAX, libc::c_long::MIN);
        assert_eq!((since(first, last), since(first + 6, last - 3)), (1, 10));
        assert_eq!(
            (since(2, -3), since(0, first)),
            (5, u32::try_from(last.unsigned_abs()).map_or(u32::MAX, |half| half + 1))
        );
    }
}
