//! Which outputs follow their inputs, for anyone who asks at each tick. The list only grows, so it can be read without a lock. It never
//! holds more entries than there were output names at one time: an unused entry is given to the next name. Hot threads write and read it
//! wait-free; entries are created and named where tasks are built.

use crate::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use crate::time::Span;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One output, by the name of its task. The task is of the kind `output`, or of the kind `can` for what it sends. An output and its
/// replacement after a reload share one entry.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    outputs: AtomicU32,    // begun and not ended; two during a takeover
    owing: AtomicU32,      // closed without their safe values
    ticks: AtomicU64,      // of all outputs this entry has stood for
    follows: AtomicBool,   // at the last tick
    safe_after: AtomicI64, // in nanoseconds
    next: OnceLock<Arc<Self>>,
}

/// The outputs of a daemon.
#[derive(Debug, Default)]
pub(crate) struct LiveOutputs {
    first: OnceLock<Arc<Liveness>>,
    names: Mutex<Vec<Name>>,     // of the entries, in the same order
    opened: Mutex<Vec<Opening>>, // since the last start or reload that was accepted
}

/// The name of an entry.
#[derive(Debug, Default)]
struct Name {
    name: String,
    users: usize, // users of the entry under this name; 0: the entry is free
}

impl LiveOutputs {
    fn names(&self) -> MutexGuard<'_, Vec<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<Liveness>> {
        std::iter::successors(self.first.get(), |output| output.next.get())
    }

    /// All entries, in the order of their creation. An entry may have no open output any more.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Liveness> {
        self.entries().map(|output| &**output)
    }

    /// The output of a task, even if it is opened only later. May allocate, and waits for others who are naming one.
    pub(crate) fn named(self: &Arc<Self>, name: &str) -> Named {
        let mut names = self.names();
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
        let output = self.entries().nth(place).unwrap_or_else(|| self.add()).clone();
        Named { output, place, all: self.clone() }
    }

    /// Adds an entry.
    fn add(&self) -> &Arc<Liveness> {
        self.entries().last().map_or(&self.first, |last| &last.next).get_or_init(Arc::default)
    }

    /// Opens a task's output. It counts from [`begin`](Self::begin) on, once the start or reload can no longer be refused.
    pub(crate) fn open(self: &Arc<Self>, task: &str, safe_after: Span) -> Live {
        let (output, stage) = (self.named(task), Arc::default());
        let opening = Opening { output: output.output.clone(), stage: Arc::clone(&stage) };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|opening| opening.stage.load(Ordering::Relaxed) != ENDED); // left over from refused reloads
        opened.push(opening);
        drop(opened);
        Live { output, safe_after, stage }
    }

    /// Opened outputs count from now on, unless they have ended.
    pub(crate) fn begin(&self) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        for Opening { output, stage } in opened.drain(..) {
            if stage.compare_exchange(OPEN, BEGUN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                output.outputs.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A task's output owes its safe value until the returned value is dropped.
    pub(crate) fn owing(self: &Arc<Self>, task: &str) -> Owing {
        Owing::of(self.named(task))
    }
}

impl Drop for LiveOutputs {
    /// Drops the entries one by one: recursion would need a deep stack for a long list.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(entry) = next {
            next = Arc::into_inner(entry).and_then(|mut entry| entry.next.take());
        }
    }
}

/// Keeps an output's name for as long as this exists.
#[derive(Debug)]
pub(crate) struct Named {
    output: Arc<Liveness>,
    place: usize,
    all: Arc<LiveOutputs>,
}

impl Deref for Named {
    type Target = Liveness;

    fn deref(&self) -> &Liveness {
        &self.output
    }
}

impl Named {
    fn again(&self) -> Self {
        let Self { output, place, all } = self;
        all.names()[*place].users += 1;
        Self { output: output.clone(), place: *place, all: all.clone() }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.all.names()[self.place].users -= 1;
    }
}

impl Liveness {
    /// Whether the output is open now.
    pub(crate) fn is_open(&self) -> bool {
        self.outputs.load(Ordering::Relaxed) > 0
    }

    /// Whether the output has to be live: it is open, or owes its safe value.
    pub(crate) fn counts(&self) -> bool {
        self.is_open() || self.owes()
    }

    fn owes(&self) -> bool {
        self.owing.load(Ordering::Relaxed) > 0
    }

    /// Whether the output followed its input without an error at its last tick, and no output of its name owes a safe value. Valid for the
    /// tick last seen through [`ticks`](Self::ticks) or a later one.
    pub(crate) fn follows(&self) -> bool {
        self.is_open() && !self.owes() && self.follows.load(Ordering::Relaxed)
    }

