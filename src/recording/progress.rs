//! Whether the disks take what is recorded, however slowly. Never blocks, and reads no clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// System calls on recordings of this process that have returned.
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// A count that grows for as long as the disks make progress.
pub(crate) fn progress() -> u64 {
    RETURNED.load(Ordering::Relaxed)
}

/// Counts the call that had this result.
pub(super) fn returned<T>(result: T) -> T {
    RETURNED.fetch_add(1, Ordering::Relaxed);
    result
}
