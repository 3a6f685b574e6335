//! Chooses phases, task by task, that keep the tasks of a CPU apart where possible. Pure and deterministic.

use super::placed::{CpuLayout, Placed, PlannedWorker, chains};
use crate::pacing::{Load, between, common_divisor};
use crate::time::Span;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Maximum number of phases tried for a task.
const PHASES: usize = 192;

/// These workers, with phases that keep their tasks apart where possible.
pub(super) fn with_phases(tasks: &[Placed], groups: &[Vec<usize>]) -> CpuLayout {
    let level = |task: usize| groups.iter().position(|group| group.contains(&task)).unwrap_or(0);
    let mut order = chains(tasks, &groups.concat());
    order
        .sort_by_key(|chain| chain.iter().map(|task| (tasks[*task].rate.period(), tasks[*task].deadline, *task)).min());
    // Fixed phases come first: the others have to keep away from them.
    let (given, free): (Vec<_>, Vec<_>) =
        order.into_iter().partition(|chain| chain.iter().any(|task| tasks[*task].phase.is_some()));
    let given = given.concat().into_iter().map(|task| (task, tasks[task].phase.unwrap_or(tasks[task].now)));
    let mut phases: BTreeMap<usize, Span> = given.collect();
    for chain in free {
        let tried = moves(tasks, &chain, &phases).into_iter().map(|by| {
            let moved: Vec<_> = chain.iter().map(|task| (*task, moved(&tasks[*task], &chain, by))).collect();
            (cost(tasks, &moved, &phases, &level), moved)
        });
        let readable = |moved: &[(usize, Span)]| (moved[0].1.nanos() % 1_000 != 0, moved[0].1);
        let best = tried.min_by(|(a, at), (b, other)| a.compare(b).then(readable(at).cmp(&readable(other))));
        phases.extend(best.map(|(_, moved)| moved).unwrap_or_default());
    }
    let worker = |group: &Vec<usize>| PlannedWorker { tasks: group.iter().map(|task| (*task, phases[task])).collect() };
    CpuLayout { workers: groups.iter().map(worker).collect() }
}

/// The phase of a task whose chain is moved by `by`. A task in no chain is moved from 0.
fn moved(task: &Placed, chain: &[usize], by: Span) -> Span {
    let from = if chain.len() > 1 { task.now } else { Span::ZERO };
    Span::from_nanos((from + by).nanos().rem_euclid(task.rate.period().nanos().max(1)))
}

fn at(task: &Placed, phase: Span) -> Load {
    Load { rate: task.rate, phase, turn: task.deadline.into(), run: task.run }
}

/// The cost of a phase: the largest wait as a share of its deadline, the sum of all such shares, and how close ticks come.
struct Cost {
    largest: f64,
    sum: f64,
    gap: Span,
}

impl Cost {
    fn compare(&self, other: &Self) -> Ordering {
        // To a microsecond: a smaller difference is not worth a phase that is hard to read.
        let gap = (other.gap.nanos() / 1_000).cmp(&(self.gap.nanos() / 1_000));
        self.largest.total_cmp(&other.largest).then(self.sum.total_cmp(&other.sum)).then(gap)
    }
}

fn cost(
    tasks: &[Placed],
    chain: &[(usize, Span)],
    phases: &BTreeMap<usize, Span>,
    level: &impl Fn(usize) -> usize,
) -> Cost {
    let mut cost = Cost { largest: 0.0, sum: 0.0, gap: Span::MAX };
    for ((task, phase), (other, other_phase)) in chain.iter().flat_map(|one| phases.iter().map(move |two| (one, two))) {
        let (mine, theirs) = (at(&tasks[*task], *phase), at(&tasks[*other], *other_phase));
        let (pair, waits) = match level(*task).cmp(&level(*other)) {
            Ordering::Greater => {
                let pair = between(&theirs, &mine, true);
                (pair, [pair.waits[1], pair.waits[0]])
            }
            order => {
                let pair = between(&mine, &theirs, order == Ordering::Less);
                (pair, pair.waits)
            }
        };
        for (wait, task) in waits.into_iter().zip([*task, *other]) {
            let share = wait.seconds() / tasks[task].deadline.seconds();
            cost.largest = cost.largest.max(share);
            cost.sum += share;
        }
        cost.gap = cost.gap.min(pair.gap);
    }
    cost
}

/// Distances to move a chain so that one of its tasks begins just after another task, ends just before it, or lies midway.
fn moves(tasks: &[Placed], chain: &[usize], phases: &BTreeMap<usize, Span>) -> Vec<Span> {
    let longest = chain.iter().map(|task| tasks[*task].rate.period().nanos()).max().unwrap_or(1);
    let mut all = vec![0];
    for (task, (other, phase)) in chain.iter().flat_map(|task| phases.iter().map(move |other| (*task, other))) {
        let (mine, theirs) = (&tasks[task], &tasks[*other]);
        let (unit, common) = common_divisor(mine.rate, theirs.rate);
        let common = (common / unit).max(1);
        let (run, before) = (i128::from(theirs.run.nanos()), common - i128::from(mine.run.nanos()));
        let times = i128::from(longest) / common + 1;
        let step = usize::try_from(times / 24 + 1).unwrap_or(usize::MAX);
        let from = moved(mine, chain, Span::ZERO);
        for place in [run, (run + before) / 2, before] {
            let first = (i128::from((*phase - from).nanos()) + place).rem_euclid(common);
            all.extend((0..times).step_by(step).map(|nth| first + nth * common));
        }
    }
    // Add whole microseconds where possible: people read these phases.
    all.extend(all.clone().iter().map(|nanos| (nanos + 999) / 1_000 * 1_000));
    all.retain(|nanos| (0..i128::from(longest)).contains(nanos));
    all.sort_by_key(|nanos| (nanos % 1_000 != 0, *nanos));
    all.dedup();
    let step = all.len().div_ceil(PHASES).max(1);
    all.into_iter().step_by(step).map(Span::from_wide).collect()
}
