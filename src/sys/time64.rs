//! The kernel's calls with 64-bit times, for C libraries whose `time_t` has 32 bits and ends in 2038. Available since Linux 5.1.
//!
//! For the hot thread: nothing here allocates. Only [`sleep_until`] blocks.

use super::from_minus_one;
use std::ffi::{c_int, c_long};
use std::ptr;

/// The calls' numbers, which libc lacks for ARM. On an architecture with other numbers the calls fail, and the C library's results are
/// used.
const CLOCK_GETTIME: c_long = 403;
const CLOCK_NANOSLEEP: c_long = 407;

/// The kernel's `__kernel_timespec`.
#[repr(C)]
#[derive(Default)]
struct Timespec {
    seconds: i64,
    nanos: i64,
}

/// The clock's time in seconds and nanoseconds, if the C library's answer is wrong. `None`: the answer is right, or the kernel lacks the
/// call.
///
/// The C library `returned` an error for a time that `time_t` cannot hold. glibc before 2.31 truncates the time instead, so `seconds` is
/// negative from 2038 to 2106. A correct answer is never negative.
pub(super) fn reread_if_cut(clock: libc::clockid_t, returned: c_int, seconds: i64) -> Option<(i64, i64)> {
    if returned == 0 && seconds >= 0 {
        return None;
    }
    let mut time = Timespec::default();
    // SAFETY: `time` is owned and of the type that the kernel fills.
    from_minus_one(unsafe { libc::syscall(CLOCK_GETTIME, clock, &raw mut time) }).ok()?;
    Some((time.seconds, time.nanos))
}

/// Sleeps until this instant on the clock. Returns 0 or EINTR; `None`: the kernel lacks the call.
pub(super) fn sleep_until(clock: libc::clockid_t, (seconds, nanos): (i64, i64)) -> Option<c_int> {
    let at = Timespec { seconds, nanos };
    let remainder = ptr::null_mut::<Timespec>();
    // SAFETY: `at` outlives the call, and an absolute sleep writes no remainder.
    let slept = unsafe { libc::syscall(CLOCK_NANOSLEEP, clock, libc::TIMER_ABSTIME, &raw const at, remainder) };
    match from_minus_one(slept) {
        Ok(_) => Some(0),
        Err(error) => error.raw_os_error().filter(|errno| *errno == libc::EINTR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCKS: [libc::clockid_t; 3] = [libc::CLOCK_MONOTONIC, libc::CLOCK_TAI, libc::CLOCK_REALTIME];

    fn now(clock: libc::clockid_t) -> (i64, i64) {
        // As the C library answers from 2038 on.
        reread_if_cut(clock, -1, 0).unwrap()
    }

    #[test]
    fn an_answer_that_was_refused_or_cut_off_is_replaced_by_the_time() {
        for clock in CLOCKS {
            let mut whole = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let before = now(clock);
            // SAFETY: `whole` is owned and of the type the kernel fills.
            let returned = unsafe { libc::clock_gettime(clock, &raw mut whole) };
            let after = reread_if_cut(clock, 0, -5).unwrap();
            assert!(before <= after, "{before:?} {after:?}");
            // Only before 2038.
            if returned == 0 {
                let between = (i64::from(whole.tv_sec), i64::from(whole.tv_nsec));
                assert!(before <= between && between <= after, "{before:?} {between:?} {after:?}");
                assert_eq!(reread_if_cut(clock, returned, whole.tv_sec.into()), None);
            }
        }
    }

    #[test]
    fn a_sleep_ends_at_the_instant_or_at_once_when_it_has_passed() {
        for clock in CLOCKS {
            assert_eq!(sleep_until(clock, (0, 0)), Some(0));
            let (seconds, nanos) = now(clock);
            let ahead = nanos + 3_000_000;
            let at = (seconds + ahead / 1_000_000_000, ahead % 1_000_000_000);
            while sleep_until(clock, at) == Some(libc::EINTR) {}
            assert!(now(clock) >= at);
        }
    }
}
