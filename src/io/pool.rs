//! Threads for work that may hang: what waits behind a job that does not return is taken by another thread, of which there always is one more
//! than there are jobs that hang.
//!
//! They inherit the priority of the thread that makes them. Its own calls do not block, but for the spawning of a further thread once all
//! of them hang.

use crate::sys::thread::helper;
use crate::time::Span;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tracing::warn;

/// A stack that suffices for a system call and a text: it counts as locked memory.
const STACK: usize = 128 << 10;

/// What one of them does with its jobs.
type Work<J, D> = Box<dyn FnMut(J) -> D + Send>;

/// The threads, as the one that made them sees them.
pub(crate) struct SpareThreads<J, D> {
    name: &'static str,
    lacking: [&'static str; 2], // what is said where there can be no further one, before the reason and after it
    work: Box<dyn Fn() -> Work<J, D> + Send>,
    jobs: Sender<J>,
    waiting: Receiver<J>, // what the threads take from
    done: Receiver<D>,
    reply: Sender<D>,
    idle: Arc<AtomicUsize>,
    refused: bool,
}

impl<J: Send + 'static, D: Send + 'static> SpareThreads<J, D> {
    /// Makes the `first` of them, each of which does its own `work`. What the system refuses now is asked for again later.
    pub(crate) fn spawn(
        name: &'static str,
        first: usize,
        lacking: [&'static str; 2],
        work: impl Fn() -> Work<J, D> + Send + 'static,
    ) -> Self {
        let ((jobs, waiting), (reply, done)) = (unbounded(), unbounded());
        let work = Box::new(work);
        let mut threads =
            Self { name, lacking, work, jobs, waiting, done, reply, idle: Arc::default(), refused: false };
        (0..first).for_each(|_| threads.make());
        threads
    }

    fn add(&self) -> io::Result<()> {
        let (jobs, reply, idle) = (self.waiting.clone(), self.reply.clone(), self.idle.clone());
        let mut work = (self.work)();
        idle.fetch_add(1, Ordering::SeqCst);
        let counted = idle.clone();
        let body = move || {
            for job in jobs {
                idle.fetch_sub(1, Ordering::SeqCst);
                let done = work(job);
                idle.fetch_add(1, Ordering::SeqCst);
                if reply.send(done).is_err() {
                    return;
                }
            }
        };
        let spawned = helper::spawn_with_stack(self.name, STACK, body).map(drop);
        spawned.inspect_err(|_| _ = counted.fetch_sub(1, Ordering::SeqCst))
    }

    /// Has a job done.
    pub(crate) fn give(&self, job: J) {
        // There is always a receiver: its own.
        let _ = self.jobs.send(job);
    }

    /// Waits for so long, or until a job is done: what came of those that are.
    pub(crate) fn wait(&self, most: Span) -> Vec<D> {
        let first = self.done.recv_timeout(Duration::from_nanos(most.nanos().unsigned_abs()));
        first.into_iter().chain(self.done.try_iter()).collect()
    }

    /// Makes a further thread if none is left that could take a job.
    pub(crate) fn keep_up(&mut self) {
        if self.idle.load(Ordering::SeqCst) == 0 {
            self.make();
        }
    }

    fn make(&mut self) {
        if let Err(reason) = self.add()
            && !std::mem::replace(&mut self.refused, true)
        {
            let [what, effect] = self.lacking;
            warn!("{what} ({reason}): {effect}");
        }
    }
}
