//! Tests that monopolise a processor, a disk or all connections: the tests of one file run side by side, but no two files run at once.

#[path = "../support/program/mod.rs"]
mod program;

use std::sync::{Condvar, Mutex, PoisonError};

mod burst;
mod channel_guard;
mod deadline;
mod floods;
mod responsive;
mod stall;
mod starved;
mod supervision;

/// The file whose tests run now, and how many of them.
static NOW: Mutex<(&str, usize)> = Mutex::new(("", 0));
static ENDED: Condvar = Condvar::new();

/// Held by a test while it runs.
#[must_use = "its file's turn ends when this is dropped"]
struct Turn;

/// Waits for the tests of all files but `file` to end.
fn turn(file: &'static str) -> Turn {
    let now = NOW.lock().unwrap_or_else(PoisonError::into_inner);
    let mut now =
        ENDED.wait_while(now, |(whose, tests)| *whose != file && *tests > 0).unwrap_or_else(PoisonError::into_inner);
    *now = (file, now.1 + 1);
    Turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        NOW.lock().unwrap_or_else(PoisonError::into_inner).1 -= 1;
        ENDED.notify_all();
    }
}
