//! Named threads whose death by a panic is reported with its text: workers, and the helpers beside them.
//!
//! Reads no clock. Spawning may block and allocate; a panic allocates.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread::{Builder, JoinHandle};

/// A thread that ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    /// The thread's name.
    pub(crate) thread: String,
    /// The panic's message and source location, on one line.
    pub(crate) text: String,
}

/// Both ends of a channel for the deaths of threads that belong together.
type Deaths = (Sender<Death>, Receiver<Death>);

thread_local! {
    /// Where the deaths of threads spawned by this thread are sent. A thread inherits the channel of its spawner. So even threads spawned
    /// by a task, which does not know its daemon, report to that daemon.
    static DEATHS: RefCell<Option<Deaths>> = const { RefCell::new(None) };
}

/// Spawns a thread. If `body` panics, the thread's [`Death`] is sent to the [`deaths`] of the calling thread.
///
/// # Errors
/// The system's reason.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn_by(Builder::new(), name, body)
}

/// Like [`spawn`], with a stack of this many bytes. The full size of a stack counts as locked memory.
///
/// # Errors
/// The errors of [`spawn`].
pub(crate) fn spawn_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    spawn_by(Builder::new().stack_size(stack), name, body)
}

fn spawn_by(builder: Builder, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let (deaths, thread) = (of_this_thread(), name.to_owned());
    let body = move || {
        capture();
        DEATHS.set(Some(deaths.clone()));
        if let Err(text) = caught(body) {
            // Cannot fail: this thread holds a receiver too.
            let _ = deaths.0.send(Death { thread, text });
        }
    };
    builder.name(name.into()).spawn(body)
}

fn of_this_thread() -> Deaths {
    DEATHS.with_borrow_mut(|deaths| deaths.get_or_insert_with(unbounded).clone())
}

/// Receives the deaths of the threads that the calling thread spawns, and of their descendants.
pub(crate) fn deaths() -> Receiver<Death> {
    of_this_thread().1
}

/// Starts a new group for the threads that the calling thread spawns: a daemon has ended, and another one may begin.
pub(crate) fn leave_deaths() {
    DEATHS.set(None);
}

thread_local! {
    /// The text of the most recent panic; `None`: panics of this thread go to stderr.
    static LATEST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on the panics of the calling thread are kept for [`latest_panic`] and not written to stderr: a stalled reader of stderr would
/// stall the thread.
pub(crate) fn capture() {
    set_hook();
    LATEST.set(Some(String::new()));
}

/// Sets the hook that captures panics. Rust has one hook per process; [`LATEST`] tells whether a thread's panics are captured.
fn set_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = LATEST.with_borrow_mut(|latest| {
                latest.as_mut().map(|latest| *latest = info.to_string().replace('\n', " ")).is_some()
            });
            if !kept {
                before(info);
            }
        }));
    });
}

/// The text of the calling thread's most recent panic; returned once.
pub(crate) fn latest_panic(payload: Box<dyn Any + Send>) -> String {
    // Any other payload may have a destructor that panics or blocks, so it is leaked.
    if !payload.is::<String>() && !payload.is::<&'static str>() {
        std::mem::forget(payload);
    }
    LATEST.with_borrow_mut(|latest| latest.as_mut().map(std::mem::take)).unwrap_or_default()
}

/// Runs `work`. If it panics, returns the text, "panicked at FILE:LINE:COLUMN: MESSAGE". Needs [`capture`].
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(latest_panic)
}

/// The same on any thread, even while that thread is panicking: the text of the first panic stays the most recent one.
pub(crate) fn caught_aside<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    if !std::thread::panicking() {
        set_hook(); // a panicking thread must not set it
    }
    let before = LATEST.replace(Some(String::new()));
    let done = caught(work);
    LATEST.set(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_reported_with_its_thread_and_text() {
        spawn("hertzd-mortal", || panic!("the panic\nthat was asked for")).unwrap().join().unwrap();
        let death = deaths().try_recv().unwrap();
        assert_eq!(death.thread, "hertzd-mortal");
        assert!(death.text.starts_with("panicked at src/sys/thread/helper.rs:"), "{death:?}");
        assert!(death.text.ends_with(": the panic that was asked for"), "{death:?}");
    }

    #[test]
    fn deaths_are_those_of_threads_that_one_has_spawned_or_that_these_have() {
        let one = || {
            let spawn_another = || spawn("hertzd-second", || panic!("asked for")).unwrap().join().unwrap();
            spawn("hertzd-first", spawn_another).unwrap().join().unwrap();
            let first = deaths();
            leave_deaths();
            spawn("hertzd-next", || panic!("asked for")).unwrap().join().unwrap();
            [first, deaths()].map(|deaths| deaths.try_iter().map(|death| death.thread).collect::<Vec<_>>())
        };
        let [first, next] = std::thread::spawn(one).join().unwrap();
        assert_eq!((first, next), (vec!["hertzd-second".to_owned()], vec!["hertzd-next".to_owned()]));
        assert_eq!(deaths().try_iter().count(), 0, "this thread has spawned none of them");
    }

    /// Panics when it is dropped.
    struct Second;

    impl Drop for Second {
        fn drop(&mut self) {
            let text = caught_aside(|| panic!("the second panic that was asked for")).unwrap_err();
            assert!(text.ends_with(": the second panic that was asked for"), "{text}");
        }
    }

    #[test]
    fn a_second_panic_does_not_replace_the_first_ones_text() {
        let first = || {
            capture();
            let text = caught(|| {
                let _second = Second;
                panic!("the first panic that was asked for");
            });
            assert!(text.unwrap_err().ends_with(": the first panic that was asked for"));
        };
        std::thread::spawn(first).join().unwrap();
        // On a thread whose panics go to stderr too.
        std::thread::spawn(|| drop(Second)).join().unwrap();
    }
}
