//! The ticks of a recording, summed up: what a reader gets. Its size does not depend on the recording's. Pure.

use super::tally::{Bin, Tally};
use crate::recording::content::RecordedTick;
use crate::time::{NANOS_PER_SECOND, Span};
use std::collections::BTreeMap;

/// Bins of a task at most, and of all tasks together if that leaves enough for each.
const MOST_BINS: usize = 240;
const MOST_OF_ALL: usize = 48_000;
const FEWEST_BINS: usize = 24;

/// The narrowest bins are 1/512 s wide; each doubling of that up to a second divides it.
const NARROWEST: i64 = NANOS_PER_SECOND >> 9;

/// What a recording says about the ticks in it, in few numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// In the order in which they were found.
    pub(crate) tasks: Vec<TaskTotals>,
    places: BTreeMap<String, usize>, // of these, by name
    grid: Option<BinGrid>,
    worst: Option<TaskSecond>,
}

/// One task of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTotals {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    bins: BTreeMap<i64, Bin>,
    second: Option<TaskSecond>, // that of its latest tick
}

/// Where the bins of all tasks begin.
#[derive(Clone, Copy, Debug)]
struct BinGrid {
    origin: i64, // a whole second of UTC
    width: i64,
    first: i64, // of the bins of all tasks
    last: i64,
}

/// A second of a task.
#[derive(Clone, Copy, Debug)]
struct TaskSecond {
    rank: (u64, i64), // releases missed, and the largest lateness
    task: usize,
    from: i64,
}

impl Totals {
    /// Where the first bin of all begins, in nanoseconds since 1970 (UTC), and how wide bins are.
    pub(crate) fn bins_from(&self) -> Option<(i64, Span)> {
        let BinGrid { origin, width, first, .. } = self.grid?;
        Some((origin + first * width, Span::from_nanos(width)))
    }

    /// The bins of a task: how many there are before each, counted from the first of all, and what happened in it.
    pub(crate) fn bins<'a>(&'a self, task: &'a TaskTotals) -> impl Iterator<Item = (i64, &'a Bin)> {
        let first = self.grid.map_or(0, |grid| grid.first);
        task.bins.iter().map(move |(key, bin)| (key - first, bin))
    }

    /// The whole second of UTC in which a task missed most, or was latest if nothing was missed, and the task.
    pub(super) fn worst(&self) -> Option<(i64, &str)> {
        self.worst.map(|TaskSecond { task, from, .. }| (from, &*self.tasks[task].name))
    }

    /// Enters the next tick of a task, released at `at`.
    pub(super) fn tick(&mut self, task: &str, tick: &RecordedTick, at: i64) {
        let place = self.places.get(task).copied().unwrap_or_else(|| {
            self.places.insert(task.to_owned(), self.tasks.len());
            self.tasks.push(TaskTotals { name: task.to_owned(), ..TaskTotals::default() });
            self.tasks.len() - 1
        });
        let from = at.div_euclid(NANOS_PER_SECOND) * NANOS_PER_SECOND;
        let grid = self.grid.get_or_insert(BinGrid { origin: from, width: NARROWEST, first: i64::MAX, last: i64::MIN });
        let key = at.saturating_sub(grid.origin).div_euclid(grid.width);
        (grid.first, grid.last) = (grid.first.min(key), grid.last.max(key));
        let task = &mut self.tasks[place];
        task.tally.enter(tick, at);
        task.bins.entry(key).or_default().enter(tick);
        let before = task.second.filter(|second| second.from == from).map_or((0, i64::MIN), |second| second.rank);
        let missed = tick.skipped + u64::from(tick.overrun().is_some());
        let second = TaskSecond { rank: (before.0 + missed, before.1.max(tick.lateness.nanos())), task: place, from };
        task.second = Some(second);
        if self.worst.is_none_or(|worst| second.rank > worst.rank) {
            self.worst = Some(second);
        }
        self.widen();
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
fn double(grid: &mut BinGrid, tasks: &mut [TaskTotals]) {
    grid.width = grid.width.saturating_mul(2);
    (grid.first, grid.last) = (grid.first.div_euclid(2), grid.last.div_euclid(2));
    for task in tasks {
        for (key, bin) in std::mem::take(&mut task.bins) {
            task.bins.entry(key.div_euclid(2)).or_default().add(&bin);
        }
    }
}
