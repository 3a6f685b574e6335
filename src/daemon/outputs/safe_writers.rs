//! The threads that write safe values. A write blocks for as long as its device takes, without delaying any other write. The guard thread
//! makes these threads. They inherit its priority, and follow when it rises.

use super::guard_grant::GuardGrant;
use crate::io::Pool;
use crate::safety::{Guard, MadeSafe};
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// Threads kept: one may hang before another has to be made.
const SPARE: isize = 2;

/// Enough stack for a system call and a message. It counts as locked memory.
const STACK: usize = 128 << 10;

/// A write that has returned.
pub(crate) struct Wrote {
    pub(crate) guard: Arc<Guard>,
    pub(crate) safe: MadeSafe,
}

/// The threads, as the guard thread sees them. Each remembers the priority it last asked for.
pub(crate) struct SafeWriters {
    pool: Pool<u8>,
    grant: Arc<GuardGrant>,
    wrote: Sender<Wrote>,
    returned: Receiver<Wrote>,
    refused: bool, // a further thread; this was logged
}

impl SafeWriters {
    /// Makes the threads. If the system refuses one now, it is asked again later.
    pub(crate) fn new(grant: Arc<GuardGrant>) -> Self {
        let (wrote, returned) = unbounded();
        let pool = Pool::reserved("hertzd-safe", STACK, SPARE);
        let mut writers = Self { pool, grant, wrote, returned, refused: false };
        (0..SPARE).for_each(|_| writers.made(writers.pool.make()));
        writers
    }

    /// Gets the safe value of an output written.
    pub(crate) fn give(&self, guard: Arc<Guard>) {
        let (grant, wrote) = (self.grant.clone(), self.wrote.clone());
        self.pool.queue(Box::new(move |asked| {
            // If refused, the guard thread was refused too and logs it.
            let _ = grant.promote(asked);
            let safe = guard.make_safe();
            let _ = wrote.send(Wrote { guard, safe });
        }));
    }

    /// Waits up to `most` for a write to return. Returns all that have.
    pub(crate) fn wait(&self, most: Span) -> Vec<Wrote> {
        let first = self.returned.recv_timeout(Duration::from_nanos(most.nanos().unsigned_abs()));
        first.into_iter().chain(self.returned.try_iter()).collect()
    }

    /// Makes another thread if none is free to write.
    pub(crate) fn keep_up(&mut self) {
        self.made(self.pool.keep_up());
    }

    fn made(&mut self, made: std::io::Result<()>) {
        if let Err(reason) = made
            && !std::mem::replace(&mut self.refused, true)
        {
            warn!(
                "no further thread can write safe values ({reason}): while devices block the existing ones, no other output is made safe"
            );
        }
    }
}
