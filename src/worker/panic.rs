//! What a panicking task said, carried from the hot thread to the cool ones without a word on stderr.
//!
//! The standard panic message is written to stderr by the thread that panics. A worker must not: a reader of stderr
//! that has stopped would stop the worker, and with it every other task. A panic allocates all the same; it happens
//! once to a task, which is disabled by it.

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
    /// Its message and place in the source.
    pub text: String,
}

struct Desk {
    panics: Sender<Panic>,
    text: String,
}

thread_local! {
    static DESK: RefCell<Option<Desk>> = const { RefCell::new(None) };
}

/// From now on a panic on this thread is not printed, but goes to the receiver that is returned, which has room for this
/// many at a time.
pub(crate) fn keep_quiet(room: usize) -> Receiver<Panic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = DESK.with_borrow_mut(|desk| {
                desk.as_mut().map(|desk| desk.text = info.to_string().replace('\n', " ")).is_some()
            });
            if !kept {
                before(info);
            }
        }));
    });
    let (panics, receiver) = bounded(room);
    DESK.set(Some(Desk { panics, text: String::new() }));
    receiver
}

/// Hands on what the panic just caught had to say.
pub(super) fn pass_on(task: u32, n: u64, payload: Box<dyn Any + Send>) {
    // A payload whose destructor panics would take the worker with it; its few bytes are let go.
    std::mem::forget(payload);
    DESK.with_borrow_mut(|desk| {
        if let Some(Desk { panics, text }) = desk {
            // Where so many panic at once that there is no room, their records still tell that they did.
            let _ = panics.try_send(Panic { task, n, text: std::mem::take(text) });
        }
    });
}
