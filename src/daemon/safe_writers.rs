//! The threads that write safe values. A write blocks for as long as its device takes, and holds up no other. They inherit the priority of
//! the guard thread, which makes them, and follow where that rises.

use super::guard_grant::GuardGrant;
use super::spare_threads::SpareThreads;
use crate::kinds::output::Guard;
use crate::sys::clock::pause;
use crate::time::Span;
use std::io;
use std::sync::Arc;

/// So many to begin with: one may hang before a further one has to be made.
const AT_FIRST: usize = 2;

/// How long a write waits for one of the task's own that is under way, to come after it.
const OWN_WRITE: Span = Span::from_millis(5);

const LACKING: [&str; 2] = [
    "no further thread can write safe values",
    "while devices hold up those that there are, no other output is made safe",
];

/// A write that has returned.
pub(super) struct Wrote {
    pub(super) guard: Arc<Guard>,
    pub(super) result: io::Result<()>,
    /// A write of the task's own was under way, and may come after it.
    pub(super) overlapped: bool,
}

/// Makes the threads.
pub(super) fn safe_writers(grant: Arc<GuardGrant>) -> SpareThreads<Arc<Guard>, Wrote> {
    SpareThreads::spawn("hertzd-safe", AT_FIRST, LACKING, move || {
        let (grant, mut asked) = (grant.clone(), 0);
        Box::new(move |guard: Arc<Guard>| {
            guard.block();
            // What is refused is refused to the guard thread too, which says so.
            let _ = grant.promote(&mut asked);
            if guard.is_writing() {
                pause(OWN_WRITE);
            }
            let overlapped = guard.is_writing();
            let result = guard.write_safe();
            Wrote { guard, result, overlapped }
        })
    })
}
