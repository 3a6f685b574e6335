//! Which outputs put out what they are told, for whoever asks at each of its ticks: a list of all that there have been, which only grows, so
//! that it can be gone through without a lock. Written and read by hot threads, wait-free; entries are made where tasks are built.

use crate::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use crate::time::Span;
use std::sync::OnceLock;

/// An output by the name of its task, of the kind `output`, or `can` with what it sends. One that is replaced by a reload and the one that replaces it share it.
#[derive(Debug)]
pub(in crate::kinds) struct Liveness {
    name: String,
    outputs: AtomicU32,    // open now; two while one takes over from another
    ticks: AtomicU64,      // of them
    follows: AtomicBool,   // at the latest tick
    safe_after: AtomicI64, // in nanoseconds
    next: OnceLock<Box<Self>>,
}

static FIRST: OnceLock<Box<Liveness>> = OnceLock::new();

/// All outputs that there have been, in the order in which they were first opened or named.
pub(in crate::kinds) fn outputs() -> impl Iterator<Item = &'static Liveness> {
    std::iter::successors(FIRST.get().map(|first| &**first), |output| output.next.get().map(|next| &**next))
}

/// The output of a task, also if it is opened later only. Allocates where it is new.
pub(in crate::kinds) fn output(name: &str) -> &'static Liveness {
    let mut place = &FIRST;
    loop {
        let found = place.get_or_init(|| {
            Box::new(Liveness {
                name: name.to_owned(),
                outputs: AtomicU32::new(0),
                ticks: AtomicU64::new(0),
                follows: AtomicBool::new(false),
                safe_after: AtomicI64::new(0),
                next: OnceLock::new(),
            })
        });
        if found.name == name {
            return found;
        }
        place = &found.next;
    }
}

impl Liveness {
    /// Whether there is such an output now.
    pub(in crate::kinds) fn is_open(&self) -> bool {
        self.outputs.load(Ordering::Relaxed) > 0
    }

    /// Whether at its latest tick it followed its input, and nothing failed. At that of the latest [tick](Self::ticks) that was seen before, or at
    /// a later one.
    pub(in crate::kinds) fn follows(&self) -> bool {
        self.is_open() && self.follows.load(Ordering::Relaxed)
    }

    /// How often it has ticked.
    pub(in crate::kinds) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Acquire)
    }

    /// After how long without a tick it is not live.
    pub(in crate::kinds) fn safe_after(&self) -> Span {
        Span::from_nanos(self.safe_after.load(Ordering::Relaxed))
    }
}

/// An output that is open, as it tells how it is.
#[derive(Debug)]
pub(in crate::kinds) struct Live(&'static Liveness);

impl Live {
    pub(in crate::kinds) fn open(task: &str, safe_after: Span) -> Self {
        let output = output(task);
        output.safe_after.store(safe_after.nanos(), Ordering::Relaxed);
        output.outputs.fetch_add(1, Ordering::Relaxed);
        Self(output)
    }

    /// It has ticked.
    pub(in crate::kinds) fn ticked(&self, follows: bool) {
        self.0.follows.store(follows, Ordering::Relaxed);
        self.0.ticks.fetch_add(1, Ordering::Release);
    }

    /// It does not follow its input any more.
    pub(in crate::kinds) fn ended(&self) {
        self.0.follows.store(false, Ordering::Relaxed);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.0.outputs.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_live_while_one_is_open_that_follows() {
        let seen = output("live-test-a");
        assert!(!seen.is_open() && !seen.follows() && seen.ticks() == 0);
        let one = Live::open("live-test-a", Span::from_millis(200));
        assert!(seen.is_open() && !seen.follows(), "it has not ticked");
        one.ticked(true);
        assert_eq!((seen.follows(), seen.ticks(), seen.safe_after()), (true, 1, Span::from_millis(200)));
        let next = Live::open("live-test-a", Span::from_millis(100));
        drop(one);
        assert!(seen.follows(), "another one has taken over");
        next.ticked(false);
        assert!(!seen.follows() && seen.is_open());
        next.ticked(true);
        next.ended();
        assert!(!seen.follows());
        drop(next);
        assert!(!seen.is_open());
        output("live-test-b");
        let names: Vec<_> =
            outputs().map(|output| &*output.name).filter(|name| name.starts_with("live-test")).collect();
        assert_eq!(names, ["live-test-a", "live-test-b"], "each once");
    }

    #[test]
    fn threads_that_name_outputs_at_once_find_the_same_ones() {
        let names: Vec<String> = (0..50).map(|n| format!("at-once-{n}")).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| names.iter().for_each(|name| _ = output(name)));
            }
        });
        for name in &names {
            assert_eq!(outputs().filter(|output| output.name == *name).count(), 1);
        }
    }
}
