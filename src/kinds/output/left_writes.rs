//! Writes of safe values left by an earlier process. An output with such a target needs to know what the target held before hertzd wrote to
//! it. A mutex guards the lists: it is locked while tasks are built, never at a tick. Reads no clock.
//!
//! While devices are opened, another thread may make these writes, but never to a target that is being opened. The opening output would
//! read a value that is neither what the earlier process left nor the safe value.

use crate::safety::PlannedWrite;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A write left by an earlier process.
#[derive(Clone, Debug)]
pub(crate) struct LeftWrite {
    pub(crate) write: PlannedWrite,
    /// The write has been made since, so its target was safe at that time.
    pub(crate) is_written: bool,
    /// The process that had the target.
    pub(crate) planner: u32,
}

/// The left writes that a daemon has found.
#[derive(Debug, Default)]
pub(crate) struct LeftWrites {
    left: Mutex<Vec<LeftWrite>>,
    meanwhile: Mutex<Meanwhile>,
    returned: Condvar, // a write that was under way
}

/// The state of targets while this thread opens devices and another thread makes left writes.
#[derive(Debug, Default)]
struct Meanwhile {
    is_on: bool,
    opened: Vec<(PlannedWrite, bool)>, // sample writes; true: it may be written, because its output begins with its safe value
    under_way: Vec<PlannedWrite>,
}

impl Meanwhile {
    fn is_under_way(&self, target: &[PlannedWrite]) -> bool {
        self.under_way.iter().any(|write| target.iter().any(|own| write.is_had_by(own)))
    }
}

/// Left writes in progress while devices are opened; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    all: Arc<LeftWrites>,
    writes: Vec<PlannedWrite>,
    /// An output of this process that has not begun has one of the targets, and its lock.
    pub(crate) is_locked_here: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut meanwhile = self.all.meanwhile();
        for write in &self.writes {
            if let Some(at) = meanwhile.under_way.iter().position(|other| other == write) {
                meanwhile.under_way.swap_remove(at);
            }
        }
        self.all.returned.notify_all();
    }
}

/// A target that is being opened: no left write is made to it. Dropping this means that the target was not opened.
#[derive(Debug)]
pub(super) struct Opening {
    all: Arc<LeftWrites>,
    target: Vec<PlannedWrite>,
}

