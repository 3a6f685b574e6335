//! Work that is done in order, one job after the other. If a job hangs, another thread does the jobs behind it.
//!
//! Nothing here waits except the jobs themselves; no clock is read.

use super::pool::Pool;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Work = Box<dyn FnOnce() + Send>;

/// Jobs to be done by threads of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    give: Sender<Work>,
    waiting: Receiver<Work>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    at_work: AtomicUsize, // threads
    done: AtomicUsize,
    seen: AtomicUsize, // the value of `done` at the last check
}

impl Default for Queue {
    fn default() -> Self {
        let (give, waiting) = unbounded();
        Self { give, waiting, counts: Arc::default() }
    }
}

impl Queue {
    pub(crate) fn add(&self, work: impl FnOnce() + Send + 'static) {
        let _ = self.give.send(Box::new(work)); // a receiver always exists: the queue's own
    }

    /// Drops the waiting jobs.
    pub(crate) fn clear(&self) {
        self.waiting.try_iter().for_each(drop);
    }

    /// Does the waiting jobs.
    pub(crate) fn work(&self) {
        while let Ok(work) = self.waiting.try_recv() {
            work();
            self.counts.done.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Lets a pool thread do the waiting jobs if none is at work, and one more if no job has ended since the last call.
    ///
    /// # Errors
    /// The system's reason why no thread could be started.
    pub(crate) fn work_on(&self, pool: &Pool) -> io::Result<()> {
        let Counts { at_work, done, seen } = &*self.counts;
        let done = done.load(Ordering::SeqCst);
        let moves = seen.swap(done, Ordering::SeqCst) != done;
        if self.waiting.is_empty() || moves && at_work.load(Ordering::SeqCst) > 0 {
            return Ok(());
        }
        at_work.fetch_add(1, Ordering::SeqCst);
        let queue = self.clone();
        let given = pool.give(Box::new(move |()| {
            queue.work();
            queue.counts.at_work.fetch_sub(1, Ordering::SeqCst);
        }));
        given.map_err(|(reason, _)| {
            at_work.fetch_sub(1, Ordering::SeqCst);
            reason
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use std::time::Duration;

    #[test]
    fn it_is_done_in_order_but_for_what_does_not_return() {
        let (pool, queue, (done, ended)) = (Pool::default(), Queue::default(), unbounded());
        let (release, until) = bounded::<()>(0);
        let next = || ended.recv_timeout(Duration::from_secs(60)).unwrap();
        let first = done.clone();
        queue.add(move || {
            first.send(0).unwrap();
            let _ = until.recv();
            first.send(4).unwrap();
        });
        for number in 1..=3 {
            let done = done.clone();
            queue.add(move || done.send(number).unwrap());
        }
        queue.work_on(&pool).unwrap();
        assert_eq!(next(), 0);
        assert!(ended.try_recv().is_err(), "the others wait");
        queue.work_on(&pool).unwrap();
        assert_eq!([next(), next(), next()], [1, 2, 3]);
        drop(release);
        assert_eq!(next(), 4);
    }
}
