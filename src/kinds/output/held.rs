//! The targets of a daemon's outputs, and what an output must know when it takes a target over from another. A mutex guards the list: it is
//! locked where tasks are built, never at a tick.

use super::digits::Form;
use super::identity::Identity;
use super::place::{Place, RawScale};
use super::port::{Content, OpenFiles, PutOut, SafeText};
use super::readback::Readback;
use super::target::means::{Kept, PassedOver};
use crate::safety::{Guard, Leave, PlannedWrite, Watched};
use crate::site::{Claim, DeviceId};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What tasks share that have the same target one after the other.
#[derive(Debug)]
pub(super) struct Held {
    identity: Mutex<Identity>,
    found: OnceLock<Content>,    // before hertzd wrote to it
    original: OnceLock<Content>, // the part of `found` that is restored
    polarity: OnceLock<f64>,     // polarity at the start; PWM channels only
    ready: AtomicBool,           // the target is set up and may be written
    users: AtomicUsize,          // two while one takes over from another
    put_out: Arc<PutOut>,
    has_to_recover: AtomicBool, // whether the law of the current output has to recover
    watched: Arc<Watched>,
    taken: File,                           // keeps other hertzd processes out
    beside: Mutex<Vec<File>>,              // likewise for the files that belong to it, until they are closed
    passed_over: Mutex<Vec<PassedOver>>,   // locks on these files that are still to be acquired
    ends: Mutex<Vec<Arc<End>>>,            // of the outputs that have the target
    switched: OnceLock<Vec<PlannedWrite>>, // sample writes, if the target's task only switches it
    opening: Mutex<()>,
}

/// What one output has open of its target.
#[derive(Debug)]
pub(super) struct End {
    pub(super) guard: Weak<Guard>,
    pub(super) section: String, // text of its section
    pub(super) place: Place,    // target named in its section
    pub(super) sys: PathBuf,    // the tree where devices are found
    pub(super) numbers: (RawScale, Form),
    pub(super) files: OpenFiles, // the task's
    pub(super) safe: Option<SafeEnd>,
    pub(super) readback: Option<Arc<Readback>>,
    pub(super) claim: Weak<Claim>,
}

/// What other threads have open to make the target safe.
#[derive(Debug)]
pub(super) struct SafeEnd {
    pub(super) text: SafeText,
    pub(super) files: OpenFiles,
    pub(super) plan: Arc<Mutex<Vec<PlannedWrite>>>,
    pub(super) makes: bool, // create the file if it is gone: the safe value is a number, not the earlier content
}

