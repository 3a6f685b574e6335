//! Which outputs put out what they are told, for whoever asks at each of its ticks: a list that only grows, so that it can be gone through
//! without a lock. It is no longer than there were names of outputs at a time: one that nobody has any more gives its entry to the next.
//! Written and read by hot threads, wait-free; entries are made and named where tasks are built.

use crate::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use crate::time::Span;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// An output by the name of its task, of the kind `output`, or `can` with what it sends. One that is replaced by a reload and the one that replaces it share it.
#[derive(Debug)]
pub(crate) struct Liveness {
    outputs: AtomicU32,    // open now; two while one takes over from another
    ticks: AtomicU64,      // of all outputs that it has been
    follows: AtomicBool,   // at the latest tick
    safe_after: AtomicI64, // in nanoseconds
    next: OnceLock<Box<Self>>,
}

struct List {
    first: OnceLock<Box<Liveness>>,
    names: Mutex<Vec<Name>>, // of each entry, in its order
}

/// Of an entry.
#[derive(Default)]
struct Name {
    name: String,
    users: usize, // that have it by this name; 0: another output may get it
}

static LIST: List = List { first: OnceLock::new(), names: Mutex::new(Vec::new()) };

fn names() -> MutexGuard<'static, Vec<Name>> {
    LIST.names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All entries, in the order in which they were made. Where no output is open there may have been one.
pub(crate) fn outputs() -> impl Iterator<Item = &'static Liveness> {
    std::iter::successors(LIST.first.get().map(|first| &**first), |output| output.next.get().map(|next| &**next))
}

/// The output of a task, also if it is opened later only. May allocate, and waits for others who name one.
pub(crate) fn output(name: &str) -> Named {
    let mut names = names();
    let place = names.iter().position(|entry| entry.users > 0 && entry.name == name);
    let place = place.or_else(|| names.iter().position(|entry| entry.users == 0)).unwrap_or(names.len());
    if place == names.len() {
        names.push(Name::default());
    }
    let entry = &mut names[place];
    if entry.users == 0 {
        name.clone_into(&mut entry.name);
    }
    entry.users += 1;
    Named(outputs().nth(place).unwrap_or_else(new), place)
}

/// Adds an entry.
fn new() -> &'static Liveness {
    let place = outputs().last().map_or(&LIST.first, |last| &last.next);
    place.get_or_init(|| {
        Box::new(Liveness {
            outputs: AtomicU32::new(0),
            ticks: AtomicU64::new(0),
            follows: AtomicBool::new(false),
            safe_after: AtomicI64::new(0),
            next: OnceLock::new(),
        })
    })
}

/// An output that keeps its name for as long as somebody has this.
#[derive(Debug)]
pub(crate) struct Named(&'static Liveness, usize);

impl Deref for Named {
    type Target = Liveness;

    fn deref(&self) -> &Liveness {
        self.0
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        names()[self.1].users -= 1;
    }
}

impl Liveness {
    /// Whether there is such an output now.
    pub(crate) fn is_open(&self) -> bool {
        self.outputs.load(Ordering::Relaxed) > 0
    }

    /// Whether at its latest tick it followed its input, and nothing failed. At that of the latest [tick](Self::ticks) that was seen before, or at
    /// a later one.
    pub(crate) fn follows(&self) -> bool {
        self.is_open() && self.follows.load(Ordering::Relaxed)
    }

    /// How often it has ticked.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Acquire)
    }

    /// After how long without a tick it is not live.
    pub(crate) fn safe_after(&self) -> Span {
        Span::from_nanos(self.safe_after.load(Ordering::Relaxed))
    }
}

/// An output that is open, as it tells how it is.
#[derive(Debug)]
pub(crate) struct Live(Named);

impl Live {
    pub(crate) fn open(task: &str, safe_after: Span) -> Self {
        let output = output(task);
        output.safe_after.store(safe_after.nanos(), Ordering::Relaxed);
        output.outputs.fetch_add(1, Ordering::Relaxed);
        Self(output)
    }

    /// It has ticked.
    pub(crate) fn ticked(&self, follows: bool) {
        self.0.follows.store(follows, Ordering::Relaxed);
        self.0.ticks.fetch_add(1, Ordering::Release);
    }

    /// It does not follow its input any more.
    pub(crate) fn ended(&self) {
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
        let before = seen.ticks(); // of another test's output, perhaps
        assert!(!seen.is_open() && !seen.follows());
        let one = Live::open("live-test-a", Span::from_millis(200));
        assert!(seen.is_open() && !seen.follows(), "it has not ticked");
        one.ticked(true);
        assert_eq!((seen.follows(), seen.ticks() - before, seen.safe_after()), (true, 1, Span::from_millis(200)));
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
        let other = output("live-test-b");
        let all = || names().iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
        let mut names: Vec<_> = all().into_iter().filter(|name| name.starts_with("live-test")).collect();
        names.sort();
        assert_eq!(names, ["live-test-a", "live-test-b"], "each once");
        drop(other);
    }

    #[test]
    fn the_list_does_not_grow_with_names_that_nobody_has_any_more() {
        for round in 0..10_000 {
            let watched = output(&format!("renamed-{round}"));
            let live = Live::open(&format!("renamed-{round}"), Span::from_millis(200));
            assert!(watched.is_open() && !watched.follows(), "nothing is left of the one before");
            let before = watched.ticks();
            live.ticked(true);
            assert!(watched.follows() && watched.ticks() == before + 1);
        }
        // Other tests have some as well.
        assert!(outputs().count() < 5_000, "{}", outputs().count());
    }

    #[test]
    fn threads_that_name_outputs_at_once_find_the_same_ones() {
        let names: Vec<String> = (0..50).map(|n| format!("at-once-{n}")).collect();
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let named: Vec<_> = names.iter().map(|name| output(name)).collect();
                    together.wait();
                    for name in &names {
                        assert_eq!(super::names().iter().filter(|entry| entry.name == *name).count(), 1);
                    }
                    together.wait();
                    drop(named);
                });
            }
        });
    }
}
