//! Whether the disks still accept what a daemon records, however slowly, and what its recorder is writing. Never blocks, and reads no
//! clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the recorder's thread shows to main.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    steps: AtomicU64,
    writing: Mutex<Option<String>>,
}

impl Progress {
    /// A count that grows as long as the recorder and its disks make progress.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Counts a finished round of the recorder, or a finished system call on a recording.
    pub(crate) fn goes_on(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call, and passes on its result.
    pub(super) fn returned<T>(&self, result: T) -> T {
        self.goes_on();
        result
    }

    /// The recording being written, for people: its tasks and its path; `None` if none is.
    pub(crate) fn writing(&self) -> Option<String> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the recording that is being written from now on.
    pub(super) fn writes(&self, recording: Option<String>) {
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = recording;
    }
}
