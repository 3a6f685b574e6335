//! Phases that keep the tasks of a CPU apart where that can be, chosen task by task. Pure and deterministic.

use super::placed::{CpuLayout, Placed, PlannedWorker};
use crate::pacing::{Load, between, common_divisor};
use crate::time::Span;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The most phases that are tried for a task.
const PHASES: usize = 192;

/// These workers, with phases that keep their tasks apart where that can be.
pub(super) fn with_phases(tasks: &[Placed], groups: &[Vec<usize>]) -> CpuLayout {
    let level = |task: usize| groups.iter().position(|group| group.contains(&task)).unwrap_or(0);
    let mut order: Vec<usize> = groups.concat();
    order.sort_by_key(|task| (tasks[*task].rate.period(), tasks[*task].deadline, *task));
    let mut phases: BTreeMap<usize, Span> = BTreeMap::new();
    let readable = |phase: Span| (phase.nanos() % 1_000 != 0, phase);
    // Phases that were given come first: the others have to keep away from them.
    phases.extend(order.iter().filter_map(|task| Some((*task, tasks[*task].phase?))));
    for task in order.into_iter().filter(|task| tasks[*task].phase.is_none()) {
        let tried = candidates(tasks, task, &phases)
            .into_iter()
            .map(|phase| (cost(tasks, task, phase, &phases, &level), phase));
        let best = tried.min_by(|a, b| a.0.compare(&b.0).then(readable(a.1).cmp(&readable(b.1))));
        phases.insert(task, best.map_or(Span::ZERO, |(_, phase)| phase));
    }
    let worker = |group: &Vec<usize>| PlannedWorker { tasks: group.iter().map(|task| (*task, phases[task])).collect() };
    CpuLayout { workers: groups.iter().map(worker).collect() }
}

fn at(task: &Placed, phase: Span) -> Load {
    Load { rate: task.rate, phase, deadline: task.deadline, run: task.run }
}

/// What a phase costs: the largest wait as a share of its deadline, the sum of all, and how close ticks come.
struct Cost {
    largest: f64,
    sum: f64,
    gap: Span,
}

impl Cost {
    fn compare(&self, other: &Self) -> Ordering {
        // To a microsecond: smaller differences are not worth a phase that is hard to read.
        let gap = (other.gap.nanos() / 1_000).cmp(&(self.gap.nanos() / 1_000));
        self.largest.total_cmp(&other.largest).then(self.sum.total_cmp(&other.sum)).then(gap)
    }
}

fn cost(
    tasks: &[Placed],
    task: usize,
    phase: Span,
    phases: &BTreeMap<usize, Span>,
    level: &impl Fn(usize) -> usize,
) -> Cost {
    let mut cost = Cost { largest: 0.0, sum: 0.0, gap: Span::MAX };
    let mine = at(&tasks[task], phase);
    for (other, other_phase) in phases {
        let theirs = at(&tasks[*other], *other_phase);
        let (pair, waits) = match level(task).cmp(&level(*other)) {
            Ordering::Greater => {
                let pair = between(&theirs, &mine, true);
                (pair, [pair.waits[1], pair.waits[0]])
            }
            order => {
                let pair = between(&mine, &theirs, order == Ordering::Less);
                (pair, pair.waits)
            }
        };
        for (wait, deadline) in waits.into_iter().zip([mine.deadline, theirs.deadline]) {
            let share = wait.seconds() / deadline.seconds();
            cost.largest = cost.largest.max(share);
            cost.sum += share;
        }
        cost.gap = cost.gap.min(pair.gap);
    }
    cost
}

/// Phases at which a task begins just after one of the others, ends just before it, or lies in the middle between.
fn candidates(tasks: &[Placed], task: usize, phases: &BTreeMap<usize, Span>) -> Vec<Span> {
    let mine = &tasks[task];
    let period = mine.rate.period();
    let mut all = vec![0];
    for (other, phase) in phases {
        let theirs = &tasks[*other];
        let (unit, common) = common_divisor(mine.rate, theirs.rate);
        let common = (common / unit).max(1);
        let (run, before) = (i128::from(theirs.run.nanos()), common - i128::from(mine.run.nanos()));
        let times = i128::from(period.nanos()) / common + 1;
        let step = usize::try_from(times / 24 + 1).unwrap_or(usize::MAX);
        for place in [run, (run + before) / 2, before] {
            let first = (i128::from(phase.nanos()) + place).rem_euclid(common);
            all.extend((0..times).step_by(step).map(|nth| first + nth * common));
        }
    }
    // Whole microseconds where there is room: they are for people to read.
    all.extend(all.clone().iter().map(|nanos| (nanos + 999) / 1_000 * 1_000));
    all.retain(|nanos| (0..i128::from(period.nanos())).contains(nanos));
    all.sort_by_key(|nanos| (nanos % 1_000 != 0, *nanos));
    all.dedup();
    let step = all.len().div_ceil(PHASES).max(1);
    all.into_iter().step_by(step).map(Span::from_wide).collect()
}
