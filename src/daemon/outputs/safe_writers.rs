//! The threads that write safe values. A write blocks for as long as its device takes, and holds up no other. They inherit the priority of
//! the guard thread, which makes them, and follow where that rises.

use super::guard_grant::GuardGrant;
use crate::io::SpareThreads;
use crate::safety::{Guard, MadeSafe};
use std::sync::Arc;

/// So many to begin with: one may hang before a further one has to be made.
const AT_FIRST: usize = 2;

const LACKING: [&str; 2] = [
    "no further thread can write safe values",
    "while devices hold up those that there are, no other output is made safe",
];

/// A write that has returned.
pub(crate) struct Wrote {
    pub(crate) guard: Arc<Guard>,
    pub(crate) safe: MadeSafe,
}

/// Makes the threads.
pub(crate) fn safe_writers(grant: Arc<GuardGrant>) -> SpareThreads<Arc<Guard>, Wrote> {
    SpareThreads::spawn("hertzd-safe", AT_FIRST, LACKING, move || {
        let (grant, mut asked) = (grant.clone(), 0);
        Box::new(move |guard: Arc<Guard>| {
            // What is refused is refused to the guard thread too, which says so.
            let _ = grant.promote(&mut asked);
            let safe = guard.make_safe();
            Wrote { guard, safe }
        })
    })
}
