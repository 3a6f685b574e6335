//! What was written of each task and still exists, and what was lost. Arithmetic only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;

/// What was written of a task, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteCounts {
    pub rows: u64,    // rows of values; lines, in a CSV of samples
    pub blocks: u64,  // blocks of sound, pictures or samples
    pub samples: u64, // frames of sound, or samples
    pub ticks: u64,
    pub bytes: u64, // bytes of all these, without headers
    pub lost: u64,  // rows, blocks and ticks that could not be written
    pub gaps: u64,  // places in the stream of blocks where something is missing
    pub files: u64, // files started or continued
}

impl WriteCounts {
    /// Whether it includes a block or a part of one.
    const fn has_blocks(&self) -> bool {
        self.blocks + self.samples > 0
    }

    /// Rows, blocks and ticks: everything that `lost` counts.
    const fn things(&self) -> u64 {
        self.rows + self.blocks + self.ticks
    }

    /// Rows, or frames of sound: the units of a CSV or WAV file.
    fn units(&self) -> u64 {
        self.rows.max(self.samples)
    }

    /// The counts of the first `units`. A block is included only if all of it is, judged by the mean block length.
    fn first(&self, units: u64) -> Self {
        let all = self.units();
        if units >= all {
            return *self;
        }
        let part = |count: u64| {
            let scaled = u128::from(count) * u128::from(units) / u128::from(all);
            u64::try_from(scaled).unwrap_or(count)
        };
        Self {
            rows: self.rows.min(units),
            samples: self.samples.min(units),
            blocks: part(self.blocks),
            bytes: part(self.bytes),
            gaps: self.gaps,
            ..Self::default()
        }
    }

    /// The counts without this part.
    fn without(&self, part: &Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(part.rows),
            samples: self.samples.saturating_sub(part.samples),
            blocks: self.blocks.saturating_sub(part.blocks),
            ticks: self.ticks.saturating_sub(part.ticks),
            bytes: self.bytes.saturating_sub(part.bytes),
            gaps: self.gaps.saturating_sub(part.gaps),
            ..*self
        }
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

/// What one write, or several in a row, added to a file.
#[derive(Debug)]
struct Stretch {
    end: u64, // offset in the file
    counts: BTreeMap<u32, WriteCounts>,
}

/// The maximum number of counts kept in all stretches. Above this, stretches are joined in pairs. If a file is cut off within a stretch
/// whose units cannot be counted, the whole stretch is lost.
const MOST_COUNTS: usize = 8_192;

/// Stands for forgotten tasks.
const FORGOTTEN: u32 = u32::MAX;

/// The counts of all tasks in a recording.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    stretches: Vec<Stretch>, // of the current file, in order
    began: u64,              // where the first stretch begins
    kept: usize,             // number of counts in all stretches
    settled: BTreeMap<u32, WriteCounts>,
    pending: BTreeMap<u32, WriteCounts>,
    missing: BTreeSet<u32>,   // tasks whose next block does not continue the previous one
    next: BTreeMap<u32, u64>, // where each task's next block should begin
    orphaned: WriteCounts,    // pending counts of forgotten tasks
}

impl Ledger {
    /// Adds counts that wait to be written.
    pub(super) fn pend(&mut self, id: u32, mut counts: WriteCounts) {
        if counts.has_blocks() && self.missing.remove(&id) {
            counts.gaps += 1;
        }
        *self.pending.entry(id).or_default() += counts;
    }

    /// Starts or continues a file: the next write begins at this offset.
    pub(super) fn begin(&mut self, offset: u64) {
        (self.stretches, self.kept, self.began) = (Vec::new(), 0, offset);
    }

    /// What was written since the file began and still exists.
    #[cfg(test)]
    fn in_file(&self) -> WriteCounts {
        let mut all = WriteCounts::default();
        self.stretches.iter().flat_map(|stretch| stretch.counts.values()).for_each(|counts| all += *counts);
        all
    }

    /// Settles the pending counts: they were written and the file now ends at this offset; `None`: they are lost.
    pub(super) fn settle(&mut self, end: Option<u64>) {
        let orphaned = std::mem::take(&mut self.orphaned);
        let mut pending = std::mem::take(&mut self.pending);
        let Some(end) = end else {
            pending.into_iter().for_each(|(id, counts)| self.lose(id, counts));
            return;
        };
        pending.iter().for_each(|(id, counts)| *self.settled.entry(*id).or_default() += *counts);
        if orphaned != WriteCounts::default() {
            pending.insert(FORGOTTEN, orphaned);
        }
        if !pending.is_empty() {
            let most = MOST_COUNTS.max(16 * pending.len());
            self.kept += pending.len();
            self.stretches.push(Stretch { end, counts: pending });
            if self.kept > most {
                self.thin();
            }
        }
    }

    /// Joins stretches in pairs.
    fn thin(&mut self) {
        let mut all = std::mem::take(&mut self.stretches).into_iter();
        while let Some(mut stretch) = all.next() {
            if let Some(Stretch { end, counts }) = all.next() {
                stretch.end = end;
                counts.into_iter().for_each(|(id, counts)| *stretch.counts.entry(id).or_default() += counts);
            }
            self.stretches.push(stretch);
        }
        self.kept = self.stretches.iter().map(|stretch| stretch.counts.len()).sum();
    }

