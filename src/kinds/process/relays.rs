//! The relays of a daemon: which of them belong to the same task, so that one follows another. A lock is held only while the list is
//! searched. Hot threads do not use it.

use crate::channels::Latest;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The relays of a daemon, with the names of their tasks. A relay that follows another waits until the other's program has ended.
#[derive(Debug, Default)]
pub(super) struct Relays(Mutex<Vec<(String, Weak<Alive>)>>);

/// Exists while a relay and its program run.
#[derive(Debug, Default)]
pub(super) struct Alive {
    /// Ticks of the last seconds without an answer in time, and all ticks of that time; both 0 while within the limit.
    pub(super) unanswered: Latest<2>,
}

impl Alive {
    /// A clause, without a full stop, saying that the program answers too few of its ticks in time; `None` if that is not so.
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
    /// Adds a relay of this task. Returns the earlier relays of the task.
    pub(super) fn join(&self, task: &str) -> (Arc<Alive>, Vec<Weak<Alive>>) {
        let alive = Arc::new(Alive::default());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, other)| other.strong_count() > 0);
        let before = all.iter().filter(|(name, _)| name == task).map(|(_, other)| other.clone()).collect();
        all.push((task.to_owned(), Arc::downgrade(&alive)));
        (alive, before)
    }
}
