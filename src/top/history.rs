//! A task's recent activity, from the snapshots of the last ten seconds. Pure; time is the daemon's own.
//!
//! Every figure is the difference of two snapshots, so it covers a known time. A daemon or task that has restarted is never compared with
//! its earlier self.

use crate::snapshot::{Counts, DaemonSummary, Summary, TaskSummary};
use crate::time::{NANOS_PER_SECOND, Span};
use std::collections::{BTreeMap, VecDeque};

/// How far back to look. Snapshots do not arrive to the millisecond.
const OVER: i64 = NANOS_PER_SECOND * 21 / 2;

/// Maximum number of snapshots in the lateness graph.
const SHOWN: usize = 60;

/// The totals of one task at one moment.
#[derive(Clone, Debug)]
struct Point {
    at: i64,
    counts: Counts,
    run: Option<i128>, // the sum of all runs reported in records
    late: Vec<(i64, u64)>,
}

/// What happened between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) worst: Option<i64>, // the maximum lateness, rounded up; None: it did not tick, or that is unknown
    pub(super) missed: u64,
}

/// A task over the last few seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recent {
    pub(super) over: Option<Span>,   // the time covered; None: since the start
    pub(super) reached: Option<f64>, // ticks per second
    pub(super) late_is_of_all: bool, // p50 and p99 cover all time since the start, because the daemon does not send their histogram
    pub(super) p50: Option<i64>,     // of lateness, rounded up
    pub(super) p99: Option<i64>,
    pub(super) run: Option<i64>,   // mean
    pub(super) share: Option<f64>, // of a CPU
    pub(super) steps: Vec<Step>,   // oldest first
}

#[derive(Clone, Debug, Default)]
struct Past {
    points: VecDeque<Point>,
    steps: VecDeque<Step>,
}

/// What is kept of past snapshots.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pid: u32,
    tasks: BTreeMap<String, Past>,
}

impl History {
    /// Adds the next snapshot.
    pub(super) fn enter(&mut self, snapshot: &Summary, daemon: &DaemonSummary) {
        if self.pid != daemon.pid {
            *self = Self { pid: daemon.pid, ..Self::default() };
        }
        let counted_at = daemon.running_ns.saturating_sub(daemon.stale_ns.unwrap_or(0));
        let mut before = std::mem::take(&mut self.tasks);
        for task in &snapshot.tasks {
            let mut past = before.remove(&task.task).unwrap_or_default();
            past.enter(Point::of(task, counted_at));
            self.tasks.insert(task.task.clone(), past);
        }
    }

    /// A task's recent activity up to the newest snapshot, which contains `task`.
    pub(super) fn recent(&self, task: &TaskSummary) -> Recent {
        let all = since_begin(task);
        let Some(recent) = self.tasks.get(&task.task).and_then(Past::recent) else { return all };
        match task.lateness_histogram_ns.is_empty() && task.lateness_ns.count > 0 {
            true => Recent { late_is_of_all: true, p50: all.p50, p99: all.p99, ..recent },
            false => recent,
        }
    }
}

/// The figures since the start, if there is nothing to compare with.
fn since_begin(task: &TaskSummary) -> Recent {
    let (late, run) = (&task.lateness_ns, &task.run_ns);
    let of_late = |nanos| (late.count > 0).then_some(nanos);
    let run = (run.count > 0).then_some(run.mean);
    Recent { late_is_of_all: true, p50: of_late(late.p50), p99: of_late(late.p99), run, ..Recent::default() }
}

impl Past {
    fn enter(&mut self, point: Point) {
        if let Some(last) = self.points.back() {
            if point.counts.due < last.counts.due || point.counts.ran < last.counts.ran {
                *self = Self::default(); // it has restarted
            } else if point.at <= last.at {
                return; // nothing has been counted since
            } else {
                let late = difference(&last.late, &point.late);
                self.steps.push_back(Step {
                    worst: late.last().map(|(edge, _)| *edge),
                    missed: point.counts.missed.saturating_sub(last.counts.missed),
                });
            }
        }
        let from = point.at.saturating_sub(OVER);
        self.points.push_back(point);
        while self.points.len() > 2 && self.points.front().is_some_and(|first| first.at < from) {
            self.points.pop_front();
        }
        while self.steps.len() > SHOWN {
            self.steps.pop_front();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    fn recent(&self) -> Option<Recent> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let over = last.at.saturating_sub(first.at);
        if over <= 0 {
            return None;
        }
        let late = difference(&first.late, &last.late);
        let ran = last.counts.ran - first.counts.ran;
        let run = last.run.zip(first.run);
        let run = run.map(|(last, first)| Span::from_wide(last.saturating_sub(first).max(0)).nanos());
        let per_second = |amount: f64| amount / (over as f64 / NANOS_PER_SECOND as f64);
        Some(Recent {
            over: Some(Span::from_nanos(over)),
            late_is_of_all: false,
            reached: Some(per_second(ran as f64)),
            p50: at_share(&late, 50),
            p99: at_share(&late, 99),
            run: run.filter(|_| ran > 0).map(|run| run / i64::try_from(ran).unwrap_or(i64::MAX)),
            share: run.map(|run| run as f64 / over as f64),
            steps: self.steps.iter().copied().collect(),
        })
    }
}

impl Point {
    fn of(task: &TaskSummary, at: i64) -> Self {
        Self {
            at,
            counts: task.counts,
            run: (task.run_ns.count > 0).then_some(task.run_ns.sum),
            late: task.lateness_histogram_ns.clone(),
        }
    }
}

/// What a later histogram has in addition to an earlier one. Both are in ascending order.
fn difference(earlier: &[(i64, u64)], later: &[(i64, u64)]) -> Vec<(i64, u64)> {
    let before = |edge| earlier.binary_search_by_key(&edge, |(edge, _)| *edge).map_or(0, |index| earlier[index].1);
    let pairs = later.iter().map(|&(edge, count)| (edge, count.saturating_sub(before(edge))));
    pairs.filter(|(_, count)| *count > 0).collect()
}

/// The edge at or below which this percentage of the counts lies.
fn at_share(histogram: &[(i64, u64)], percent: u64) -> Option<i64> {
    let all: u128 = histogram.iter().map(|(_, count)| u128::from(*count)).sum();
    let rank = (all * u128::from(percent)).div_ceil(100).max(1);
    let mut passed = 0_u128;
    histogram
        .iter()
        .find(|(_, count)| {
            passed += u128::from(*count);
            passed >= rank
        })
        .map(|(edge, _)| *edge)
}
