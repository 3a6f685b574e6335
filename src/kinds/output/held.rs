//! Which targets the outputs of this process have, and what one that takes a target over from another has to know. A mutex guards the
//! list: it is used where tasks are built, never at a tick.

use super::guard::Watched;
use super::port::Content;
use crate::kinds::device::DeviceId;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What the tasks of this process share that have one target one after the other.
#[derive(Debug)]
pub(super) struct Held {
    ids: Vec<DeviceId>,
    original: Option<Content>, // before hertzd wrote to it
    users: AtomicUsize,        // two while one takes over from another
    raw: AtomicU64,            // what was written last; NaN: not known
    is_safe: AtomicBool,
    watched: Arc<Watched>,
    taken: File, // keeps other processes of hertzd out
}

/// The targets of the outputs of this process: used where tasks are built, never at a tick.
static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

impl Held {
    pub(super) fn new(ids: Vec<DeviceId>, original: Option<Content>, taken: File) -> Arc<Self> {
        let (users, raw, is_safe) = (AtomicUsize::new(1), AtomicU64::new(f64::NAN.to_bits()), AtomicBool::new(false));
        let watched = Arc::default();
        let held = Arc::new(Self { ids, original, users, raw, is_safe, watched, taken });
        let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// That of the task that has a target now, and will end.
    pub(super) fn join(ids: &[DeviceId]) -> Option<Arc<Self>> {
        let all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.iter().filter_map(Weak::upgrade).find(|held| held.ids.iter().any(|id| ids.contains(id)))?;
        // One whose last task is about to leave it has none.
        let joined =
            held.users.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |users| (users > 0).then_some(users + 1));
        joined.is_ok().then_some(held)
    }

    pub(super) fn ids(&self) -> &[DeviceId] {
        &self.ids
    }

    /// What keeps other processes of hertzd out; of a GPIO line, what sets its level.
    pub(super) fn taken(&self) -> &File {
        &self.taken
    }

    /// What the thread that watches over the target sees of it.
    pub(super) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// What the target held before hertzd wrote to it, if that was a number.
    pub(super) fn original(&self) -> Option<&Content> {
        self.original.as_ref()
    }

    /// Whether nobody has it any more.
    pub(super) fn leave(&self) -> bool {
        self.users.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::SeqCst)
    }

    pub(super) fn put_out(&self, raw: f64, is_safe: bool) {
        self.raw.store(raw.to_bits(), Ordering::Relaxed);
        self.is_safe.store(is_safe, Ordering::Relaxed);
    }

    pub(super) fn raw(&self) -> f64 {
        f64::from_bits(self.raw.load(Ordering::Relaxed))
    }

    pub(super) fn is_safe(&self) -> bool {
        self.is_safe.load(Ordering::Relaxed)
    }
}
