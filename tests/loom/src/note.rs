//! Data that one thread leaves for another: memory that only one thread at a time may touch.

use loom::cell::UnsafeCell;

/// A number. loom detects when two threads touch it at once.
#[derive(Default)]
pub struct Note(UnsafeCell<u32>);

// SAFETY: loom finds where two threads touch it at once.
unsafe impl Sync for Note {}
// SAFETY: a number.
unsafe impl Send for Note {}

impl Note {
    pub fn write(&self, number: u32) {
        // SAFETY: that no one else touches it is what the models try.
        self.0.with_mut(|note| unsafe { *note = number });
    }

    pub fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|note| unsafe { *note })
    }
}
