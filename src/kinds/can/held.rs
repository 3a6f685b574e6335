//! Which ids the tasks of a daemon send, so that a reload can hand one over. A mutex guards the list: it is used where tasks are
//! built, never at a tick.

use crate::kinds::output::Leave;
use crate::safety::Watched;
use crate::site::DeviceId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What the tasks share that send one id one after the other.
#[derive(Debug)]
pub(super) struct Held {
    id: DeviceId,
    users: AtomicUsize, // two while one takes over from the other
    watched: Arc<Watched>,
}

impl Leave for Held {
    fn leave(&self) {
        Self::leave(self);
    }
}

/// The ids that the tasks of a daemon send.
#[derive(Debug, Default)]
pub(super) struct Sent(Mutex<Vec<Weak<Held>>>);

impl Sent {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that no task sends so far.
    pub(super) fn add(&self, id: DeviceId) -> Arc<Held> {
        let held = Arc::new(Held { id, users: AtomicUsize::new(1), watched: Arc::default() });
        let mut all = self.all();
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// That of the task which sends it now, and will end, or has ended without its safe values.
    pub(super) fn join(&self, id: &DeviceId) -> Option<Arc<Held>> {
        self.all().iter().filter_map(Weak::upgrade).find(|held| {
            // One whose last task is about to leave it has none.
            let more = |users: usize| (users > 0).then_some(users + 1);
            held.id == *id && held.users.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        })
    }
}

impl Held {
    /// What the thread sees that watches over it.
    pub(super) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// A task has it no more. Whether no other one has.
    pub(super) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_tasks_is_told() {
        let (id, sent) = (DeviceId::Named("an id".into()), Sent::default());
        assert!(sent.join(&id).is_none());
        let old = sent.add(id.clone());
        let new = sent.join(&id).unwrap();
        assert!(Arc::ptr_eq(&old, &new));
        assert_eq!((old.leave(), new.leave()), (false, true));
        assert!(sent.join(&id).is_none(), "nobody has it any more");
    }
}
