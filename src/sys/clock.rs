//! The kernel's clocks: reads them and sleeps until an instant on them.
//!
//! Nothing here allocates. Clocks are read through the vDSO, as the C library does (about 45 ns); processor time takes a system call. The
//! vDSO falls back to a system call where user space cannot read the clock source. On a PC those sources are `hpet` and `acpi_pm`; on ARM
//! all but `arch_sys_counter`, for example that of a Cortex-A8 (BeagleBone Black), which has no such counter.
//!
//! On 32 bits the C library's `time_t` may have only 32 bits. The monotonic clock does not reach its end; the others do in 2038. Later
//! times are read from the kernel directly by a system call (`time64`), which exists since Linux 5.1.
//! [`Clock::sleep_until`] and [`pause`] are the only functions that block.

use std::{io, mem};

#[cfg(all(target_pointer_width = "32", target_os = "linux"))]
use super::time64;
use super::{Seconds, from_minus_one, wide};
use crate::time::{Clock, Instant, NANOS_PER_SECOND, Span, Wake};

/// Readings taken by [`Ahead::measure`]: enough that very likely at least one is undisturbed.
const READINGS: usize = 8;

/// Within this time of its target, a spin leaves out the pause instruction, which lasts up to 50 ns.
const CLOSE: Span = Span::from_nanos(500);

/// One of the kernel's clocks, as a [`Clock`].
///
/// A `sleep_until` with an instant in the past still costs a system call and an armed timer, about 4.5 µs: compare first. Instants before
/// the clock's zero are in the past. The kernel's timers end 292 years after zero; a sleep until a later instant ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock(libc::clockid_t);

impl KernelClock {
    /// Nanoseconds since boot, without time spent suspended; never stepped. The right clock unless ticks must agree with another machine.
    pub const fn monotonic() -> Self {
        Self(libc::CLOCK_MONOTONIC)
    }

    /// International atomic time since 1970: UTC without leap seconds. It is stepped when the time is set, and equals
    /// [`KernelClock::realtime`] until chrony or ptp4l sets the kernel's offset.
    pub const fn tai() -> Self {
        Self(libc::CLOCK_TAI)
    }

    /// UTC since 1970. It goes back at leap seconds and when the time is set; sleeps follow such steps.
    pub const fn realtime() -> Self {
        Self(libc::CLOCK_REALTIME)
    }

    /// Like the monotonic clock, but at the hardware's own rate: not steered towards UTC.
    pub(crate) const fn monotonic_raw() -> Self {
        Self(libc::CLOCK_MONOTONIC_RAW)
    }

    /// Like the monotonic clock, plus time spent suspended.
    pub(crate) const fn boottime() -> Self {
        Self(libc::CLOCK_BOOTTIME)
    }

    /// Reads the clock by a system call instead of the vDSO and drops the result: for comparing their costs.
    ///
    /// # Errors
    /// A filter refuses the call, or a 32-bit kernel was built without 32-bit times.
    pub(crate) fn read_by_call(self) -> io::Result<()> {
        let mut time = [0_i64; 2]; // a timespec is at most this long
        // SAFETY: the kernel fills a timespec, for which `time` has enough room and alignment.
        from_minus_one(unsafe { libc::syscall(libc::SYS_clock_gettime, self.0, time.as_mut_ptr()) }).map(drop)
    }
}

impl Clock for KernelClock {
    fn now(&self) -> Instant {
        let (seconds, nanos) = read(self.0);
        Instant::from_nanos(i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos))
    }

    /// Any signal with a handler interrupts the sleep; `sys::thread::interrupt` sends one on purpose.
    fn sleep_until(&self, at: Instant) -> Wake {
        let code = sleep(self.0, at);
        debug_assert!(code == 0 || code == libc::EINTR, "clock_nanosleep: {}", io::Error::from_raw_os_error(code));
        // After an error the caller reads the clock again, so no error is mistaken for reaching the instant.
        if code == 0 { Wake::Reached } else { Wake::Interrupted }
    }

    /// Between two readings it executes the processor's spin hint, which saves power and leaves a core shared by two threads to the other
    /// one. The hint is `pause` on x86-64, `isb` on 64-bit ARM (where `yield` does nothing on nearly all cores), and `yield` on 32-bit ARM.
    /// ARM's `wfe` would wait for the kernel's event stream, about 100 µs. `wfet`, which waits until an instant, needs ARMv8.7.
    ///
    /// For the last [`CLOSE`] it reads the clock without a break, so the result is at most one reading late.
    fn spin_until(&self, at: Instant) -> Instant {
        let close = at - CLOSE;
        loop {
            let now = self.now();
            if now >= at {
                return now;
            }
            if now < close {
                std::hint::spin_loop();
            }
        }
    }
}

