//! Reads a target back, and compares what it holds with what was written to it last. May block for as long as the target's driver
//! takes; for cool threads. Reads no clock.

use super::digits::number;
use super::reading::{ReadBack, Reading};
use super::target::Target;
use super::written::LastWritten;
use crate::kinds::device::Refusal;
use crate::time::Span;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The target of an output, as it is read back.
#[derive(Debug)]
pub(super) struct Readback {
    target: Mutex<Target>, // another one when it was opened again
    taken: Option<File>,   // what a line is read by
    written: Arc<LastWritten>,
    every: Span,
}

impl Readback {
    /// Of a target that was taken, and that was given this last.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn of(
        target: &Target,
        taken: &File,
        written: Arc<LastWritten>,
        every: Span,
    ) -> Result<Arc<Self>, Refusal> {
        let refuse = |error: io::Error| cannot(target, &error);
        target.value(Some(taken)).map_err(refuse)?;
        let taken = target.is_read_by_what_was_taken().then(|| taken.try_clone()).transpose().map_err(refuse)?;
        Ok(Arc::new(Self { target: Mutex::new(target.clone()), taken, written, every }))
    }

    /// It was opened again, as this.
    pub(super) fn is_now(&self, target: Target) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// What it is read by, if that was taken.
    pub(super) fn taken(&self) -> Option<&File> {
        self.taken.as_ref()
    }

    fn target(&self) -> Target {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReadBack for Readback {
    fn every(&self) -> Span {
        self.every
    }

    fn shown(&self) -> String {
        self.target().shown()
    }

    fn read(&self) -> Reading {
        let Some(before) = self.written.settled() else { return Reading::Unsettled };
        let target = self.target();
        let read = target.value(self.taken.as_ref());
        // What was read may be either where a write came in between.
        if self.written.settled() != Some(before) {
            return Reading::Unsettled;
        }
        compare(target.as_held(before.0), read)
    }
}

/// What is said where a target cannot be read.
pub(super) fn cannot(target: &Target, error: &io::Error) -> Refusal {
    let shown = target.shown();
    Refusal::new("readback", format!("{shown} cannot be read: {error}; remove the key, or name a target that can"))
}

/// What came of reading this, where that number was written.
pub(super) fn compare(written: f64, read: io::Result<String>) -> Reading {
    match read {
        Err(error) => Reading::Unreadable(error.to_string()),
        Ok(text) if number(&text).is_some_and(|read| (read + 0.0).total_cmp(&(written + 0.0)).is_eq()) => {
            Reading::Agrees(written)
        }
        Ok(text) => {
            let shown: String = text.trim().chars().take(40).collect();
            let is_number = number(&text).is_some();
            Reading::Differs { written, read: if is_number { shown } else { format!("{shown:?}") } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_numbers_are_compared_and_not_their_texts() {
        for (written, read, agrees) in
            [(128.0, "128\n", true), (128.0, "128", true), (128.0, "1.28e2", true), (128.0, "127\n", false)]
        {
            let reading = compare(written, Ok(read.into()));
            assert_eq!(reading == Reading::Agrees(written), agrees, "{reading:?}");
        }
        let differs = |read: &str| Reading::Differs { written: 1.0, read: read.into() };
        assert_eq!(compare(1.0, Ok("40\n".into())), differs("40"));
        assert_eq!(compare(1.0, Ok("\n".into())), differs("\"\""));
        assert_eq!(compare(1.0, Ok("auto\n".into())), differs("\"auto\""));
        let gone = io::Error::from_raw_os_error(libc::ENODEV);
        assert_eq!(compare(1.0, Err(gone)), Reading::Unreadable("No such device (os error 19)".into()));
    }
}
