//! The text of a task's panic, carried from the hot thread to the cool ones.
//!
//! By default a panicking thread writes its message to stderr. A worker must not, because a stalled reader of stderr would stall the
//! worker. Each panic still allocates.

use crate::sys::thread::helper;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::any::Any;
use std::cell::RefCell;

/// A task's panic.
#[derive(Debug)]
pub(crate) struct Panic {
    /// Number of the task.
    pub task: u32,
    /// Index of the tick.
    pub n: u64,
    /// The panic message and its location in the source.
    pub text: String,
    /// The panic disabled the task.
    pub ended: bool,
}

thread_local! {
    static OUTBOX: RefCell<Option<Sender<Panic>>> = const { RefCell::new(None) };
}

/// Redirects panics of the calling thread from stderr to the returned receiver, which has room for `room` panics.
pub(crate) fn capture(room: usize) -> Receiver<Panic> {
    helper::capture();
    let (panics, receiver) = bounded(room);
    OUTBOX.set(Some(panics));
    receiver
}

/// Passes on the panic that was just caught. `ended`: it disabled its task.
pub(super) fn pass_on(task: u32, n: u64, payload: Box<dyn Any + Send>, ended: bool) {
    let text = helper::latest_panic(payload);
    OUTBOX.with_borrow(|outbox| {
        if let Some(panics) = outbox {
            // Without room the text is lost; the tick's record still counts the panic.
            let _ = panics.try_send(Panic { task, n, text, ended });
        }
    });
}
