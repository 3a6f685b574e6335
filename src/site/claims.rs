//! Registers which task of a daemon has which exclusive device. A reload builds new tasks while the ending ones still hold their devices:
//! the registry distinguishes a device that will be handed over from one that is taken.
//!
//! A mutex guards it: not for a hot thread. No clock is read.

use super::device::{DeviceId, OpenDevice};
use super::refusal::{Label, Refusal};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Entry {
    claim: u64,
    device: DeviceId,
    task: String,
    is_away: bool, // closed, to be reopened
}

#[derive(Debug, Default)]
struct Registry {
    entries: Vec<Entry>,
    claims: u64, // claims made so far
}

/// Which task has which device.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Registry>);

/// Devices that a task has or is about to take over, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    number: u64,
    claims: Arc<Claims>,
}

impl Claim {
    pub(crate) fn new(claims: Arc<Claims>, devices: impl IntoIterator<Item = DeviceId>, task: &str) -> Self {
        let mut registry = claims.registry();
        registry.claims += 1;
        let claim = registry.claims;
        registry.entries.extend(devices.into_iter().map(|device| Entry {
            claim,
            device,
            task: task.to_owned(),
            is_away: false,
        }));
        drop(registry);
        Self { number: claim, claims }
    }

    /// The claim's devices were reopened and are these now.
    pub(crate) fn is_now(&self, devices: &[DeviceId]) {
        let mut registry = self.claims.registry();
        let is_own = |entry: &Entry| entry.claim == self.number;
        let Some(task) = registry.entries.iter().find(|entry| is_own(entry)).map(|entry| entry.task.clone()) else {
            return;
        };
        registry.entries.retain(|entry| !is_own(entry));
        let entry = |device: &DeviceId| Entry {
            claim: self.number,
            device: device.clone(),
            task: task.clone(),
            is_away: false,
        };
        registry.entries.extend(devices.iter().map(entry));
    }

    /// Whether an older claim on one of its devices remains.
    pub(crate) fn waits(&self) -> bool {
        let entries = &self.claims.registry().entries;
        let mine = || entries.iter().filter(|entry| entry.claim == self.number);
        entries.iter().any(|entry| entry.claim < self.number && mine().any(|mine| mine.device == entry.device))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.registry().entries.retain(|entry| entry.claim != self.number);
    }
}

/// A replacement of tasks: devices are handed over by tasks that do not continue.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    latest: u64, // number of the newest claim when it began
    stay: BTreeSet<String>,
}

impl Exchange {
    fn ends(&self, entry: &Entry) -> bool {
        entry.claim <= self.latest && !self.stay.contains(&entry.task)
    }
}

/// Who has a device that cannot be opened because it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A task that is about to end.
    Ending,
    /// A task that continues.
    Task,
    /// Another program, or a driver.
    Elsewhere,
}

impl Claims {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a replacement: all tasks that hold a device now will end, except those in `going_on`.
    pub(crate) fn exchange(&self, going_on: impl IntoIterator<Item = String>) -> Exchange {
        Exchange { latest: self.registry().claims, stay: going_on.into_iter().collect() }
    }

    /// Finds who has the device, other than the owner of the claim `own`, and adds that to the message. `None`: the refusal has another
    /// reason.
    pub(crate) fn find_holder(
        &self,
        refusal: &mut Refusal,
        own: Option<&Claim>,
        exchange: Option<&Exchange>,
    ) -> Option<Holder> {
        let devices = &refusal.in_use;
        if devices.is_empty() {
            return None;
        }
        let registry = self.registry();
        let others = registry.entries.iter().filter(|entry| own.is_none_or(|own| own.number != entry.claim));
        let holders: Vec<_> = others.filter(|entry| devices.contains(&entry.device)).collect();
        let all_held = devices.iter().all(|device| holders.iter().any(|entry| entry.device == *device));
        let ends = |entry: &Entry| exchange.is_some_and(|exchange| exchange.ends(entry));
        let going_on = holders.iter().find(|entry| !ends(entry));
        let (holder, text) = match (going_on, &holders[..]) {
            (Some(entry), _) => (Holder::Task, format!("task {}; only one task at a time can have it", entry.task)),
            (None, [ending, ..]) if all_held => {
                (Holder::Ending, format!("task {}, which is about to end", ending.task))
            }
            (None, _) => (Holder::Elsewhere, "another program or driver".to_owned()),
        };
        refusal.message += &format!(" by {text}");
        Some(holder)
    }