impl Leave for Held {
    /// A task gives up the target.
    fn leave(&self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The targets of a daemon's outputs. Used where tasks are built, never at a tick.
#[derive(Debug, Default)]
pub(crate) struct Targets(Mutex<Vec<Weak<Held>>>);

impl Targets {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn living(&self) -> Vec<Arc<Held>> {
        self.all().iter().filter_map(Weak::upgrade).collect()
    }

    /// Asks again for the locks that outputs continued without. May block. Returns the problem where another hertzd holds one.
    pub(crate) fn ask_for_locks(&self) -> Option<String> {
        let ask = |held: Arc<Held>| {
            let mut passed_over = held.passed_over();
            passed_over.retain_mut(|lock| lock.is_still(held.names()));
            passed_over.iter().filter_map(PassedOver::trouble).collect::<Vec<_>>()
        };
        let troubles: Vec<_> = self.living().into_iter().flat_map(ask).collect();
        (!troubles.is_empty()).then(|| troubles.join("; "))
    }

    /// Writes to the targets that tasks only switch on and off: all of them, or only those already set up.
    pub(crate) fn switched(&self, are_ready: bool) -> Vec<PlannedWrite> {
        let is_had = |held: &&Arc<Held>| held.is_used() && (held.is_ready() || !are_ready);
        self.living().iter().filter(is_had).filter_map(|held| held.switched.get()).flatten().cloned().collect()
    }

    /// Adds a target that no output has had so far.
    pub(super) fn add(&self, identity: Identity, taken: (Kept, Vec<Kept>)) -> Arc<Held> {
        let held = Arc::new(Held::new(identity, taken));
        let mut all = self.all();
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        held
    }

    /// Joins exactly this target if a task still has it: one about to end, or one that ended without its safe value. A target that only
    /// shares some bytes, or uses another layout, is refused: its safe value is written after the reload and would overwrite the
    /// successor's value.
    ///
    /// # Errors
    /// Such an overlapping target exists; the sentence says why it cannot be taken over.
    pub(super) fn join(&self, wanted: &Identity) -> Result<Option<Arc<Held>>, String> {
        let all = self.all();
        let overlapping: Vec<_> = all.iter().filter_map(Weak::upgrade).filter(|held| held.is_used()).collect();
        for held in overlapping.into_iter().filter(|held| held.identity().overlaps(wanted)) {
            if !held.identity().is(wanted) {
                return Err(held.cannot_become(wanted));
            }
            let joined =
                held.users.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |users| (users > 0).then_some(users + 1));
            if joined.is_ok() {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// The tasks that have this target and still have to reopen it: it was gone and has come back. Two tasks must not both open it.
    pub(super) fn to_be_reopened(&self, wanted: &Identity, place: &Place, sys: &Path) -> Option<String> {
        let is_it = |held: &&Arc<Held>| {
            let own = held.identity();
            let is_named = |end: &Arc<End>| end.place == *place && end.sys == sys;
            let is_named_so = || !place.is_numbered() && held.ends().iter().any(is_named);
            let is_lost = held.watched.is_lost();
            match own.overlaps(wanted) {
                true => is_lost,
                false => own.came_back_as(wanted, is_lost) || is_named_so(),
            }
        };
        // A target that is only switched on and off is not reopened by anyone.
        let is_reopened = |held: &&Arc<Held>| held.is_used() && !held.ends().is_empty();
        self.living().iter().filter(is_reopened).find(is_it).map(|held| held.tasks())
    }
}

impl Held {
    fn new(identity: Identity, (taken, beside): (Kept, Vec<Kept>)) -> Self {
        let (beside, locks): (Vec<_>, Vec<_>) = beside.into_iter().map(|kept| (kept.file, kept.lock)).unzip();
        let passed_over = taken.lock.into_iter().chain(locks.into_iter().flatten()).collect();
        let (found, original, polarity, switched) = Default::default();
        let (ready, put_out, has_to_recover, watched, ends, opening) = Default::default();
        Self {
            identity: Mutex::new(identity),
            found,
            original,
            polarity,
            ready,
            users: AtomicUsize::new(1),
            put_out,
            has_to_recover,
            watched,
            taken: taken.file,
            beside: Mutex::new(beside),
            passed_over: Mutex::new(passed_over),
            ends,
            switched,
            opening,
        }
    }

    /// Whether a task has the target. False once the last one is about to leave it.
    fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// While the guard lives, nothing else opens the target: neither a task that is to have it nor the thread that looks for it.
    pub(super) fn opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks of the outputs that have the target.
    fn names(&self) -> String {
        let tasks = self.ends().into_iter().filter_map(|end| Some(end.guard.upgrade()?.task().to_owned()));
        tasks.collect::<Vec<_>>().join(", ")
    }

    fn tasks(&self) -> String {
        let names = self.names();
        if names.is_empty() { "another task".to_owned() } else { format!("task {names}") }
    }

    fn cannot_become(&self, wanted: &Identity) -> String {
        let (identity, tasks) = (self.identity(), self.tasks());
        let what = match identity.has_the_same_bytes(wanted) {
            true => format!("{} is still held by {tasks}, which stores its number in another way", wanted.shown),
            false => format!("{} overlaps {}, which is still held by {tasks}", wanted.shown, identity.shown),
        };
        format!(
            "{what}: its safe value has to be written first. Remove that output by one reload, and add this one by the next"
        )
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn ids(&self) -> Vec<DeviceId> {
        self.identity().ids
    }

    /// The target was reopened and is this one now.
    pub(super) fn is_now(&self, identity: Identity, beside: Vec<Kept>, lock: Option<PassedOver>) {
        let (beside, locks): (Vec<_>, Vec<_>) = beside.into_iter().map(|kept| (kept.file, kept.lock)).unzip();
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = identity;
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = beside;
        *self.passed_over() = lock.into_iter().chain(locks.into_iter().flatten()).collect();
    }

    fn passed_over(&self) -> MutexGuard<'_, Vec<PassedOver>> {
        self.passed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the files that belong to the target: it is gone.
    pub(super) fn close_beside(&self) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.passed_over().clear();
    }

    /// Adds the end of an output. Returns false if another output had the target before.
    pub(super) fn has_end(&self, end: End) -> bool {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = ends.is_empty();
        ends.retain(|end| end.guard.strong_count() > 0);
        ends.push(Arc::new(end));
        is_first
    }

    /// The end of the current output: the last one that has begun. An output that a reload has yet to begin may still be refused.
    pub(super) fn end(&self) -> Option<Arc<End>> {
        let ends = self.ends();
        let has_begun = |end: &&Arc<End>| end.guard.upgrade().is_some_and(|guard| guard.has_begun());
        ends.iter().rev().find(has_begun).or(ends.last()).cloned()
    }

    /// The ends of all outputs that have the target.
    pub(super) fn ends(&self) -> Vec<Arc<End>> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|end| end.guard.strong_count() > 0);
        ends.clone()
    }

    /// The file that keeps other hertzd processes out; for a GPIO line, also the one that sets its level.
    pub(super) fn taken(&self) -> &File {
        &self.taken
    }

    /// The part of the target's state that the guard thread sees.
    pub(super) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// What the target held before hertzd wrote to it, a number or not.
    pub(super) fn found(&self) -> Option<&Content> {
        self.found.get()
    }

    /// Records what the target was found to hold; nothing has been written to it yet.
    pub(super) fn finds(&self, content: Option<Content>) {
        if let Some(content) = content {
            _ = self.found.set(content);
        }
    }

    /// What `"restore"` returns the target to, if it held a number.
    pub(super) fn original(&self) -> Option<&Content> {
        self.original.get()
    }

    /// Remembers what the target held, unless already recorded.
    pub(super) fn remember(&self, read: impl FnOnce() -> Option<Content>) {
        if let (None, Some(content)) = (self.original.get(), read()) {
            _ = self.original.set(content);
        }
    }

    /// The polarity to keep: the one found at the start.
    pub(super) fn polarity(&self) -> Option<f64> {
        self.polarity.get().copied()
    }

    /// Records the polarity found at the start.
    pub(super) fn keeps_polarity(&self, polarity: Option<f64>) {
        if let Some(polarity) = polarity {
            _ = self.polarity.set(polarity);
        }
    }

    /// The target's task only switches it on and off, with writes like these.
    pub(super) fn is_switched(&self, writes: Vec<PlannedWrite>) {
        _ = self.switched.set(writes);
    }

    /// The target is set up and may be written from now on.
    pub(super) fn is_now_ready(&self) {
        self.ready.store(true, Ordering::SeqCst);
    }

    /// Whether the target is set up.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    pub(super) fn put_out(&self, raw: f64, is_safe: bool) {
        self.put_out.set(raw, is_safe);
    }

    /// The record of the last written number, for other threads that write to the target.
    pub(super) fn last_put_out(&self) -> Arc<PutOut> {
        self.put_out.clone()
    }

    /// Records whether the current output has to recover.
    pub(super) fn set_to_recover(&self, has_to_recover: bool) {
        self.has_to_recover.store(has_to_recover, Ordering::Relaxed);
    }

    /// The last value set by [`set_to_recover`](Self::set_to_recover).
    pub(super) fn has_to_recover(&self) -> bool {
        self.has_to_recover.load(Ordering::Relaxed)
    }

    pub(super) fn raw(&self) -> f64 {
        self.put_out.raw()
    }

    pub(super) fn is_safe(&self) -> bool {
        self.put_out.is_safe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::layout::TYPES;
    use crate::kinds::output::identity::Device;
    use crate::site::DeviceId;

    #[test]
    fn a_register_is_handed_over_whole_or_not_at_all() {
        let of = |bytes: std::ops::Range<u32>, layout: &str| Identity {
            ids: bytes.map(|byte| DeviceId::Named(format!("byte {byte} of this test"))).collect(),
            layout: TYPES.iter().find(|(name, _)| *name == layout).map(|(_, layout)| *layout),
            shown: format!("a {layout}"),
            device: Device::default(),
        };
        let kept = || Kept { file: tempfile::tempfile().unwrap(), lock: None };
        let targets = Targets::default();
        let held = |identity| targets.add(identity, (kept(), Vec::new()));
        let (low, high) = (held(of(0x10..0x13, "u24be")), held(of(0x13..0x16, "u24be")));
        for (other, said) in [
            (of(0x10..0x18, "u64be"), "a u64be overlaps a u24be, which is still held by "),
            (of(0x12..0x13, "u8"), "a u8 overlaps a u24be, which is still held by "),
            (of(0x10..0x13, "u24le"), "stores its number in another way"),
        ] {
            let refused = targets.join(&other).unwrap_err();
            assert!(refused.contains(said) && refused.contains("add this one by the next"), "{refused}");
        }
        assert!(targets.join(&of(0x16..0x17, "u8")).unwrap().is_none());
        low.watched().set_lost(true);
        let nobody = targets.to_be_reopened(&of(0x10..0x13, "u24be"), &Place::File("/".into()), Path::new("/sys"));
        assert_eq!(nobody, None, "it has no output, so nobody opens it again");
        low.watched().set_lost(false);
        let joined = targets.join(&of(0x10..0x13, "u24be")).unwrap().unwrap();
        assert!(Arc::ptr_eq(&joined, &low));
        // The refusals left nothing behind.
        [&low, &low, &high].into_iter().for_each(|held| held.leave());
        assert!(targets.join(&of(0x10..0x18, "u64be")).unwrap().is_none());
    }
}
