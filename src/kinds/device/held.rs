//! The registry of devices that only one task can have, and which task has each. A reload builds the tasks that begin
//! while those that end still hold theirs: the registry tells a device that will be handed over from one that is taken.
//!
//! A mutex guards it: not for a hot thread. No clock is read.

use super::id::{DeviceId, OpenDevice};
use super::refusal::{Label, Refusal};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Entry {
    claim: u64,
    device: DeviceId,
    task: String,
    is_away: bool, // it was closed, to be opened again
}

struct Registry {
    entries: Vec<Entry>,
    claims: u64, // so far
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { entries: Vec::new(), claims: 0 });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Devices that a task has, or is about to take over; until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim(u64);

impl Claim {
    pub(crate) fn new(devices: impl IntoIterator<Item = DeviceId>, task: &str) -> Self {
        let mut registry = registry();
        registry.claims += 1;
        let claim = registry.claims;
        registry.entries.extend(devices.into_iter().map(|device| Entry {
            claim,
            device,
            task: task.to_owned(),
            is_away: false,
        }));
        Self(claim)
    }

    /// Its devices were opened again, and are these now.
    pub(crate) fn is_now(&self, devices: &[DeviceId]) {
        let mut registry = registry();
        let is_own = |entry: &Entry| entry.claim == self.0;
        let Some(task) = registry.entries.iter().find(|entry| is_own(entry)).map(|entry| entry.task.clone()) else {
            return;
        };
        registry.entries.retain(|entry| !is_own(entry));
        let entry =
            |device: &DeviceId| Entry { claim: self.0, device: device.clone(), task: task.clone(), is_away: false };
        registry.entries.extend(devices.iter().map(entry));
    }

    /// Whether an older claim on one of its devices is left.
    pub(super) fn waits(&self) -> bool {
        let entries = &registry().entries;
        let mine = || entries.iter().filter(|entry| entry.claim == self.0);
        entries.iter().any(|entry| entry.claim < self.0 && mine().any(|mine| mine.device == entry.device))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        registry().entries.retain(|entry| entry.claim != self.0);
    }
}

thread_local! {
    /// The claim that was the latest when an exchange of tasks began on this thread, and the tasks that go on.
    static EXCHANGE: RefCell<Option<(u64, BTreeSet<String>)>> = const { RefCell::new(None) };
}

/// While this lives, tasks are built on this thread to replace others: devices of tasks that do not go on are handed over.
#[derive(Debug)]
pub(crate) struct Exchange;

impl Exchange {
    /// All tasks that hold a device now will end, but for those that go on.
    pub(crate) fn beside(going_on: impl IntoIterator<Item = String>) -> Self {
        let latest = registry().claims;
        EXCHANGE.set(Some((latest, going_on.into_iter().collect())));
        Self
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        EXCHANGE.set(None);
    }
}

/// Who has a device that cannot be opened because it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A task that is about to end.
    Ending,
    /// A task that goes on.
    Task,
    /// Another program, or a driver.
    Elsewhere,
}

/// Finds out who, other than the one with the claim `own`, has the device and adds it to the message; `None`: the refusal
/// has another reason.
pub(crate) fn find_holder(refusal: &mut Refusal, own: Option<&Claim>) -> Option<Holder> {
    let devices = &refusal.in_use;
    if devices.is_empty() {
        return None;
    }
    let registry = registry();
    let others = registry.entries.iter().filter(|entry| own.is_none_or(|own| own.0 != entry.claim));
    let holders: Vec<_> = others.filter(|entry| devices.contains(&entry.device)).collect();
    let all_held = devices.iter().all(|device| holders.iter().any(|entry| entry.device == *device));
    let going_on = EXCHANGE.with_borrow(|exchange| {
        let ends = |entry: &Entry| {
            exchange.as_ref().is_some_and(|(latest, stay)| entry.claim <= *latest && !stay.contains(&entry.task))
        };
        holders.iter().find(|entry| !ends(entry))
    });
    let (holder, text) = match (going_on, &holders[..]) {
        (Some(entry), _) => (Holder::Task, format!("task {}; only one task at a time can have it", entry.task)),
        (None, [ending, ..]) if all_held => (Holder::Ending, format!("task {}, which is about to end", ending.task)),
        (None, _) => (Holder::Elsewhere, "another program or driver".to_owned()),
    };
    refusal.message += &format!(" by {text}");
    Some(holder)
}

/// Why a task must not have a device that it could open: another one has it, and has still to open it again since it was away. `own`: its own claim,
/// which comes before those that are younger.
pub(super) fn claimed_by_another(label: &Label, device: &impl OpenDevice, own: Option<&Claim>) -> Option<Refusal> {
    let mut devices = device.exclusive();
    let comes_first = |entry: &Entry| entry.is_away && own.is_none_or(|own| entry.claim < own.0);
    devices.retain(|device| registry().entries.iter().any(|entry| entry.device == *device && comes_first(entry)));
    let mut refusal = Refusal::in_use("kind", &label.device, devices);
    let holder = find_holder(&mut refusal, own);
    refusal.in_use.clear(); // it is said who has it
    (holder == Some(Holder::Task)).then_some(refusal)
}

/// A device with the claim on it; the device is closed first.
#[derive(Debug)]
pub(super) struct Claimed<D> {
    pub(super) device: D,
    claim: Claim,
}

impl<D: OpenDevice> Claimed<D> {
    pub(super) fn new(device: D, task: &str) -> Self {
        let claim = Claim::new(device.exclusive(), task);
        Self { device, claim }
    }

    /// Closes the device; nobody else is to have it yet.
    pub(super) fn close(self) -> Claim {
        let Self { device, claim } = self;
        registry().entries.iter_mut().filter(|entry| entry.claim == claim.0).for_each(|entry| entry.is_away = true);
        drop(device);
        claim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_handed_over_by_tasks_that_end_and_by_no_others() {
        let device = DeviceId::Named("a toy of this test".into());
        let asks_with = |own: Option<&Claim>| {
            let mut refusal = Refusal::in_use("device", "the toy", [device.clone()]);
            (find_holder(&mut refusal, own).unwrap(), refusal.message)
        };
        let asks = || asks_with(None);
        let by = |holder, text: &str| (holder, format!("the toy is in use by {text}"));
        let elsewhere = by(Holder::Elsewhere, "another program or driver");
        let a_has_it = by(Holder::Task, "task a; only one task at a time can have it");
        assert_eq!(asks(), elsewhere);
        let old = Claim::new([device.clone()], "a");
        assert_eq!(asks(), a_has_it);
        let exchange = Exchange::beside(["a".to_owned()]);
        assert_eq!(asks(), a_has_it, "it goes on");
        drop(exchange);
        let exchange = Exchange::beside(["c".to_owned()]);
        assert_eq!(asks(), by(Holder::Ending, "task a, which is about to end"));
        let new = Claim::new([device.clone()], "a");
        assert_eq!(asks(), a_has_it, "of two tasks that begin, the first has it");
        drop(exchange);
        assert!(new.waits() && !old.waits());
        drop(old);
        assert!(!new.waits());
        assert_eq!(asks_with(Some(&new)), elsewhere, "another program was faster; no task waits for itself");
        drop(new);
        assert_eq!(asks(), elsewhere);
        assert_eq!(find_holder(&mut Refusal::new("device", "no such line"), None), None);
    }
}
