//! How many descriptors this process may have open: RLIMIT_NOFILE.

use super::from_minus_one;
use std::{fs, io, mem};

/// Raises the soft limit to the hard one. The usual 1,024 only serves programs that use `select`.
///
/// # Errors
/// EPERM where a sandbox forbids the call.
pub(crate) fn raise_limit() -> io::Result<()> {
    let limit = read()?;
    let limit = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: `limit` outlives the call.
    from_minus_one(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// The soft limit; `None`: it cannot be read.
#[expect(clippy::unnecessary_cast, reason = "not on every architecture")]
pub(crate) fn limit() -> Option<u64> {
    read().ok().map(|limit| limit.rlim_cur as u64)
}

/// How many more descriptors may be opened; `None`: unknown.
pub(crate) fn left() -> Option<u64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    limit()?.checked_sub(u64::try_from(open).ok()?)
}

fn read() -> io::Result<libc::rlimit> {
    // SAFETY: rlimit is made of integers, for which all-zero bytes are valid.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: `limit` is owned and of the type the kernel fills.
    from_minus_one(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}
