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
    places: BTreeMap<String, usize>, // of these, by name
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
    first: i64, // of the bins of all tasks
    last: i64,
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
        let BinGrid { origin, width, first, .. } = self.grid?;
        Some((origin + first * width, Span::from_nanos(width)))
    }

    /// The bins of a task: how many there are before each, counted from the first of all, and what happened in it.
    pub(crate) fn bins<'a>(&'a self, task: &'a TaskDigest) -> impl Iterator<Item = (i64, &'a Bin)> {
        let first = self.grid.map_or(0, |grid| grid.first);
        task.bins.iter().map(move |(key, bin)| (key - first, bin))
    }

    /// The task with this name.
    pub(super) fn task(&self, name: &str) -> Option<&TaskDigest> {
        self.places.get(name).map(|place| &self.tasks[*place])
    }

    pub(super) fn worst(&self) -> Option<WorstStretch> {
        self.worst
    }

    /// Enters the next piece.
    pub(super) fn add(&mut self, piece: &Piece) {
        for (name, told) in piece.told() {
            let place = self.places.get(name).copied().unwrap_or_else(|| {
                self.places.insert(name.clone(), self.tasks.len());
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
        let new = BinGrid { origin, width: NARROWEST, first: i64::MAX, last: i64::MIN };
        let grid = self.grid.get_or_insert(new);
        // A bin is at least as long as what is put into it, in whole seconds.
        while grid.width <= stretch.length().nanos().min(i64::MAX / 2) {
            double(grid, &mut self.tasks);
        }
        let key = stretch.from.saturating_sub(grid.origin).div_euclid(grid.width);
        (grid.first, grid.last) = (grid.first.min(key), grid.last.max(key));
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
        while usize::try_from(grid.last.saturating_sub(grid.first)).unwrap_or(usize::MAX) >= most {
            double(grid, &mut self.tasks);
        }
    }
}

/// Makes one bin of two.
fn double(grid: &mut BinGrid, tasks: &mut [TaskDigest]) {
    grid.width = grid.width.saturating_mul(2);
    (grid.first, grid.last) = (grid.first.div_euclid(2), grid.last.div_euclid(2));
    for task in tasks {
        for (key, bin) in std::mem::take(&mut task.bins) {
            task.bins.entry(key.div_euclid(2)).or_default().add(&bin);
        }
    }
}
