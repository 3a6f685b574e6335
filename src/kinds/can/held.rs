//! Which ids the tasks of this process send, so that a reload can hand one over. A mutex guards the list: it is used where tasks are
//! built, never at a tick.

use crate::kinds::device::DeviceId;
use crate::kinds::output::Leave;
use crate::safety::Watched;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

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

static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

impl Held {
    pub(super) fn new(id: DeviceId) -> Arc<Self> {
        let held = Arc::new(Self { id, users: AtomicUsize::new(1), watched: Arc::default() });
        let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// That of the task which sends it now, and will end, or has ended without its safe values.
    pub(super) fn join(id: &DeviceId) -> Option<Arc<Self>> {
        let all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.iter().filter_map(Weak::upgrade).find(|held| {
            // One whose last task is about to leave it has none.
            let more = |users: usize| (users > 0).then_some(users + 1);
            held.id == *id && held.users.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        })?;
        Some(held)
    }

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
        let id = DeviceId::Named("an id of this test".into());
        assert!(Held::join(&id).is_none());
        let old = Held::new(id.clone());
        let new = Held::join(&id).unwrap();
        assert!(Arc::ptr_eq(&old, &new));
        assert_eq!((old.leave(), new.leave()), (false, true));
        assert!(Held::join(&id).is_none(), "nobody has it any more");
    }
}
