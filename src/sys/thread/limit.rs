//! RLIMIT_RTTIME: how much processor time this process's real-time threads may use without a sleep.

use crate::sys::from_minus_one;
use crate::time::Span;
use std::{io, mem};

/// The limit at which the kernel sends SIGXCPU; `None`: unlimited. With each SIGXCPU the kernel raises the limit by a second, until the
/// hard limit ends the process.
pub(crate) fn realtime_limit() -> Option<Span> {
    let limit = read().ok()?;
    (limit.rlim_cur != libc::RLIM_INFINITY).then(|| Span::from_wide(i128::from(limit.rlim_cur) * 1_000))
}

/// The soft limit stays this far below the hard one, at which the kernel kills the process, so that main can react to the signal. Half of a
/// hard limit that is less than twice as long.
const ROOM: u64 = 1_000_000; // µs

/// The soft limit that leaves room below the hard one. Both are in microseconds; `None` means no limit.
pub(crate) fn with_room(soft: Option<u64>, hard: Option<u64>) -> Option<u64> {
    let most = hard.map(|hard| hard - ROOM.min(hard / 2));
    match (soft, most) {
        (Some(soft), Some(most)) => Some(soft.min(most)),
        (soft, most) => soft.or(most),
    }
}

/// Lowers the soft limit if it leaves no room below the hard one. Returns the wanted soft limit, the hard limit, and the kernel's result;
/// `None`: there was room.
pub(crate) fn make_room() -> Option<(Span, Span, io::Result<()>)> {
    let limit = read().ok()?;
    // Converted through 128 bits, because the width of the fields depends on the platform.
    let micros = |limit| u64::try_from(u128::from(limit)).ok().filter(|_| limit != libc::RLIM_INFINITY);
    let (soft, hard) = (micros(limit.rlim_cur), micros(limit.rlim_max));
    let wanted = with_room(soft, hard).filter(|wanted| Some(*wanted) != soft)?;
    let [wanted, hard] = [wanted, hard?].map(|micros| Span::from_wide(i128::from(micros) * 1_000));
    Some((wanted, hard, set_realtime_limit(wanted)))
}

/// Sets the soft limit, rounded down to whole microseconds; the hard limit stays.
///
/// # Errors
/// EINVAL above the hard limit; EPERM where a sandbox forbids the call.
pub(crate) fn set_realtime_limit(limit: Span) -> io::Result<()> {
    // Converted through 128 bits, because the width of the fields depends on the platform. A value that does not fit stays below "no
    // limit".
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_leaves_room_below_the_hard_one() {
        for (soft, hard, wanted) in [
            (Some(200_000), Some(200_000), Some(100_000)),
            (Some(60_000_000), Some(60_000_000), Some(59_000_000)),
            (Some(30_000_000), Some(31_000_000), Some(30_000_000)),
            (Some(195_000), Some(200_000), Some(100_000)),
            (Some(1), Some(200_000), Some(1)),
            (None, Some(3_000_000), Some(2_000_000)),
            (Some(5), None, Some(5)),
            (None, None, None),
            (Some(0), Some(0), Some(0)),
        ] {
            assert_eq!(with_room(soft, hard), wanted, "{soft:?} {hard:?}");
        }
    }
}
