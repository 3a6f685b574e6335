//! Targets that are known by their ids alone, so that a reload can hand one over: there is nothing to be kept open. A mutex guards the list: it
//! is used where tasks are built, never at a tick.

use super::device::DeviceId;
use crate::safety::{Leave, Watched};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What the tasks share that have one target one after the other.
#[derive(Debug)]
pub(crate) struct Target {
    id: DeviceId,
    users: AtomicUsize, // two while one takes over from the other
    watched: Arc<Watched>,
}

impl Leave for Target {
    fn leave(&self) {
        Self::leave(self);
    }
}

/// Those of the tasks of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Targets(Mutex<Vec<Weak<Target>>>);

impl Targets {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Target>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that no task has so far.
    pub(crate) fn add(&self, id: DeviceId) -> Arc<Target> {
        let held = Arc::new(Target { id, users: AtomicUsize::new(1), watched: Arc::default() });
        let mut all = self.all();
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// That of the task which has it now, and will end, or has ended without its safe values.
    pub(crate) fn join(&self, id: &DeviceId) -> Option<Arc<Target>> {
        self.all().iter().filter_map(Weak::upgrade).find(|held| {
            // One whose last task is about to leave it has none.
            let more = |users: usize| (users > 0).then_some(users + 1);
            held.id == *id && held.users.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        })
    }
}

impl Target {
    /// What the thread sees that watches over it.
    pub(crate) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// A task has it no more. Whether no other one has.
    pub(crate) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_tasks_is_told() {
        let (id, sent) = (DeviceId::Named("an id".into()), Targets::default());
        assert!(sent.join(&id).is_none());
        let old = sent.add(id.clone());
        let new = sent.join(&id).unwrap();
        assert!(Arc::ptr_eq(&old, &new));
        assert_eq!((old.leave(), new.leave()), (false, true));
        assert!(sent.join(&id).is_none(), "nobody has it any more");
    }
}
