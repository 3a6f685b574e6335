//! The relays that a daemon has: which of them belong to one task, so that one follows another, and whose programs are late. A lock is held
//! while the list is gone through, never longer; hot threads know nothing of it.

use crate::channels::Latest;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The relays of a daemon, with the names of their tasks: one that follows another waits until that one's program has ended.
#[derive(Debug, Default)]
pub(crate) struct Relays(Mutex<Vec<(String, Weak<Alive>)>>);

/// There while a relay runs, and its program.
#[derive(Debug, Default)]
pub(super) struct Alive {
    /// Ticks of the last seconds without an answer in time, and all of these seconds; 0: not more than may be.
    pub(super) unanswered: Latest<2>,
}

impl Relays {
    /// Programs that answer too few of their ticks in time: a clause for each, without a full stop.
    pub(crate) fn troubles(&self) -> Vec<String> {
        // Held by others only while they go through the list.
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let clause = |(name, alive): &(String, Weak<Alive>)| {
            let alive = alive.upgrade()?;
            let [unanswered, all] = alive.unanswered.read();
            (unanswered > 0).then(|| {
                format!(
                    "the program of task {name} left {unanswered} of {all} ticks without an answer in time in the last 10 s"
                )
            })
        };
        all.iter().filter_map(clause).collect()
    }

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
