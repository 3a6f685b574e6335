//! The keeper: one thread that looks after everything that may need work while tasks run, such as lost devices and replaced files. The work
//! itself may block, so the pool's threads do it, one job after the other unless one hangs.
//!
//! It reads the monotonic clock and polls 40 times a second, because a hot thread must not wake anyone. The thread starts with the first
//! thing to keep.

use super::pool::Pool;
use super::queue::Queue;
use super::watches::{Watch, Watches};
use crate::sys::clock::{KernelClock, pause};
use crate::sys::thread::{helper, with_signals_blocked};
use crate::time::{Clock, Instant, Span};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use tracing::warn;

/// The time between two polls.
const LOOK_EVERY: Span = Span::from_millis(25);

/// The thread's stack, in bytes. It makes a few system calls; its stack counts as locked memory.
const STACK: usize = 256 << 10;

/// Something to look after.
pub(crate) trait Kept: Send {
    /// Whether no one needs it any more.
    fn is_over(&self) -> bool;

    /// Whether there is work now. Called at each poll while no work is in progress; must not block for long.
    fn is_due(&mut self, now: Instant) -> bool;

    /// Does the work. May block.
    fn work(&mut self);
}

/// A daemon's keeper, and the pool that works for it and others. The thread ends with the daemon.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pool: Arc<Pool>,
    watches: Arc<Watches>,
    sender: OnceLock<Sender<Box<dyn Kept>>>,
    lives: Arc<()>,
}

impl Keeper {
    /// The threads for work that may block.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Notices when a path leads somewhere else; checks every `often` where the kernel does not report it.
    pub(crate) fn watch(&self, path: &Path, often: Span) -> Watch {
        Watch::new(self.watches.clone(), path, often)
    }

    /// Looks after one more thing; the first call starts the thread.
    ///
    /// # Errors
    /// The system's reason why the thread could not be started.
    pub(crate) fn keep(&self, thing: impl Kept + 'static) -> io::Result<()> {
        let sender = match self.sender.get() {
            Some(sender) => sender,
            None => {
                let (sender, new) = channel();
                let (back, daemon) = (sender.clone(), Arc::downgrade(&self.lives));
                let (pool, watches) = (self.pool.clone(), self.watches.clone());
                let body = move || keep_all(&new, &back, &pool, &watches, &daemon);
                with_signals_blocked(|| helper::spawn_with_stack("hertzd-keeper", STACK, body))??;
                self.sender.get_or_init(|| sender)
            }
        };
        let _ = sender.send(Box::new(thing));
        Ok(())
    }
}

/// The thread's loop. `back`: where the pool returns the things that it has worked on.
fn keep_all(
    new: &Receiver<Box<dyn Kept>>,
    back: &Sender<Box<dyn Kept>>,
    pool: &Pool,
    watches: &Watches,
    daemon: &Weak<()>,
) {
    let (clock, mut all) = (KernelClock::monotonic(), Vec::<Box<dyn Kept>>::new());
    let out = Arc::new(()); // shared with all work in progress
    let (queue, mut warned) = (Queue::default(), false);
    loop {
        // Checked before the queue is emptied.
        let is_over = daemon.strong_count() == 0 && Arc::strong_count(&out) == 1;
        all.extend(new.try_iter());
        if is_over && all.is_empty() {
            return;
        }
        watches.look();
        let now = clock.now();
        // Closing what is no longer needed may block, too.
        all.extract_if(.., |kept| kept.is_over()).for_each(|kept| queue.add(move || drop(kept)));
        for mut kept in all.extract_if(.., |kept| kept.is_due(now)) {
            let (back, out) = (back.clone(), out.clone());
            queue.add(move || {
                kept.work();
                let _ = back.send(kept);
                drop(out);
            });
        }
        if let Err(error) = queue.work_on(pool)
            && !std::mem::replace(&mut warned, true)
        {
            warn!("cannot start a thread that opens lost devices and reads outputs back; hertzd keeps trying: {error}");
        }
        pause(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

    #[derive(Default)]
    struct Shared {
        wanted: AtomicBool,
        over: AtomicBool,
        worked: AtomicU32,
    }

    struct Toy(Arc<Shared>);

    impl Kept for Toy {
        fn is_over(&self) -> bool {
            self.0.over.load(SeqCst)
        }

        fn is_due(&mut self, _: Instant) -> bool {
            self.0.wanted.swap(false, SeqCst)
        }

        fn work(&mut self) {
            self.0.worked.fetch_add(1, SeqCst);
            while self.0.worked.load(SeqCst) == 1 && !self.0.over.load(SeqCst) {
                pause(Span::from_millis(1));
            }
        }
    }

    fn until(wanted: impl Fn() -> bool) {
        while !wanted() {
            pause(Span::from_millis(1));
        }
    }

    #[test]
    fn work_that_hangs_holds_up_no_other_and_what_is_over_is_dropped() {
        let (keeper, [slow, quick]) = (Keeper::default(), [(); 2].map(|()| Arc::new(Shared::default())));
        quick.worked.store(5, SeqCst);
        keeper.keep(Toy(slow.clone())).unwrap();
        keeper.keep(Toy(quick.clone())).unwrap();
        slow.wanted.store(true, SeqCst);
        until(|| slow.worked.load(SeqCst) == 1);
        for times in 6..9 {
            quick.wanted.store(true, SeqCst);
            until(|| quick.worked.load(SeqCst) == times);
        }
        drop(keeper);
        for shared in [slow, quick] {
            shared.over.store(true, SeqCst);
            until(|| Arc::strong_count(&shared) == 1);
        }
    }
}
