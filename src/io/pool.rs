//! Threads for work that may hang. Work is done by one that is free, or by one that is made for it, so what hangs holds up nothing else; a thread
//! that finds enough others free at its end is over.
//!
//! A daemon has two such pools, since their threads inherit priority and CPUs from whoever has one made. One is for all usual work (`hertzd-io`). The
//! other one is kept for safe values (`hertzd-safe`, in `daemon/outputs/safe_writers.rs`): its threads run above every worker and on any CPU, are
//! there beforehand, and share no lock with one that a worker may keep from its CPU.
//!
//! Its own calls do not block, but for the making of a thread.

use crate::sys::thread::{helper, with_signals_blocked};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

/// The stack of a usual one: what opens a device may be a library.
const STACK: usize = 2 << 20;

/// So many usual ones may wait for work: the keeper's and what that has done run at once, and are not to make and end threads all the time.
const SPARE: isize = 4;

/// How long a usual one waits for work until it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Work, and what its thread keeps from one to the next.
pub(crate) type Job<S = ()> = Box<dyn FnOnce(&mut S) + Send>;

/// The threads, as those see them who have work done.
#[derive(Debug)]
pub(crate) struct Pool<S = ()> {
    name: &'static str,
    stack: usize,
    spare: isize,   // so many may wait for work
    idle: Duration, // for that long
    jobs: Sender<Job<S>>,
    waiting: Receiver<Job<S>>, // what the threads take from
    free: Arc<AtomicIsize>,    // threads that wait for work, less work that waits for a thread
}

impl Default for Pool {
    /// That for usual work, with no thread yet.
    fn default() -> Self {
        Self::of("hertzd-io", STACK, SPARE, IDLE)
    }
}

impl<S: Default + 'static> Pool<S> {
    /// One of which `spare` threads stay, once they were [made](Self::make).
    pub(crate) fn reserved(name: &'static str, stack: usize, spare: isize) -> Self {
        Self::of(name, stack, spare, Duration::MAX)
    }

    fn of(name: &'static str, stack: usize, spare: isize, idle: Duration) -> Self {
        let (jobs, waiting) = unbounded();
        Self { name, stack, spare, idle, jobs, waiting, free: Arc::default() }
    }

    /// Has work done, by a thread that is free or one that is made for it.
    ///
    /// # Errors
    /// The system's reason why there is no thread, and the work.
    pub(crate) fn give(&self, job: Job<S>) -> Result<(), (io::Error, Job<S>)> {
        if self.free.fetch_sub(1, Ordering::SeqCst) <= 0
            && let Err(reason) = self.make()
        {
            self.free.fetch_add(1, Ordering::SeqCst);
            return Err((reason, job));
        }
        let _ = self.jobs.send(job); // there is always a receiver: its own
        Ok(())
    }

    /// Has work done as soon as a thread is free; makes none.
    pub(crate) fn queue(&self, job: Job<S>) {
        self.free.fetch_sub(1, Ordering::SeqCst);
        let _ = self.jobs.send(job);
    }

    /// Makes a further thread if none is free.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub(crate) fn keep_up(&self) -> io::Result<()> {
        if self.free.load(Ordering::SeqCst) <= 0 { self.make() } else { Ok(()) }
    }

    /// Makes a thread.
    ///
    /// # Errors
    /// The system's reason why there is none.
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
                    // Unless work was given to it meanwhile.
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

    /// Work that says that it has begun, and lasts until the other end of the second channel is dropped.
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
