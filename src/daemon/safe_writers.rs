//! The threads that write safe values. A write blocks for as long as its device takes; what waits behind one that does not return is taken by
//! another thread, of which there always is one more than there are writes that hang.
//!
//! They are spawned by the guard thread, inherit its priority, and follow where that rises. Its own calls do not block, but for the spawning of a further thread once
//! all of them hang.

use super::guard_grant::GuardGrant;
use crate::kinds::output::Guard;
use crate::sys::clock::pause;
use crate::sys::thread::helper;
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tracing::warn;

/// So many to begin with: one may hang before a further one has to be made.
const AT_FIRST: usize = 2;

/// A stack that suffices for a system call and a text: it counts as locked memory.
const STACK: usize = 128 << 10;

/// How long a write waits for one of the task's own that is under way, to come after it.
const OWN_WRITE: Span = Span::from_millis(5);

/// A write that has returned.
pub(super) struct Wrote {
    pub(super) guard: Arc<Guard>,
    pub(super) result: io::Result<()>,
    /// A write of the task's own was under way, and may come after it.
    pub(super) overlapped: bool,
}

/// The threads, as the guard thread sees them.
pub(super) struct SafeWriters {
    jobs: Sender<Arc<Guard>>,
    waiting: Receiver<Arc<Guard>>, // what the threads take from
    wrote: Receiver<Wrote>,
    reply: Sender<Wrote>,
    idle: Arc<AtomicUsize>,
    refused: bool,
    grant: Arc<GuardGrant>,
}

impl SafeWriters {
    /// Makes the first of them. What the system refuses now is asked for again later.
    pub(super) fn spawn(grant: Arc<GuardGrant>) -> Self {
        let ((jobs, waiting), (reply, wrote)) = (unbounded(), unbounded());
        let mut writers = Self { jobs, waiting, wrote, reply, idle: Arc::default(), refused: false, grant };
        (0..AT_FIRST).for_each(|_| writers.make());
        writers
    }

    fn add(&self) -> io::Result<()> {
        let (jobs, reply, idle, grant) =
            (self.waiting.clone(), self.reply.clone(), self.idle.clone(), self.grant.clone());
        idle.fetch_add(1, Ordering::SeqCst);
        let counted = idle.clone();
        let body = move || {
            let mut asked = 0;
            for guard in jobs {
                idle.fetch_sub(1, Ordering::SeqCst);
                guard.block();
                // What is refused is refused to the guard thread too, which says so.
                let _ = grant.promote(&mut asked);
                if guard.is_writing() {
                    pause(OWN_WRITE);
                }
                let overlapped = guard.is_writing();
                let result = guard.write_safe();
                idle.fetch_add(1, Ordering::SeqCst);
                if reply.send(Wrote { guard, result, overlapped }).is_err() {
                    return;
                }
            }
        };
        let spawned = helper::spawn_with_stack("hertzd-safe", STACK, body).map(drop);
        spawned.inspect_err(|_| _ = counted.fetch_sub(1, Ordering::SeqCst))
    }

    /// Has the safe value of an output written.
    pub(super) fn write(&self, guard: Arc<Guard>) {
        // There is always a receiver: its own.
        let _ = self.jobs.send(guard);
    }

    /// Waits for so long, or until a write has returned: those that have.
    pub(super) fn wait(&self, most: Span) -> Vec<Wrote> {
        let first = self.wrote.recv_timeout(Duration::from_nanos(most.nanos().unsigned_abs()));
        first.into_iter().chain(self.wrote.try_iter()).collect()
    }

    /// Makes a further thread if none is left that could take a write.
    pub(super) fn keep_up(&mut self) {
        if self.idle.load(Ordering::SeqCst) == 0 {
            self.make();
        }
    }

    fn make(&mut self) {
        if let Err(reason) = self.add()
            && !std::mem::replace(&mut self.refused, true)
        {
            warn!(
                "no further thread can write safe values ({reason}): while devices hold up those that there are, no other output is made safe"
            );
        }
    }
}
