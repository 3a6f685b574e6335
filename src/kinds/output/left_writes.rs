//! Writes of safe values left by an earlier process. An output with such a target needs to know what the target held before hertzd wrote to
//! it. A mutex guards the list: it is locked where tasks are built, never at a tick. No clock is read.

use crate::safety::PlannedWrite;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
pub(crate) struct LeftWrites(Mutex<Vec<LeftWrite>>);

impl LeftWrites {
    fn all(&self) -> MutexGuard<'_, Vec<LeftWrite>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
