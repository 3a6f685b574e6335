//! All pieces of a recording, summed up: what a reader gets. Its size does not depend on the recording's. Pure.

use super::piece::{Piece, Stretch};
use super::tally::{Bin, Tally};
use crate::time::{NANOS_PER_SECOND, Span};
use std::collections::BTreeMap;

/// Bins of a task at most, and of all tasks together if that leaves enough for each.
const MOST_BINS: usize = 240;
const MOST_OF_ALL: usize = 48_000;
const FEWEST_BINS: usize = 24;

/// The narrowest bins are 1/512 s wide; each doubling of that up to a second divides it.
const NARROWEST: i64 = NANOS_PER_SECOND >> 9;

/// What a recording tells of the ticks in it, in few numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    /// In the order in which they were found.
    pub(crate) tasks: Vec<TaskDigest>,
    grid: Option<BinGrid>,
    worst: Option<WorstStretch>,
}

/// One task of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskDigest {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    bins: BTreeMap<i64, Bin>,
}

/// Where the bins of all tasks begin.
#[derive(Clone, Copy, Debug)]
struct BinGrid {
    origin: i64, // a whole second of UTC
    width: i64,
}

/// Where most was missed.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorstStretch {
    rank: (u64, i64), // releases missed, and the largest lateness
    pub(super) task: usize,
    pub(super) from: i64,
    pub(super) until: i64,
}

impl Digest {
    /// Where the first bin of all begins, in nanoseconds since 1970 (UTC), and how wide bins are.
    pub(crate) fn bins_from(&self) -> Option<(i64, Span)> {
        let BinGrid { origin, width } = self.grid?;
        let first = self.tasks.iter().filter_map(|task| task.bins.keys().next()).min()?;
        Some((origin + first * width, Span::from_nanos(width)))
    }

    /// The bins of a task: how many there are before each, counted from the first of all, and what happened in it.
    pub(crate) fn bins<'a>(&'a self, task: &'a TaskDigest) -> impl Iterator<Item = (i64, &'a Bin)> {
        let first = self.tasks.iter().filter_map(|task| task.bins.keys().next()).min().copied().unwrap_or(0);
        task.bins.iter().map(move |(key, bin)| (key - first, bin))
    }

    pub(super) fn worst(&self) -> Option<WorstStretch> {
        self.worst
    }

    /// Enters the next piece.
    pub(super) fn add(&mut self, piece: &Piece) {
        for (name, told) in piece.told() {
            let place = self.tasks.iter().position(|task| task.name == *name).unwrap_or_else(|| {
                self.tasks.push(TaskDigest { name: name.clone(), ..TaskDigest::default() });
                self.tasks.len() - 1
            });
            self.tasks[place].tally.add(&told.tally);
            for stretch in &told.stretches {
                self.add_stretch(place, stretch);
            }
        }
        self.widen();
    }

    fn add_stretch(&mut self, place: usize, stretch: &Stretch) {
        let origin = stretch.from.div_euclid(NANOS_PER_SECOND) * NANOS_PER_SECOND;
        let grid = self.grid.get_or_insert(BinGrid { origin, width: NARROWEST });
        // A bin is at least as long as what is put into it, in whole seconds.
        while grid.width <= stretch.length().nanos().min(i64::MAX / 2) {
            double(grid, &mut self.tasks);
        }
        let key = stretch.from.saturating_sub(grid.origin).div_euclid(grid.width);
        self.tasks[place].bins.entry(key).or_default().add(&stretch.bin);
        let rank = (stretch.bin.missed(), stretch.bin.lateness.max().nanos());
        if self.worst.is_none_or(|worst| rank > worst.rank) {
            self.worst = Some(WorstStretch { rank, task: place, from: stretch.from, until: stretch.until });
        }
    }

    /// Makes bins so wide that there are few enough.
    fn widen(&mut self) {
        let Some(grid) = &mut self.grid else { return };
        let most = (MOST_OF_ALL / self.tasks.len().max(1)).clamp(FEWEST_BINS, MOST_BINS);
        loop {
            let keys = || self.tasks.iter().flat_map(|task| task.bins.keys());
            let (first, last) = (keys().min().copied().unwrap_or(0), keys().max().copied().unwrap_or(0));
            if usize::try_from(last.saturating_sub(first)).unwrap_or(usize::MAX) < most {
                return;
            }
            double(grid, &mut self.tasks);
        }
    }
}

/// Makes one bin of two.
fn double(grid: &mut BinGrid, tasks: &mut [TaskDigest]) {
    grid.width = grid.width.saturating_mul(2);
    for task in tasks {
        for (key, bin) in std::mem::take(&mut task.bins) {
            task.bins.entry(key.div_euclid(2)).or_default().add(&bin);
        }
    }
}