/// Processor time used by the calling thread so far, in user and kernel mode.
pub fn thread_cpu_time() -> Span {
    KernelClock(libc::CLOCK_THREAD_CPUTIME_ID).now() - Instant::ZERO
}

/// Sleeps for at least `span` on the monotonic clock, even if signals arrive. For threads other than workers. Zero and negative spans
/// return at once.
pub(crate) fn pause(span: Span) {
    if span > Span::ZERO {
        let clock = KernelClock::monotonic();
        let end = clock.now() + span;
        while clock.sleep_until(end) == Wake::Interrupted {}
    }
}

/// How many nanoseconds one clock is ahead of another: bounds around the true distance.
///
/// The kernel steers the monotonic, TAI and realtime clocks alike. So the distance between two of them changes only when one is stepped.
/// The distance to the boot-time clock also changes when the machine was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// The distance is not below this.
    pub(crate) least: i128,
    /// The distance is not above this.
    pub(crate) most: i128,
}

impl Ahead {
    /// How far `clock` is ahead of `other` now. The bounds are usually less than 100 ns apart: a preemption widens only one of several
    /// readings, and the narrowest bounds count.
    pub(crate) fn measure(clock: KernelClock, other: KernelClock) -> Self {
        let bracketed = || {
            let before = other.now().nanos();
            let between = clock.now().nanos();
            Self { least: between - other.now().nanos(), most: between - before }
        };
        // After a step between two readings, only the later ones count.
        (1..READINGS).map(|_| bracketed()).fold(bracketed(), |known, next| known.narrowed(next).unwrap_or(next))
    }

    /// The bounds that satisfy both; `None`: they contradict each other, so one of the clocks was stepped in between.
    pub(crate) fn narrowed(self, other: Self) -> Option<Self> {
        let both = Self { least: self.least.max(other.least), most: self.most.min(other.most) };
        (both.least <= both.most).then_some(both)
    }
}

/// Nanoseconds to add to a reading of `clock` to get UTC since 1970; accurate to about 50 ns.
///
/// The offset ages: UTC is stepped, the monotonic clock is not.
pub(crate) fn utc_offset(clock: KernelClock) -> i128 {
    let utc = KernelClock::realtime();
    if clock == utc {
        return 0;
    }
    let Ahead { least, most } = Ahead::measure(utc, clock);
    i128::midpoint(least, most)
}

/// Reads a clock: seconds and nanoseconds.
fn read(clock: libc::clockid_t) -> (i64, i64) {
    // SAFETY: timespec is made of integers, for which all-zero bytes are valid.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: `time` is owned and of the type the kernel fills.
    let returned = unsafe { libc::clock_gettime(clock, &raw mut time) };
    #[cfg(all(target_pointer_width = "32", target_os = "linux"))]
    if let Some(whole) = time64::reread_if_cut(clock, returned, wide(time.tv_sec)) {
        return whole;
    }
    debug_assert_eq!(returned, 0, "every Linux since 3.10 has the clocks offered here");
    (wide(time.tv_sec), wide(time.tv_nsec))
}

/// Sleeps until `at`, or until the end of the C library's time where nothing longer is available. Returns the error number, 0 after a full
/// sleep.
fn sleep(clock: libc::clockid_t, at: Instant) -> libc::c_int {
    let time = timespec(at);
    // Without this a worker on TAI or UTC could not sleep after 2038: every instant would be in the past.
    #[cfg(all(target_pointer_width = "32", target_os = "linux"))]
    if time.tv_sec == Seconds::MAX
        && let Some(code) = time64::sleep_until(clock, parts(at))
    {
        return code;
    }
    // SAFETY: `time` is a valid timespec that outlives the call, and an absolute sleep writes no remainder.
    unsafe { libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut()) }
}