    /// How often the output has ticked.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Acquire)
    }

    /// How long without a tick until the output is no longer live.
    pub(crate) fn safe_after(&self) -> Span {
        Span::from_nanos(self.safe_after.load(Ordering::Relaxed))
    }
}

/// Stage of an output: open, begun, ended.
const OPEN: u32 = 0;
const BEGUN: u32 = 1;
const ENDED: u32 = 2;

/// An output that was opened.
#[derive(Debug)]
struct Opening {
    output: Arc<Liveness>,
    stage: Arc<AtomicU32>,
}

/// An open output, through which its task reports its state.
#[derive(Debug)]
pub(crate) struct Live {
    output: Named,
    safe_after: Span,
    stage: Arc<AtomicU32>,
}

impl Live {
    /// Reports a tick.
    pub(crate) fn ticked(&self, follows: bool) {
        // Only now: while a reload may still be refused, the old output ticks with its own `safe_after`.
        self.output.safe_after.store(self.safe_after.nanos(), Ordering::Relaxed);
        self.output.follows.store(follows, Ordering::Relaxed);
        self.output.ticks.fetch_add(1, Ordering::Release);
    }

    /// The output ends, and owes its safe value until the returned value is dropped.
    pub(crate) fn owing(&self) -> Owing {
        Owing::of(self.output.again())
    }

    /// The output no longer follows its input.
    pub(crate) fn ended(&self) {
        self.output.follows.store(false, Ordering::Relaxed);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let begun = self.stage.swap(ENDED, Ordering::Relaxed) == BEGUN;
        if begun && self.output.outputs.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.ended();
        }
    }
}

/// Marks an output that a reload has closed, or an earlier process has left, while it owes its safe value.
#[derive(Debug)]
pub(crate) struct Owing(Named);

impl Owing {
    fn of(output: Named) -> Self {
        output.owing.fetch_add(1, Ordering::Relaxed);
        Self(output)
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        self.0.owing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_live_while_one_is_open_that_follows() {
        let all = Arc::<LiveOutputs>::default();
        let seen = all.named("a");
        assert!(!seen.is_open() && !seen.follows());
        let begun = |millis| {
            let live = all.open("a", Span::from_millis(millis));
            all.begin();
            all.begin();
            live
        };
        let refused = all.open("a", Span::from_millis(200));
        assert!(!seen.counts(), "it has not begun");
        drop(refused);
        all.begin();
        assert!(!seen.counts(), "it has ended before");
        let one = begun(200);
        assert!(seen.is_open() && !seen.follows(), "it has not ticked");
        one.ticked(true);
        assert_eq!((seen.follows(), seen.ticks(), seen.safe_after()), (true, 1, Span::from_millis(200)));
        let next = begun(100);
        assert_eq!(seen.safe_after(), Span::from_millis(200), "it may be refused yet");
        drop(one);
        assert!(seen.follows(), "another one has taken over");
        next.ticked(false);
        assert!(!seen.follows() && seen.is_open() && seen.safe_after() == Span::from_millis(100));
        next.ticked(true);
        next.ended();
        assert!(!seen.follows());
        next.ticked(true);
        let owing = all.owing("a");
        assert!(!seen.follows(), "the one before it owes its safe value");
        drop(next);
        assert!(!seen.is_open() && seen.counts());
        drop(owing);
        assert!(!seen.counts());
        let _other = all.named("b");
        assert_eq!(all.names().iter().map(|entry| entry.name.clone()).collect::<Vec<_>>(), ["a", "b"], "each once");
        assert!(Arc::<LiveOutputs>::default().iter().next().is_none(), "another daemon has none of them");
    }

    #[test]
    fn the_list_does_not_grow_with_names_that_nobody_has_any_more() {
        let all = Arc::<LiveOutputs>::default();
        for round in 0..10_000 {
            let watched = all.named(&format!("renamed-{round}"));
            let live = all.open(&format!("renamed-{round}"), Span::from_millis(200));
            all.begin();
            assert!(watched.is_open() && !watched.follows(), "nothing is left of the one before");
            let before = watched.ticks();
            live.ticked(true);
            assert!(watched.follows() && watched.ticks() == before + 1);
        }
        assert_eq!(all.iter().count(), 1);
    }

    #[test]
    fn threads_that_name_outputs_at_once_find_the_same_ones() {
        let all = Arc::<LiveOutputs>::default();
        let names: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let named: Vec<_> = names.iter().map(|name| all.named(name)).collect();
                    together.wait();
                    for name in &names {
                        assert_eq!(all.names().iter().filter(|entry| entry.name == *name).count(), 1);
                    }
                    together.wait();
                    drop(named);
                });
            }
        });
    }
}
