//! The limit of processor time that real-time threads of this process may use without a sleep: RLIMIT_RTTIME.

use crate::sys::from_minus_one;
use crate::time::Span;
use std::{io, mem};

/// The limit at which the kernel sends SIGXCPU; `None`: there is none. Each time it sends one, it raises the limit by a second,
/// until the hard limit ends the process.
pub(crate) fn realtime_limit() -> Option<Span> {
    let limit = read().ok()?;
    (limit.rlim_cur != libc::RLIM_INFINITY).then(|| Span::from_wide(i128::from(limit.rlim_cur) * 1_000))
}

/// Sets that limit, of which the kernel takes whole microseconds; the hard limit stays.
///
/// # Errors
/// EINVAL above the hard limit; EPERM where a sandbox forbids the call.
pub(crate) fn set_realtime_limit(limit: Span) -> io::Result<()> {
    // Through 128 bits, because the width of the fields depends on the platform. What does not fit stays below "no limit".
    let micros = libc::rlim_t::try_from(u128::from(limit.nanos().unsigned_abs() / 1_000));
    let limit = libc::rlimit { rlim_cur: micros.unwrap_or(libc::RLIM_INFINITY - 1), ..read()? };
    // SAFETY: `limit` outlives the call.
    from_minus_one(unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) }).map(drop)
}

fn read() -> io::Result<libc::rlimit> {
    // SAFETY: rlimit is made of integers, for which all-zero bytes are valid.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: `limit` is owned and of the type the kernel fills.
    from_minus_one(unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &raw mut limit) })?;
    Ok(limit)
}