/// Seconds and nanoseconds of the nearest instant that the kernel can sleep until. Its timers count 64-bit nanoseconds from zero.
fn parts(at: Instant) -> (i64, i64) {
    let nanos = (at - Instant::ZERO).nanos().max(0);
    (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND)
}

/// The same as the C library's type, capped at its last second.
fn timespec(at: Instant) -> libc::timespec {
    let (seconds, nanos) = parts(at);
    // SAFETY: timespec is made of integers, for which all-zero bytes are valid.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // Converted through 128 bits, because the width of the fields depends on the platform.
    time.tv_sec = Seconds::try_from(i128::from(seconds)).unwrap_or(Seconds::MAX);
    time.tv_nsec = libc::c_long::try_from(i128::from(nanos)).unwrap_or_default();
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCKS: [KernelClock; 3] = [KernelClock::monotonic(), KernelClock::tai(), KernelClock::realtime()];

    #[test]
    fn a_sleep_never_ends_early() {
        for clock in CLOCKS {
            for nanos in [1, 1_000, 70_000, 3_000_000] {
                let at = clock.now() + Span::from_nanos(nanos);
                while clock.sleep_until(at) == Wake::Interrupted {}
                assert!(clock.now() >= at);
            }
        }
    }

    #[test]
    fn instants_that_have_passed_are_reached() {
        for clock in CLOCKS {
            for at in [Instant::from_nanos(i128::MIN), Instant::from_nanos(-1), Instant::ZERO, clock.now()] {
                while clock.sleep_until(at) == Wake::Interrupted {}
            }
        }
    }

    #[test]
    fn instants_are_clamped_to_what_the_kernel_can_sleep_towards() {
        let parts = |nanos| {
            let time = timespec(Instant::from_nanos(nanos));
            (i128::from(time.tv_sec), i128::from(time.tv_nsec))
        };
        assert_eq!(parts(i128::MIN), (0, 0));
        assert_eq!(parts(-1), (0, 0));
        assert_eq!(parts(1_999_999_999), (1, 999_999_999));
        assert_eq!(parts(2_000_000_000), (2, 0));
        assert_eq!(parts(i128::MAX), parts(i128::from(i64::MAX)));
    }

    #[test]
    fn a_pause_lasts_and_processor_time_is_used_awake() {
        let clock = KernelClock::monotonic();
        let (start, thread) = (clock.now(), thread_cpu_time());
        pause(Span::from_millis(2));
        assert!(clock.now() - start >= Span::from_millis(2));
        clock.spin_until(clock.now() + Span::from_millis(2));
        assert!(thread_cpu_time() > thread);
        pause(Span::from_nanos(i64::MIN));
    }

    #[test]
    fn a_clock_can_be_read_by_a_system_call() {
        KernelClock::monotonic().read_by_call().unwrap();
        assert_eq!(KernelClock(99).read_by_call().unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn utc_is_no_offset_away_from_itself() {
        assert_eq!(utc_offset(KernelClock::realtime()), 0);
    }

    #[test]
    fn bounds_on_a_distance_narrow_until_a_step_contradicts_them() {
        let ahead = |least, most| Ahead { least, most };
        assert_eq!(ahead(10, 90).narrowed(ahead(40, 120)), Some(ahead(40, 90)));
        assert_eq!(ahead(10, 90).narrowed(ahead(90, 120)), Some(ahead(90, 90)));
        assert_eq!(ahead(10, 90).narrowed(ahead(91, 120)), None);
        assert_eq!(ahead(10, 90).narrowed(ahead(-70, 9)), None);
        let measured = Ahead::measure(KernelClock::boottime(), KernelClock::monotonic());
        assert!(0 <= measured.most && measured.least <= measured.most, "{measured:?}");
    }
}