impl Opening {
    /// Notes that the target is open. `may_be_written`: left writes do not matter to its output, because it begins with its safe value.
    /// This never applies to a GPIO line: only the process that requested the line can write it.
    pub(super) fn opened(mut self, may_be_written: bool) {
        let target = std::mem::take(&mut self.target);
        for (write, is_free) in &mut self.all.meanwhile().opened {
            let is_line = matches!(write, PlannedWrite::Line { .. });
            *is_free |= may_be_written && !is_line && target.contains(write);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let target = &self.target;
        self.all.meanwhile().opened.retain(|(write, _)| !target.contains(write));
    }
}

impl LeftWrites {
    fn all(&self) -> MutexGuard<'_, Vec<LeftWrite>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meanwhile(&self) -> MutexGuard<'_, Meanwhile> {
        self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether another thread may make left writes from now on, while devices are opened.
    pub(crate) fn are_written_meanwhile(&self, is_on: bool) {
        let mut meanwhile = self.meanwhile();
        meanwhile.is_on = is_on;
        meanwhile.opened.clear();
    }

    /// Begins left writes of one output while devices are opened. `None`: one of their targets is being opened, or the target's new output
    /// begins with what it finds there. `is_stopping`: then no output begins any more.
    pub(crate) fn begin(self: &Arc<Self>, writes: &[PlannedWrite], is_stopping: bool) -> Option<UnderWay> {
        let mut meanwhile = self.meanwhile();
        let mut opened = meanwhile.opened.iter().filter(|(own, _)| writes.iter().any(|write| write.is_had_by(own)));
        let is_locked_here = opened.clone().next().is_some();
        if !meanwhile.is_on || !is_stopping && opened.any(|(_, may_be_written)| !may_be_written) {
            return None;
        }
        meanwhile.under_way.extend_from_slice(writes);
        Some(UnderWay { all: self.clone(), writes: writes.to_vec(), is_locked_here })
    }

    /// Notes that a task begins to open this target. Waits for left writes to the target that are in progress.
    pub(super) fn opening(self: &Arc<Self>, target: Vec<PlannedWrite>) -> Opening {
        let mut meanwhile = self.meanwhile();
        if meanwhile.is_on {
            meanwhile.opened.extend(target.iter().map(|write| (write.clone(), false)));
        }
        drop(meanwhile);
        self.await_writes(&target);
        Opening { all: self.clone(), target }
    }

    /// Waits for left writes to this target that are in progress: they must not come after the writes of its output.
    pub(super) fn await_writes(&self, target: &[PlannedWrite]) {
        let meanwhile = self.returned.wait_while(self.meanwhile(), |meanwhile| meanwhile.is_under_way(target));
        drop(meanwhile);
    }

    /// Adds writes left by an earlier process.
    pub(crate) fn leave_behind(&self, writes: Vec<LeftWrite>) {
        self.all().extend(writes);
    }

    /// The earlier process that left a matching write.
    pub(super) fn planner_of(&self, is_such: impl Fn(&PlannedWrite) -> bool) -> Option<u32> {
        self.all().iter().find(|left| is_such(&left.write)).map(|left| left.planner)
    }

    /// Drops this write: it was made, or another output now makes its target safe.
    pub(crate) fn forget_left(&self, write: &PlannedWrite) {
        let mut left = self.all();
        if let Some(at) = left.iter().position(|left| left.write.has_target_of(write)) {
            left.remove(at);
        }
    }

    /// Makes, in full, the left writes of other registers that share bytes with `write`. Some chips keep each register as a whole and treat
    /// a write to its later bytes as one to another register. Call it before an output of `write` reads or writes the register.
    ///
    /// # Errors
    /// One of them could not be made; the sentence says why.
    pub(super) fn make_overlapping(
        &self,
        write: &PlannedWrite,
        make: impl Fn(&LeftWrite) -> io::Result<()>,
    ) -> Result<(), String> {
        let overlapping = |left: &&LeftWrite| !left.is_written && left.write.overlaps(write);
        let overlapping: Vec<_> = self.all().iter().filter(overlapping).cloned().collect();
        for left in overlapping {
            match make(&left) {
                Ok(()) => self.all().iter_mut().filter(|it| it.write == left.write).for_each(|it| it.is_written = true),
                Err(error) => {
                    let left = left.write;
                    return Err(format!(
                        "an earlier run has left a safe value that shares bytes with it, {left}, and that could not be written: {error}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether this left write has been made since.
    pub(crate) fn was_made(&self, write: &PlannedWrite) -> bool {
        self.all().iter().any(|left| left.is_written && left.write == *write)
    }

    /// The left writes for targets like these; each records what its target held before hertzd wrote to it. `holds`: what each target holds
    /// now. A target that was made safe and has changed since is left out: its current content counts.
    pub(super) fn left_writes(&self, writes: &[PlannedWrite], holds: &[Option<f64>]) -> Vec<Option<PlannedWrite>> {
        let left = self.all();
        let of = |(write, holds): (&PlannedWrite, &Option<f64>)| {
            let left = left.iter().find(|left| left.write.has_target_of(write))?;
            let is_changed = left.is_written && left.write.number().is_some_and(|safe| *holds != Some(safe));
            (!is_changed).then(|| left.write.clone())
        };
        writes.iter().zip(holds).map(of).collect()
    }

    /// The bytes that this register held before hertzd wrote to it, if an earlier process left some of them, in any layout. `now`: its
    /// current bytes, which count where a register made safe has changed since.
    pub(super) fn left_bytes(&self, write: &PlannedWrite, now: &[u8]) -> Option<Vec<u8>> {
        let (mut bytes, mut is_known) = (now.to_vec(), false);
        for LeftWrite { write: left, is_written, .. } in &*self.all() {
            let (own, theirs) = (write.shared_with(left), left.shared_with(write));
            let (PlannedWrite::Register { bytes: safe, .. }, Some(held)) = (left, left.held()) else { continue };
            let Some(place) = bytes.get_mut(own.clone()).filter(|_| !own.is_empty()) else { continue };
            let is_as_written =
                |(own, theirs): (usize, usize)| (now[own] ^ safe[1 + theirs]) & left.bits_of(theirs) == 0;
            if !is_written || own.zip(theirs.clone()).all(is_as_written) {
                place.copy_from_slice(&held[theirs]);
                is_known = true;
            }
        }
        is_known.then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn register(bus: &str, first: u8, value: &[u8], held: &[u8]) -> PlannedWrite {
        PlannedWrite::Register {
            bus: bus.into(),
            adapter: None,
            address: 0x48,
            force: false,
            bytes: [&[first], value].concat(),
            bits: Vec::new(),
            original: None,
            held: held.to_vec(),
        }
    }

    #[test]
    fn a_left_register_is_written_whole_before_another_one_has_a_part_of_it() {
        let register = |first, value: &[u8]| register("/dev/i2c-of-that-test", first, value, &[]);
        let all = LeftWrites::default();
        let (shared, same) = (register(0x21, &[1, 2, 3, 4]), register(0x30, &[5]));
        let left = [shared.clone(), same.clone()];
        all.leave_behind(
            left.iter().cloned().map(|write| LeftWrite { write, is_written: false, planner: 1 }).collect(),
        );
        let made = RefCell::new(Vec::new());
        let make = |first, value: &[u8], result: fn() -> io::Result<()>| {
            let make = |left: &LeftWrite| (made.borrow_mut().push(left.write.clone()), result()).1;
            all.make_overlapping(&register(first, value), make)
        };
        make(0x30, &[9], || Ok(())).unwrap();
        make(0x25, &[9], || Ok(())).unwrap();
        assert!(made.borrow().is_empty(), "they have the same bytes, or none of them");
        let failed = make(0x20, &[9, 9, 9], || Err(io::Error::other("no answer"))).unwrap_err();
        assert!(failed.contains("0x01 0x02 0x03 0x04 to register 0x21") && failed.ends_with("no answer"), "{failed}");
        let by_another = || io::Result::<()>::Err(io::Error::new(io::ErrorKind::ResourceBusy, "another hertzd has it"));
        assert!(make(0x20, &[9, 9, 9], by_another).unwrap_err().ends_with("another hertzd has it"));
        assert!(!all.was_made(&shared), "it is owed");
        make(0x20, &[9, 9, 9], || Ok(())).unwrap();
        assert!(all.was_made(&shared) && !all.was_made(&same));
        make(0x23, &[9], || Ok(())).unwrap();
        assert_eq!(made.into_inner(), [shared.clone(), shared.clone(), shared], "whole, and no more once it was made");
        left.iter().for_each(|write| all.forget_left(write));
    }

    #[test]
    fn a_left_write_and_the_opening_of_its_target_exclude_each_other() {
        let [one, part, other] = [(0x10, &[1, 2][..]), (0x11, &[2]), (0x20, &[3])]
            .map(|(first, value)| register("/dev/i2c-of-this-test", first, value, &[]));
        let all = Arc::<LeftWrites>::default();
        let begins = |write: &PlannedWrite| all.begin(std::slice::from_ref(write), false);
        assert!(begins(&one).is_none(), "no device is opened");
        all.are_written_meanwhile(true);
        let opening = all.opening(vec![part.clone()]);
        assert!(begins(&one).is_none() && begins(&other).is_some(), "a part of it is being opened");
        assert!(all.begin(std::slice::from_ref(&one), true).is_some_and(|writes| writes.is_locked_here));
        drop(opening);
        assert!(begins(&one).is_some_and(|writes| !writes.is_locked_here), "it was not opened");
        all.opening(vec![part.clone()]).opened(false);
        assert!(begins(&one).is_none(), "its output begins with what it has read");
        all.are_written_meanwhile(true);
        all.opening(vec![part.clone()]).opened(true);
        let under_way = begins(&one).unwrap();
        assert!(under_way.is_locked_here);
        let (its, target) = (all.clone(), vec![part]);
        let opens = std::thread::spawn(move || drop(its.opening(target)));
        while all.meanwhile().opened.iter().all(|(_, may_be_written)| *may_be_written) {
            std::thread::yield_now();
        }
        assert!(!opens.is_finished() && begins(&one).is_none(), "it waits for the write");
        drop(under_way);
        opens.join().unwrap();
        all.are_written_meanwhile(false);
        assert!(begins(&one).is_none() && all.meanwhile().under_way.is_empty());
    }

    #[test]
    fn the_original_of_a_register_in_another_layout_is_put_together() {
        let all = LeftWrites::default();
        let register = |first: u8, value: &[u8], held: &[u8]| register("/dev/i2c-of-this-test", first, value, held);
        let left = [(register(0x10, &[1, 2, 3], &[11, 12, 13]), false), (register(0x20, &[4], &[14]), true)];
        all.leave_behind(
            left.iter().cloned().map(|(write, is_written)| LeftWrite { write, is_written, planner: 1 }).collect(),
        );
        let bytes = |first, now: &[u8]| all.left_bytes(&register(first, now, &[]), now);
        assert_eq!(bytes(0x10, &[1, 2, 3]), Some(vec![11, 12, 13]));
        assert_eq!(bytes(0x0f, &[7, 9, 9, 9, 8]), Some(vec![7, 11, 12, 13, 8]));
        assert_eq!(bytes(0x12, &[9, 9]), Some(vec![13, 9]));
        assert_eq!(bytes(0x20, &[4, 5]), Some(vec![14, 5]), "it was made safe, and still is");
        assert_eq!(bytes(0x20, &[6, 5]), None, "it has changed since");
        assert_eq!(bytes(0x30, &[1]), None);
        left.iter().for_each(|(write, _)| all.forget_left(write));
    }
}