    /// Why a task must not have a device that it could open: another task has it and has yet to reopen it after a loss. `own`: the task's
    /// own claim, which comes before younger ones.
    pub(crate) fn claimed_by_another(
        &self,
        label: &Label,
        device: &impl OpenDevice,
        own: Option<&Claim>,
        exchange: Option<&Exchange>,
    ) -> Option<Refusal> {
        let mut devices = device.exclusive();
        let comes_first = |entry: &Entry| entry.is_away && own.is_none_or(|own| entry.claim < own.number);
        devices
            .retain(|device| self.registry().entries.iter().any(|entry| entry.device == *device && comes_first(entry)));
        let mut refusal = Refusal::in_use("kind", &label.device, devices);
        let holder = self.find_holder(&mut refusal, own, exchange);
        refusal.in_use.clear(); // the message already says who has it
        (holder == Some(Holder::Task)).then_some(refusal)
    }
}

/// A device with the claim on it. The device is closed first.
#[derive(Debug)]
pub(crate) struct Claimed<D> {
    pub(crate) device: D,
    claim: Claim,
}

impl<D: OpenDevice> Claimed<D> {
    pub(crate) fn new(device: D, claims: Arc<Claims>, task: &str) -> Self {
        let claim = Claim::new(claims, device.exclusive(), task);
        Self { device, claim }
    }

    /// Closes the device but keeps its claim: no other task may have the device yet.
    pub(crate) fn close(self) -> Claim {
        let Self { device, claim } = self;
        let mut registry = claim.claims.registry();
        registry.entries.iter_mut().filter(|entry| entry.claim == claim.number).for_each(|entry| entry.is_away = true);
        drop(registry);
        drop(device);
        claim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_handed_over_by_tasks_that_end_and_by_no_others() {
        let (device, claims) = (DeviceId::Named("a toy".into()), Arc::new(Claims::default()));
        let asks_with = |own: Option<&Claim>, exchange: Option<&Exchange>| {
            let mut refusal = Refusal::in_use("device", "the toy", [device.clone()]);
            (claims.find_holder(&mut refusal, own, exchange).unwrap(), refusal.message)
        };
        let asks = || asks_with(None, None);
        let claim = || Claim::new(claims.clone(), [device.clone()], "a");
        let by = |holder, text: &str| (holder, format!("the toy is in use by {text}"));
        let elsewhere = by(Holder::Elsewhere, "another program or driver");
        let a_has_it = by(Holder::Task, "task a; only one task at a time can have it");
        assert_eq!(asks(), elsewhere);
        let old = claim();
        assert_eq!(asks(), a_has_it);
        let exchange = claims.exchange(["a".to_owned()]);
        assert_eq!(asks_with(None, Some(&exchange)), a_has_it, "it goes on");
        let exchange = claims.exchange(["c".to_owned()]);
        assert_eq!(asks_with(None, Some(&exchange)), by(Holder::Ending, "task a, which is about to end"));
        let new = claim();
        assert_eq!(asks_with(None, Some(&exchange)), a_has_it, "of two tasks that begin, the first has it");
        assert!(new.waits() && !old.waits());
        drop(old);
        assert!(!new.waits());
        assert_eq!(asks_with(Some(&new), None), elsewhere, "another program was faster; no task waits for itself");
        let mut elsewhere_too = Refusal::in_use("device", "the toy", [device.clone()]);
        assert_eq!(Claims::default().find_holder(&mut elsewhere_too, None, None), Some(Holder::Elsewhere));
        drop(new);
        assert_eq!(asks(), elsewhere);
        assert_eq!(claims.find_holder(&mut Refusal::new("device", "no such line"), None, None), None);
    }
}
