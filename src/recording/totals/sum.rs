//! The totals of a recording's ticks, as a reader gets them. Their size does not depend on the recording's length. Pure.

use super::tally::{Bin, Tally};
use crate::recording::content::RecordedTick;
use crate::time::{NANOS_PER_SECOND, Span};
use std::collections::BTreeMap;

/// Limits on the number of bins: the maximum per task, the maximum for all tasks together, and the minimum per task, which takes
/// precedence.
const MOST_BINS: usize = 240;
const MOST_OF_ALL: usize = 48_000;
const FEWEST_BINS: usize = 24;

/// The narrowest bins are 1/512 s wide. Every doubling of that width, up to one second, divides a second evenly.
const NARROWEST: i64 = NANOS_PER_SECOND >> 9;

/// What a recording says about its ticks, in few numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// In the order in which they were found.
    pub(crate) tasks: Vec<TaskTotals>,
    places: BTreeMap<String, usize>, // by name: the index in `tasks`
    grid: Option<BinGrid>,
    worst: Option<TaskSecond>,
}

/// One task in the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTotals {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    bins: BTreeMap<i64, Bin>,
    second: Option<TaskSecond>, // the second of its most recent tick
}

/// The grid on which the bins of all tasks lie.
#[derive(Clone, Copy, Debug)]
struct BinGrid {
    origin: i64, // a whole second of UTC
    width: i64,
    first: i64, // the first bin of any task
    last: i64,
}

/// One second of a task.
#[derive(Clone, Copy, Debug)]
struct TaskSecond {
    rank: (u64, i64), // releases missed, and the largest lateness
    task: usize,
    from: i64,
}

impl Totals {
    /// Where the first bin of all tasks begins, in nanoseconds since 1970 (UTC), and the width of a bin.
    pub(crate) fn bins_from(&self) -> Option<(i64, Span)> {
        let BinGrid { origin, width, first, .. } = self.grid?;
        Some((origin + first * width, Span::from_nanos(width)))
    }

    /// The bins of a task, each with its position counted from the first bin of all tasks.
    pub(crate) fn bins<'a>(&'a self, task: &'a TaskTotals) -> impl Iterator<Item = (i64, &'a Bin)> {
        let first = self.grid.map_or(0, |grid| grid.first);
        task.bins.iter().map(move |(key, bin)| (key - first, bin))
    }

    /// The whole UTC second in which a single task missed the most (or, if nothing was missed, had the worst lateness), and that task.
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

    /// Makes bins wider until there are few enough.
    fn widen(&mut self) {
        let Some(grid) = &mut self.grid else { return };
        let most = (MOST_OF_ALL / self.tasks.len().max(1)).clamp(FEWEST_BINS, MOST_BINS);
        while usize::try_from(grid.last.saturating_sub(grid.first)).unwrap_or(usize::MAX) >= most {
            double(grid, &mut self.tasks);
        }
    }
}

/// Joins bins in pairs.
fn double(grid: &mut BinGrid, tasks: &mut [TaskTotals]) {
    grid.width = grid.width.saturating_mul(2);
    (grid.first, grid.last) = (grid.first.div_euclid(2), grid.last.div_euclid(2));
    for task in tasks {
        for (key, bin) in std::mem::take(&mut task.bins) {
            task.bins.entry(key.div_euclid(2)).or_default().add(&bin);
        }
    }
}
