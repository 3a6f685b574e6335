//! Targets known only by their ids, so that a reload can hand them over: no open file is involved. A mutex guards the list: it is locked
//! where tasks are built, never at a tick.

use super::device::DeviceId;
use crate::safety::{Leave, Watched};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Maximum number of signals of one target: one for each bit of the longest CAN frame.
const SIGNALS: usize = 64 * 8;

/// What tasks share that have the same target one after the other.
#[derive(Debug)]
pub(crate) struct Target {
    id: Mutex<DeviceId>,
    users: AtomicUsize, // two while one takes over from the other
    watched: Arc<Watched>,
    sections: Mutex<Vec<Weak<str>>>, // of the tasks that have it, in the order they were built
    to_recover: [AtomicU64; SIGNALS / 64], // one bit per signal, by its index: its law has to recover
}

impl Leave for Target {
    fn leave(&self) {
        Self::leave(self);
    }
}

/// The targets of a daemon's tasks.
#[derive(Debug, Default)]
pub(crate) struct Targets(Mutex<Vec<Weak<Target>>>);

impl Targets {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Target>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a target that no task has so far.
    pub(crate) fn add(&self, id: DeviceId) -> Arc<Target> {
        let (watched, sections, to_recover) = Default::default();
        let id = Mutex::new(id);
        let held = Arc::new(Target { id, users: AtomicUsize::new(1), watched, sections, to_recover });
        let mut all = self.all();
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// Joins the target if a task still has it: one about to end, or one that ended without its safe values.
    pub(crate) fn join(&self, id: &DeviceId) -> Option<Arc<Target>> {
        self.all().iter().filter_map(Weak::upgrade).find(|held| {
            // A target whose last task is about to leave it does not count.
            let more = |users: usize| (users > 0).then_some(users + 1);
            *held.id() == *id && held.users.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        })
    }
}

impl Target {
    fn id(&self) -> MutexGuard<'_, DeviceId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the target was opened, and which device it is.
    pub(crate) fn is_now(&self, id: DeviceId) {
        *self.id() = id;
    }

    /// Adds a task with this section text. Returns whether the task before it has the same text.
    pub(crate) fn is_of(&self, section: &Arc<str>) -> bool {
        let mut sections = self.sections.lock().unwrap_or_else(PoisonError::into_inner);
        sections.retain(|section| section.strong_count() > 0);
        let before = sections.last().and_then(Weak::upgrade);
        sections.push(Arc::downgrade(section));
        before.as_ref() == Some(section)
    }

    /// Records whether the signal at this index has to recover. A frame has at most one signal per bit.
    pub(crate) fn set_to_recover(&self, place: usize, has_to_recover: bool) {
        let Some(bits) = self.to_recover.get(place / 64) else { return };
        let bit = 1 << (place % 64);
        if has_to_recover {
            bits.fetch_or(bit, Ordering::Relaxed)
        } else {
            bits.fetch_and(!bit, Ordering::Relaxed)
        };
    }

    /// The last value set for this signal.
    pub(crate) fn has_to_recover(&self, place: usize) -> bool {
        self.to_recover.get(place / 64).is_some_and(|bits| bits.load(Ordering::Relaxed) >> (place % 64) & 1 == 1)
    }

    /// The part of its state that the guard thread sees.
    pub(crate) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// A task gives it up. Returns whether it was the last one.
    pub(crate) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_task_learns_which_signals_have_to_recover_and_whether_its_section_is_the_same() {
        let held = Targets::default().add(DeviceId::Named("an id".into()));
        let [one, same, other]: [Arc<str>; 3] = ["a", "a", "b"].map(Arc::from);
        assert_eq!([&one, &same, &other].map(|section| held.is_of(section)), [false, true, false]);
        drop(other); // a reload that was refused
        assert!(held.is_of(&same));
        held.set_to_recover(0, true);
        held.set_to_recover(511, true);
        held.set_to_recover(512, true);
        held.set_to_recover(0, false);
        assert_eq!([0, 64, 511, 512].map(|place| held.has_to_recover(place)), [false, false, true, false]);
    }

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
