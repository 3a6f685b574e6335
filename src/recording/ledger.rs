//! What has become of the tasks' data: written, or lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

/// What was written of a task, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows of values; in a CSV of samples, lines.
    pub rows: u64,
    /// Blocks of sound, pictures or samples.
    pub blocks: u64,
    /// Frames of sound, or samples.
    pub samples: u64,
    /// Ticks.
    pub ticks: u64,
    /// Bytes that all this takes, headers not counted.
    pub bytes: u64,
    /// Rows, blocks and ticks that could not be written.
    pub lost: u64,
    /// Places in the stream of blocks where something is missing.
    pub gaps: u64,
    /// Files begun or continued.
    pub files: u64,
}

impl Tally {
    /// Whether a block, or a part of one, is in it.
    const fn is_of_blocks(&self) -> bool {
        self.blocks + self.samples > 0
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.blocks += other.blocks;
        self.samples += other.samples;
        self.ticks += other.ticks;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.gaps += other.gaps;
        self.files += other.files;
    }
}

/// The tallies of all tasks in a recording.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    settled: BTreeMap<u32, Tally>,
    pending: BTreeMap<u32, Tally>,
    missing: BTreeSet<u32>, // tasks whose next block does not continue what stands before it
}

impl Ledger {
    /// Something waits to be written.
    pub(super) fn pend(&mut self, id: u32, mut tally: Tally) {
        if tally.is_of_blocks() && self.missing.remove(&id) {
            tally.gaps += 1;
        }
        *self.pending.entry(id).or_default() += tally;
    }

    /// What was waiting has been written, or is lost.
    pub(super) fn settle(&mut self, written: bool) {
        for (id, tally) in std::mem::take(&mut self.pending) {
            match written {
                true => *self.settled.entry(id).or_default() += tally,
                false => self.lose(id, tally),
            }
        }
    }

    /// This will never be written.
    pub(super) fn lose(&mut self, id: u32, tally: Tally) {
        if tally.is_of_blocks() {
            self.missing.insert(id);
        }
        self.settled.entry(id).or_default().lost += tally.rows + tally.blocks + tally.ticks;
    }

    /// To be called before a block is pended: whether it does not continue the one that came before. A gap is counted
    /// once a block stands behind it, whatever is missing there: what never came, or what could not be written.
    pub(super) fn gap(&mut self, id: u32, jumped: bool) {
        if jumped {
            self.missing.insert(id);
        }
    }

    pub(super) fn of(&self, id: u32) -> Tally {
        self.settled.get(&id).copied().unwrap_or_default()
    }
}

/// Where each task's stream of blocks should go on.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    next: BTreeMap<u32, u64>,
}

impl Gaps {
    /// Whether a block at `index`, of so many, does not continue the one before.
    pub(super) fn jumps(&mut self, id: u32, index: u64, count: u64) -> bool {
        self.next.insert(id, index + count).is_some_and(|next| next != index)
    }
}