    /// Another program has cut off the file at this offset. Counts everything written beyond it as lost, and returns those counts. `left`
    /// returns how many units remain from a given offset up to this one.
    pub(super) fn cut(&mut self, offset: u64, left: impl Fn(u64) -> u64) -> WriteCounts {
        let mut gone = WriteCounts::default();
        while let Some(last) = self.stretches.pop_if(|last| last.end > offset) {
            self.kept -= last.counts.len();
            let start = self.stretches.last().map_or(self.began, |before| before.end);
            let mut units = if start < offset { left(start) } else { 0 };
            let mut stays = BTreeMap::new();
            for (id, counts) in last.counts {
                let first = if units > 0 { counts.first(units) } else { WriteCounts::default() };
                units -= first.units().min(units);
                let lost = counts.without(&first);
                gone += lost;
                self.take_back(id, &lost);
                if first != WriteCounts::default() {
                    stays.insert(id, first);
                }
            }
            if !stays.is_empty() {
                self.kept += stays.len();
                self.stretches.push(Stretch { end: offset, counts: stays });
            }
        }
        self.began = self.began.min(offset);
        gone
    }

    /// Moves counts from written to lost.
    fn take_back(&mut self, id: u32, gone: &WriteCounts) {
        let Some(settled) = self.settled.get_mut(&id) else { return }; // a forgotten task
        *settled = settled.without(gone);
        settled.lost += gone.things();
        if gone.has_blocks() {
            self.missing.insert(id);
        }
    }

    /// Counts something as lost that will never be written.
    pub(super) fn lose(&mut self, id: u32, counts: WriteCounts) {
        if counts.has_blocks() {
            self.missing.insert(id);
        }
        self.settled.entry(id).or_default().lost += counts.things();
    }

    /// Must be called before a block of `count` samples at `index` is pended. Each gap counts once, when a block follows it, no matter how
    /// much is missing, and whether the data never arrived or could not be written.
    pub(super) fn block(&mut self, id: u32, index: u64, count: u64) {
        if self.next.insert(id, index + count).is_some_and(|next| next != index) {
            self.missing.insert(id);
        }
    }

    /// The task has left, and its counts are no longer needed. What is still pending counts only for the file.
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
            // As in a reload: data from the old task may be written after the task has left.
            ledger.block(id, 0, 10);
            ledger.pend(id, block);
            ledger.settle(Some(u64::from(id)));
            ledger.lose(id, block);
            ledger.block(id, 90, 10);
            ledger.pend(id, block);
            ledger.forget(id);
        }
        ledger.settle(Some(4));
        assert_eq!((ledger.of(0).blocks, ledger.of(0).gaps), (1, 0), "the task that stays");
        assert_eq!(ledger.in_file().blocks, 7);
        assert_eq!(ledger.cut(0, |_| 0).blocks, 7);
        assert_eq!((ledger.of(0).blocks, ledger.of(0).lost, ledger.in_file().blocks), (0, 1, 0));
        let Ledger { settled, pending, missing, next, orphaned, .. } = &ledger;
        assert_eq!((settled.len(), pending.len(), missing.len(), next.len()), (1, 0, 1, 1));
        assert_eq!(*orphaned, WriteCounts::default());
    }

    #[test]
    fn what_is_cut_off_is_taken_back_to_the_row_or_frame() {
        let rows = |rows| WriteCounts { rows, bytes: rows * 10, ..WriteCounts::default() };
        for (offset, kept) in [(900, 80), (899, 79), (500, 40), (455, 35), (100, 0), (0, 0)] {
            let mut ledger = Ledger::default();
            ledger.begin(100);
            for end in [300, 500, 900] {
                ledger.pend(3, rows((end - ledger.stretches.last().map_or(100, |last| last.end)) / 10));
                ledger.settle(Some(end));
            }
            let gone = ledger.cut(offset, |from| (offset - from) / 10);
            let WriteCounts { rows, lost, bytes, .. } = ledger.of(3);
            assert_eq!((rows, lost, gone.rows, bytes), (kept, 80 - kept, 80 - kept, kept * 10), "at {offset}");
            assert_eq!(ledger.in_file(), WriteCounts { lost: 0, ..ledger.of(3) });
        }
        let mut ledger = Ledger::default();
        ledger.pend(3, WriteCounts { blocks: 4, samples: 400, bytes: 1_600, ..WriteCounts::default() });
        ledger.settle(Some(1_600));
        ledger.cut(799, |from| (799 - from) / 4);
        let WriteCounts { blocks, samples, lost, .. } = ledger.of(3);
        assert_eq!((blocks, samples, lost), (1, 199, 3), "a block of which a part is gone is lost");
    }

    #[test]
    fn many_stretches_become_few_and_nothing_is_forgotten() {
        let mut ledger = Ledger::default();
        for end in 1..=100_000 {
            ledger.pend(3, WriteCounts { rows: 1, ..WriteCounts::default() });
            ledger.settle(Some(end));
        }
        assert!(ledger.kept <= MOST_COUNTS && ledger.stretches.len() == ledger.kept, "{}", ledger.kept);
        assert_eq!((ledger.of(3).rows, ledger.in_file().rows), (100_000, 100_000));
        assert_eq!(ledger.cut(54_321, |from| 54_321 - from).rows, 100_000 - 54_321);
        assert_eq!((ledger.of(3).rows, ledger.of(3).lost), (54_321, 100_000 - 54_321));
    }
}
