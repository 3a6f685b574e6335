//! The relays that a daemon has: which of them belong to one task, so that one follows another. A lock is held
//! while the list is gone through, never longer; hot threads know nothing of it.

use crate::channels::Latest;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The relays of a daemon, with the names of their tasks: one that follows another waits until that one's program has ended.
#[derive(Debug, Default)]
pub(super) struct Relays(Mutex<Vec<(String, Weak<Alive>)>>);

/// There while a relay runs, and its program.
#[derive(Debug, Default)]
pub(super) struct Alive {
    /// Ticks of the last seconds without an answer in time, and all of these seconds; 0: not more than may be.
    pub(super) unanswered: Latest<2>,
}

impl Alive {
    /// That the program answers too few of its ticks in time: a clause, without a full stop.
    pub(super) fn trouble(&self, task: &str) -> Option<String> {
        let [unanswered, all] = self.unanswered.read();
        let clause = || {
            format!(
                "the program of task {task} left {unanswered} of {all} ticks without an answer in time in the last 10 s"
            )
        };
        (unanswered > 0).then(clause)
    }
}

impl Relays {
    /// Adds a relay of this task; the others of it come back.
    pub(super) fn join(&self, task: &str) -> (Arc<Alive>, Vec<Weak<Alive>>) {
        let alive = Arc::new(Alive::default());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, other)| other.strong_count() > 0);
        let before = all.iter().filter(|(name, _)| name == task).map(|(_, other)| other.clone()).collect();
        all.push((task.to_owned(), Arc::downgrade(&alive)));
        (alive, before)
    }
}
