//! Whether the disks take what is recorded, however slowly, and what the recorder is writing. Never blocks, and reads no clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// The recording that is being written: its tasks and its path, for people.
static WRITING: Mutex<Option<String>> = Mutex::new(None);

/// The recording that is being written; `None`: none.
pub(crate) fn writing() -> Option<String> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// From now on this one is written.
pub(super) fn writes(recording: Option<String>) {
    *WRITING.lock().unwrap_or_else(PoisonError::into_inner) = recording;
}
