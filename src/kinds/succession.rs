//! Keeps a task's last output for the task of the same name that replaces it after a reload. A mutex guards the names: it is locked where
//! tasks are built, never at a tick.

use crate::site::Site;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The state that outlives a task.
#[derive(Debug)]
struct PutOut {
    value: AtomicU64, // NaN: none
    has_begun: AtomicBool,
}

/// The outputs of a daemon's tasks, by type and section name. If several have the same name, the last one runs, unless it is dropped before
/// its first tick because its reload was refused.
#[derive(Debug, Default)]
struct Running(Mutex<BTreeMap<Names, Vec<Weak<PutOut>>>>);

type Names = (&'static str, String);

/// Links a task to its predecessors and its successor.
#[derive(Debug)]
pub(super) struct Succession {
    own: Arc<PutOut>,
    before: Vec<Arc<PutOut>>, // newest first; kept after use because a tick frees no memory
}

impl Default for Succession {
    /// A task that no other continues from.
    fn default() -> Self {
        let (value, has_begun) = (AtomicU64::new(f64::NAN.to_bits()), AtomicBool::new(false));
        Self { own: Arc::new(PutOut { value, has_begun }), before: Vec::new() }
    }
}

impl Succession {
    /// The succession of the task with this name. `what` is the same for all tasks that may continue from each other.
    pub(super) fn of(site: &Site, what: &'static str, task: &str) -> Self {
        let (new, running) = (Self::default(), site.common::<Running>());
        let mut running = running.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, of_name| {
            of_name.retain(|put_out| put_out.strong_count() > 0);
            !of_name.is_empty()
        });
        let of_name = running.entry((what, task.to_owned())).or_default();
        // A task that a second reload ends before its first tick passes on nothing; its predecessor does.
        let mut before: Vec<Arc<PutOut>> = of_name.iter().rev().filter_map(Weak::upgrade).collect();
        if let Some(begun) = before.iter().position(|one| one.has_begun()) {
            before.truncate(begun + 1);
        }
        of_name.push(Arc::downgrade(&new.own));
        Self { before, ..new }
    }

    /// Call it at each tick. At the first tick it returns the predecessor's last output, if there is one, and counts it as this task's own
    /// output.
    pub(super) fn takes_over(&mut self) -> Option<f64> {
        if self.own.has_begun() {
            return None;
        }
        let last = self.before.iter().find(|one| one.has_begun()).and_then(|one| one.get());
        last.into_iter().for_each(|last| self.puts_out(last));
        self.own.has_begun.store(true, Ordering::Release); // whoever sees it also sees the value taken over
        last
    }

    /// Records an output; NaN: there is nothing to continue from any more.
    pub(super) fn puts_out(&self, value: f64) {
        self.own.value.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Whether there is an output to continue from.
    pub(super) fn has_put_out(&self) -> bool {
        self.own.get().is_some()
    }
}

impl PutOut {
    fn get(&self) -> Option<f64> {
        Some(f64::from_bits(self.value.load(Ordering::Relaxed))).filter(|value| value.is_finite())
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_task_of_a_name_learns_what_was_put_out_last() {
        let site = Site::default();
        let of = |what| Succession::of(&site, what, "task");
        let mut first = of("one");
        assert_eq!(first.takes_over(), None, "it is the first");
        let (mut second, mut other) = (of("one"), of("another"));
        first.puts_out(3.0);
        assert_eq!((second.takes_over(), second.takes_over(), other.takes_over()), (Some(3.0), None, None));
        drop(of("one")); // a reload that was refused
        // A task that has output nothing itself passes on the value it took over.
        let mut third = of("one");
        assert_eq!(third.takes_over(), Some(3.0));
        // Two reloads within one period: the task of the first one never ticks.
        let fourth = of("one");
        let mut fifth = of("one");
        drop(third);
        drop(fourth);
        assert_eq!(fifth.takes_over(), Some(3.0));
        let third = fifth;
        third.puts_out(f64::NAN);
        assert_eq!((of("one").takes_over(), third.has_put_out()), (None, false));
        [second, third].into_iter().for_each(drop);
        drop(first);
        assert_eq!(of("one").takes_over(), None, "all have ended");
    }
}
