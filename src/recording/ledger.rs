//! What was written of each task, and what was lost. Arithmetic only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;

/// What was written of a task, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteCounts {
    pub rows: u64,    // rows of values; in a CSV of samples, lines
    pub blocks: u64,  // blocks of sound, pictures or samples
    pub samples: u64, // frames of sound, or samples
    pub ticks: u64,
    pub bytes: u64, // bytes that all this takes, headers not counted
    pub lost: u64,  // rows, blocks and ticks that could not be written
    pub gaps: u64,  // places in the stream of blocks where something is missing
    pub files: u64, // files begun or continued
}

impl WriteCounts {
    /// Whether a block, or a part of one, is among it.
    const fn has_blocks(&self) -> bool {
        self.blocks + self.samples > 0
    }
}

impl fmt::Display for WriteCounts {
    /// Rows, blocks and ticks: "3 rows and 4 ticks".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.rows, "rows"), (self.blocks, "blocks"), (self.ticks, "ticks")];
        let some: Vec<_> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(n, what)| format!("{n} {what}")).collect();
        f.write_str(if some.is_empty() { "0 rows".into() } else { some.join(" and ") }.as_str())
    }
}

impl AddAssign for WriteCounts {
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

/// The counts of all tasks in a recording.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) in_file: WriteCounts, // what was written since the file began
    settled: BTreeMap<u32, WriteCounts>,
    pending: BTreeMap<u32, WriteCounts>,
    missing: BTreeSet<u32>,   // tasks whose next block does not continue the one before
    next: BTreeMap<u32, u64>, // where each task's next block should begin
    orphaned: WriteCounts,    // pending, of tasks that are forgotten
}

impl Ledger {
    /// Something waits to be written.
    pub(super) fn pend(&mut self, id: u32, mut counts: WriteCounts) {
        if counts.has_blocks() && self.missing.remove(&id) {
            counts.gaps += 1;
        }
        *self.pending.entry(id).or_default() += counts;
    }

    /// What was waiting has been written, or is lost.
    pub(super) fn settle(&mut self, written: bool) {
        let orphaned = std::mem::take(&mut self.orphaned);
        if written {
            self.in_file += orphaned;
        }
        for (id, counts) in std::mem::take(&mut self.pending) {
            match written {
                true => {
                    self.in_file += counts;
                    *self.settled.entry(id).or_default() += counts;
                }
                false => self.lose(id, counts),
            }
        }
    }

    /// This will never be written.
    pub(super) fn lose(&mut self, id: u32, counts: WriteCounts) {
        if counts.has_blocks() {
            self.missing.insert(id);
        }
        self.settled.entry(id).or_default().lost += counts.rows + counts.blocks + counts.ticks;
    }

    /// Must be called before a block of `count` samples at `index` is pended. A gap counts once a block follows it, however
    /// much is missing, and whether it never came or could not be written.
    pub(super) fn block(&mut self, id: u32, index: u64, count: u64) {
        if self.next.insert(id, index + count).is_some_and(|next| next != index) {
            self.missing.insert(id);
        }
    }

    /// The task has left, and its counts are no longer asked for. What still waits counts for the file alone.
    pub(super) fn forget(&mut self, id: u32) {
        self.orphaned += self.pending.remove(&id).unwrap_or_default();
        self.settled.remove(&id);
        self.missing.remove(&id);
        self.next.remove(&id);
    }

    pub(super) fn of(&self, id: u32) -> WriteCounts {
        self.settled.get(&id).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_has_left_leaves_nothing_but_the_counts_of_the_file() {
        let block = WriteCounts { blocks: 1, ..WriteCounts::default() };
        let mut ledger = Ledger::default();
        ledger.block(0, 0, 10);
        ledger.pend(0, block);
        for id in 1..4 {
            // As a reload does it: what the old task has put in may be written after it has left.
            ledger.block(id, 0, 10);
            ledger.pend(id, block);
            ledger.settle(true);
            ledger.lose(id, block);
            ledger.block(id, 90, 10);
            ledger.pend(id, block);
            ledger.forget(id);
        }
        ledger.settle(true);
        assert_eq!((ledger.of(0).blocks, ledger.of(0).gaps), (1, 0), "the task that stays");
        assert_eq!(ledger.in_file.blocks, 7);
        let Ledger { settled, pending, missing, next, orphaned, .. } = &ledger;
        assert_eq!((settled.len(), pending.len(), missing.len(), next.len()), (1, 0, 0, 1));
        assert_eq!(*orphaned, WriteCounts::default());
    }
}
