//! Threads for work that may hang. An idle thread takes the work, or a new one is made for it, so work that hangs delays nothing else. A
//! thread ends after its work if enough others are idle.
//!
//! A daemon has two such pools, because a thread inherits the priority and CPUs of its creator. One is for all ordinary work (`hertzd-io`).
//! The other is reserved for safe values (`hertzd-safe`, in `daemon/outputs/safe_writers.rs`). Its threads run above every worker and on
//! any CPU, exist in advance, and share no lock with a thread that a worker may keep from its CPU.
//!
//! The pool's own calls do not block, except while they make a thread.

use crate::sys::thread::{helper, with_signals_blocked};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

/// Stack size of an ordinary thread, in bytes: devices may be opened by a library.
const STACK: usize = 2 << 20;

/// How many ordinary threads may stay idle: the keeper's work and the work that it causes run at once, and should not create and end
/// threads all the time.
const SPARE: isize = 4;

/// How long an ordinary thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// A job, and the state that its thread keeps from one job to the next.
pub(crate) type Job<S = ()> = Box<dyn FnOnce(&mut S) + Send>;

/// A pool, as seen by code that gives it work.
#[derive(Debug)]
pub(crate) struct Pool<S = ()> {
    name: &'static str,
    stack: usize,
    spare: isize,   // how many threads may wait for work
    idle: Duration, // for how long
    jobs: Sender<Job<S>>,
    waiting: Receiver<Job<S>>, // the threads take their work from here
    free: Arc<AtomicIsize>,    // threads that wait for work, minus work that waits for a thread
}

impl Default for Pool {
    /// The pool for ordinary work, with no thread yet.
    fn default() -> Self {
        Self::of("hertzd-io", STACK, SPARE, IDLE)
    }
}

impl<S: Default + 'static> Pool<S> {
    /// A pool of which `spare` threads stay once they have been [made](Self::make).
    pub(crate) fn reserved(name: &'static str, stack: usize, spare: isize) -> Self {
        Self::of(name, stack, spare, Duration::MAX)
    }

    fn of(name: &'static str, stack: usize, spare: isize, idle: Duration) -> Self {
        let (jobs, waiting) = unbounded();
        Self { name, stack, spare, idle, jobs, waiting, free: Arc::default() }
    }

    /// Runs a job on an idle thread, or on a new one if none is idle.
    ///
    /// # Errors
    /// The system's reason why no thread could be made, and the job.
    pub(crate) fn give(&self, job: Job<S>) -> Result<(), (io::Error, Job<S>)> {
        if self.free.fetch_sub(1, Ordering::SeqCst) <= 0
            && let Err(reason) = self.make()
        {
            self.free.fetch_add(1, Ordering::SeqCst);
            return Err((reason, job));
        }
        let _ = self.jobs.send(job); // a receiver always exists: the pool's own
        Ok(())
    }

    /// Queues a job for the next idle thread; makes no thread.
    pub(crate) fn queue(&self, job: Job<S>) {
        self.free.fetch_sub(1, Ordering::SeqCst);
        let _ = self.jobs.send(job);
    }

    /// Makes another thread if none is idle.
    ///
    /// # Errors
    /// The errors of [`make`](Self::make).
    pub(crate) fn keep_up(&self) -> io::Result<()> {
        if self.free.load(Ordering::SeqCst) <= 0 { self.make() } else { Ok(()) }
    }

    /// Makes a thread.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn make(&self) -> io::Result<()> {
        let (waiting, free, spare, idle) = (self.waiting.clone(), self.free.clone(), self.spare, self.idle);
        self.free.fetch_add(1, Ordering::SeqCst);
        let body = move || {
            let (mut state, enough) = (S::default(), |free| (free < spare).then_some(free + 1));
            loop {
                match waiting.recv_timeout(idle) {
                    Ok(job) => {
                        job(&mut state);
                        if free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enough).is_err() {
                            return;
                        }
                    }
                    // Unless a job was given to this thread in the meantime.
                    Err(RecvTimeoutError::Timeout) => {
                        let one_less = |free| (free > 0).then_some(free - 1);
                        if free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let spawned = with_signals_blocked(|| helper::spawn_with_stack(self.name, self.stack, body));
        spawned.and_then(|spawned| spawned).map(drop).inspect_err(|_| _ = self.free.fetch_sub(1, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use std::collections::HashSet;

    const LONG: Duration = Duration::from_secs(60);

    /// A job that reports its start and lasts until the other end of the second channel is dropped.
    fn hangs(begun: &Sender<()>, until: &Receiver<()>) -> Job {
        let (begun, until) = (begun.clone(), until.clone());
        Box::new(move |()| {
            begun.send(()).unwrap();
            let _ = until.recv();
        })
    }

    #[test]
    fn work_that_hangs_holds_up_no_other() {
        let (pool, (begun, begins), (release, until)) = (Pool::default(), unbounded(), bounded(0));
        for _ in 0..5 {
            pool.give(hangs(&begun, &until)).map_err(|(reason, _)| reason).unwrap();
        }
        (0..5).for_each(|_| begins.recv_timeout(LONG).unwrap());
        assert_eq!(pool.free.load(Ordering::SeqCst), 0);
        drop(release);
        let (done, ended) = unbounded();
        while pool.free.load(Ordering::SeqCst) != SPARE {
            std::thread::yield_now();
        }
        pool.give(Box::new(move |()| done.send(7).unwrap())).map_err(|(reason, _)| reason).unwrap();
        assert_eq!(ended.recv_timeout(LONG), Ok(7));
    }

    #[test]
    fn usual_work_makes_and_ends_no_threads() {
        let (pool, (threads, used), mut all) = (Pool::default(), unbounded(), HashSet::new());
        for _ in 0..10 {
            let (release, until) = bounded::<()>(0);
            for _ in 0..2 {
                let (threads, until) = (threads.clone(), until.clone());
                let work = move |(): &mut ()| {
                    threads.send(std::thread::current().id()).unwrap();
                    let _ = until.recv();
                };
                pool.give(Box::new(work)).map_err(|(reason, _)| reason).unwrap();
            }
            all.extend((0..2).map(|_| used.recv_timeout(LONG).unwrap()));
            drop(release);
            while pool.free.load(Ordering::SeqCst) != 2 {
                std::thread::yield_now();
            }
        }
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn what_waits_has_a_thread_when_one_is_made_and_those_that_stay_keep_their_state() {
        let pool = Pool::<u32>::reserved("hertzd-test", STACK, 2);
        let (done, ended) = unbounded();
        for _ in 0..4 {
            let done = done.clone();
            pool.queue(Box::new(move |before| {
                *before += 1;
                done.send(*before).unwrap();
            }));
        }
        assert!(ended.try_recv().is_err(), "there is no thread");
        pool.keep_up().unwrap();
        let ended: Vec<_> = (0..4).map(|_| ended.recv_timeout(LONG).unwrap()).collect();
        assert_eq!(ended, [1, 2, 3, 4]);
    }
}
