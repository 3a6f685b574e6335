//! The text of a task's panic, carried from the hot thread to the cool ones.
//!
//! By default a panicking thread writes its message to stderr. A worker must not: a reader of stderr that stalls would
//! stall the worker. A panic allocates all the same, each time.

use crossbeam_channel::{Receiver, Sender, bounded};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

/// A task's panic.
#[derive(Debug)]
pub(crate) struct Panic {
    /// Number of the task.
    pub task: u32,
    /// Index of the tick.
    pub n: u64,
    /// Its message and where in the source it happened.
    pub text: String,
    /// The task has been disabled by it.
    pub ended: bool,
}

struct Outbox {
    panics: Sender<Panic>,
    text: String,
}

thread_local! {
    static OUTBOX: RefCell<Option<Outbox>> = const { RefCell::new(None) };
}

/// From now on panics on this thread go to the returned receiver, which has room for this many, and not to stderr.
pub(crate) fn capture(room: usize) -> Receiver<Panic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = OUTBOX.with_borrow_mut(|outbox| {
                outbox.as_mut().map(|outbox| outbox.text = info.to_string().replace('\n', " ")).is_some()
            });
            if !kept {
                before(info);
            }
        }));
    });
    let (panics, receiver) = bounded(room);
    OUTBOX.set(Some(Outbox { panics, text: String::new() }));
    receiver
}

/// Hands over the panic that was just caught; `ended`: its task has been disabled by it.
pub(super) fn pass_on(task: u32, n: u64, payload: Box<dyn Any + Send>, ended: bool) {
    // Any other payload may have a destructor that panics or blocks, so it is leaked.
    if !payload.is::<String>() && !payload.is::<&'static str>() {
        std::mem::forget(payload);
    }
    OUTBOX.with_borrow_mut(|outbox| {
        if let Some(Outbox { panics, text }) = outbox {
            // Without room the text is lost; the tick's record still counts the panic.
            let _ = panics.try_send(Panic { task, n, text: std::mem::take(text), ended });
        }
    });
}
