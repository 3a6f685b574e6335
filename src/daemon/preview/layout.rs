//! Finds the layout of workers, CPUs and phases that keeps each task's worst response lowest. Pure and deterministic.
//!
//! Layouts are compared by how long each task waits at worst, as a share of its deadline: first the largest share, then the next, and so
//! on. Then the load of the fullest CPU counts, then the number of workers. A layout that `hertzd check` would object to comes after all
//! others. Layouts with chains older than their `max-latency` come after those without.
//!
//! Up to [`ALL`] tasks, every distribution over the CPUs is tried. With more tasks, each goes to the least loaded CPU, the largest load
//! first, and then single tasks are moved while that helps. On a CPU, tasks with shorter deadlines may get a worker that interrupts the
//! others. Phases are chosen task by task, shortest period first. A task's fixed phase or CPU stays. Tasks of one chain are placed
//! together, and their phases move together. If chains are still too old, other ways to keep tasks together are tried.

mod phases;
mod placed;

use super::capacity::{Claim, objections};
use crate::pacing::{Load, Responses, Tail, Turn, responses};
use crate::time::Span;
use phases::with_phases;
pub(crate) use placed::{Chains, CpuLayout, Placed, PlannedWorker, Spot, TooOld};
use placed::{chains, turns};
use std::collections::BTreeMap;

/// Up to this many tasks, every way is tried.
pub(crate) const ALL: usize = 7;

/// Maximum number of tasks that are planned.
pub(crate) const MOST: usize = 256;

/// Ticks examined to compare two layouts, and for the result.
const TICKS: usize = 4_000;
pub(crate) const MANY_TICKS: usize = 5_000_000;

/// Layouts of single CPUs that are examined if not all are.
const LOOKS: usize = 400;

/// A layout of all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) cpus: Vec<CpuLayout>,
    /// Every way to distribute the tasks was tried.
    pub(crate) all_tried: bool,
    /// It differs from the previous layout.
    pub(crate) changed: bool,
}

/// How good a layout is. Less is better; the first difference decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    objections: usize, // of `hertzd check` to the load of CPUs and workers
    too_old: TooOld,
    waits: Vec<u64>, // in thousandths of the deadline, the largest first
    load: u64,       // of the fullest CPU, in thousandths
    workers: usize,
}

/// A layout of one CPU, the worst responses of its tasks, and its own score.
#[derive(Clone, Debug)]
struct Judged {
    layout: CpuLayout,
    worst: Vec<Vec<Span>>,
    score: Score,
}

/// The best layout found for this many CPUs, or `now` if none is better.
pub(crate) fn plan(tasks: &[Placed], cpus: usize, now: Option<Vec<CpuLayout>>, chains: &Chains<'_>) -> Layout {
    let (mut found, mut layout) = search(tasks, cpus, chains);
    for together in chains.together {
        if found.too_old.chains == 0 {
            break;
        }
        let placed = tasks.iter().zip(together).map(|(task, chain)| Placed { chain: *chain, ..task.clone() });
        let (score, other) = search(&placed.collect::<Vec<_>>(), cpus, chains);
        if score < found {
            (found, layout) = (score, other);
        }
    }
    let all_tried = tasks.len() <= ALL;
    let of_now = now.map(|cpus| {
        let judged: Vec<_> = cpus.iter().map(|cpu| judge(tasks, cpu.clone(), chains)).collect();
        (Score::of(tasks.len(), &judged, chains), cpus)
    });
    match of_now.filter(|(score, _)| *score <= found) {
        Some((_, cpus)) => Layout { cpus, all_tried, changed: false },
        None => Layout { cpus: layout, all_tried, changed: true },
    }
}

/// The best of the layouts that keep these chains together.
fn search(tasks: &[Placed], cpus: usize, judge: &Chains<'_>) -> (Score, Vec<CpuLayout>) {
    let all: Vec<usize> = (0..tasks.len()).collect();
    let mut search = Search { tasks, chains: chains(tasks, &all), judge, known: BTreeMap::new() };
    let sets = if tasks.len() <= ALL { search.every_way(cpus) } else { search.spread(cpus) };
    (search.score(&sets), sets.into_iter().map(|set| search.cpu(&set).layout).collect())
}

/// The worst responses on a CPU if each sleep ends this `late`.
pub(crate) fn on_cpu(tasks: &[Placed], cpu: &CpuLayout, late: Span, ticks: usize) -> Responses {
    let load = |((task, phase), turn): (&(usize, Span), Turn)| {
        let Placed { rate, run, .. } = tasks[*task];
        Load { rate, phase: *phase, turn, run }
    };
    let of = |worker: &PlannedWorker| worker.tasks.iter().zip(turns(tasks, worker)).map(load).collect();
    let loads: Vec<Vec<_>> = cpu.workers.iter().map(of).collect();
    responses(&loads, late, ticks)
}

impl Score {
    /// The score of several CPUs together, for this many tasks.
    fn of(tasks: usize, cpus: &[Judged], chains: &Chains<'_>) -> Self {
        let mut total = Self::default();
        let (mut spots, mut worker) = (vec![None; tasks], 0);
        for Judged { layout, worst, score } in cpus {
            total.objections += score.objections;
            total.waits.extend(&score.waits);
            total.load = total.load.max(score.load);
            total.workers += score.workers;
            for (placed, worst) in layout.workers.iter().zip(worst) {
                for ((task, phase), worst) in placed.tasks.iter().zip(worst) {
                    spots[*task] = Some(Spot { worker, phase: *phase, worst: *worst });
                }
                worker += 1;
            }
        }
        total.too_old = (chains.too_old)(&spots);
        total.waits.sort_unstable_by(|a, b| b.cmp(a));
        total
    }
}

struct Search<'a> {
    tasks: &'a [Placed],
    /// Units that are placed together: a chain, or a task in no chain.
    chains: Vec<Vec<usize>>,
    judge: &'a Chains<'a>,
    known: BTreeMap<Vec<usize>, Judged>,
}

impl Search<'_> {
    /// Tries each way to distribute the chains over CPUs. Returns the first of the best.
    fn every_way(&mut self, cpus: usize) -> Vec<Vec<usize>> {
        let mut best: Option<(Score, Vec<Vec<usize>>)> = None;
        let mut on = vec![0; self.chains.len()];
        loop {
            let on_cpu = |cpu: usize| {
                let chains = self.chains.iter().zip(&on).filter(|(_, on)| **on == cpu);
                let mut set: Vec<usize> = chains.flat_map(|(chain, _)| chain.iter().copied()).collect();
                set.sort_unstable();
                set
            };
            let sets: Vec<Vec<usize>> = (0..cpus).map(on_cpu).collect();
            if let Some(sets) = self.assigned(sets) {
                let score = self.score(&sets);
                if best.as_ref().is_none_or(|(before, _)| score < *before) {
                    best = Some((score, sets));
                }
            }
            // The next way. Apart from tasks' fixed CPUs, all CPUs are alike, so a chain may go only to the CPUs that earlier chains use,
            // and to one more.
            let may_go_on = |chain: usize| {
                let used = on[..chain].iter().max().map_or(0, |most| most + 1);
                on[chain] < used.min(cpus - 1)
            };
            let Some(chain) = (0..on.len()).rev().find(|chain| may_go_on(*chain)) else { break };
            on[chain] += 1;
            on[chain + 1..].fill(0);
        }
        best.map(|(_, sets)| sets).unwrap_or_default()
    }

    /// These sets, each at the position of a CPU that all its tasks may use; `None`: no such order exists.
    fn assigned(&self, sets: Vec<Vec<usize>>) -> Option<Vec<Vec<usize>>> {
        if self.tasks.iter().all(|task| task.on.is_none()) {
            return Some(sets);
        }
        let mut cpu_of = vec![usize::MAX; sets.len()];
        self.assign(&sets, 0, &mut cpu_of).then(|| {
            let mut by_cpu = vec![Vec::new(); sets.len()];
            for (set, cpu) in sets.into_iter().zip(cpu_of).filter(|(set, _)| !set.is_empty()) {
                by_cpu[cpu] = set;
            }
            by_cpu
        })
    }

    /// Finds CPUs for the sets from position `next` on, other than those of earlier sets.
    fn assign(&self, sets: &[Vec<usize>], next: usize, cpu_of: &mut [usize]) -> bool {
        let Some(set) = sets.get(next) else { return true };
        if set.is_empty() {
            return self.assign(sets, next + 1, cpu_of);
        }
        (0..sets.len()).any(|cpu| {
            let is_free = !cpu_of[..next].contains(&cpu);
            cpu_of[next] = cpu;
            let found =
                is_free && set.iter().all(|task| self.may_use(*task, cpu)) && self.assign(sets, next + 1, cpu_of);
            if !found {
                cpu_of[next] = usize::MAX;
            }
            found
        })
    }

    fn may_use(&self, task: usize, cpu: usize) -> bool {
        self.tasks[task].on.as_ref().is_none_or(|on| on.contains(&cpu))
    }

    /// Gives the chains to the least loaded CPUs, largest load first. Then improves that by moving single chains.
    fn spread(&mut self, cpus: usize) -> Vec<Vec<usize>> {
        let mut chains = self.chains.clone();
        let of = |chain: &[usize]| chain.iter().fold(0.0, |sum, task| sum + load(&self.tasks[*task]));
        chains.sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.cmp(b)));
        let mut sets = vec![Vec::new(); cpus];
        let mut loads = vec![0.0_f64; cpus];
        for chain in chains {
            let usable = (0..cpus).filter(|cpu| chain.iter().all(|task| self.may_use(*task, *cpu)));
            let least = usable.min_by(|a, b| loads[*a].total_cmp(&loads[*b]).then(a.cmp(b))).unwrap_or(0);
            loads[least] += of(&chain);
            sets[least].extend(chain);
        }
        sets.iter_mut().for_each(|set| set.sort_unstable());
        let mut score = self.score(&sets);
        loop {
            let before = score.clone();
            for chain in self.chains.clone() {
                for to in 0..cpus {
                    let Some(from) = sets.iter().position(|set| set.contains(&chain[0])) else { continue };
                    let may_go = chain.iter().all(|task| self.may_use(*task, to));
                    if from == to || !may_go || self.known.len() >= LOOKS {
                        continue;
                    }
                    let mut moved = sets.clone();
                    moved[from].retain(|other| !chain.contains(other));
                    moved[to].extend(&chain);
                    moved[to].sort_unstable();
                    let better = self.score(&moved);
                    if better < score {
                        (sets, score) = (moved, better);
                    }
                }
            }
            if score == before || self.known.len() >= LOOKS {
                return sets;
            }
        }
    }

    /// The score of giving each CPU one of these sets.
    fn score(&mut self, sets: &[Vec<usize>]) -> Score {
        let judged: Vec<_> = sets.iter().map(|set| self.cpu(set)).collect();
        Score::of(self.tasks.len(), &judged, self.judge)
    }

    /// The best layout found for these tasks on one CPU.
    fn cpu(&mut self, set: &[usize]) -> Judged {
        if let Some(known) = self.known.get(set) {
            return known.clone();
        }
        let ways = self.workers(set);
        let judged = ways.into_iter().map(|groups| judge(self.tasks, with_phases(self.tasks, &groups), self.judge));
        let best = judged.min_by(|a, b| a.score.cmp(&b.score)).unwrap_or_else(|| unreachable!("one worker is one way"));
        self.known.insert(set.to_vec(), best.clone());
        best
    }

    /// Ways to divide tasks by deadline among one, two or three workers of a CPU.
    fn workers(&self, set: &[usize]) -> Vec<Vec<Vec<usize>>> {
        let mut by_deadline = chains(self.tasks, set);
        let shortest = |chain: &[usize]| chain.iter().map(|task| self.tasks[*task].deadline).min();
        by_deadline.sort_by_key(|chain| (shortest(chain), chain[0]));
        let count = set.len();
        // Cut only between chains with different deadlines; if there are many, about a dozen cuts.
        let cuts = (1..by_deadline.len()).filter(|cut| shortest(&by_deadline[cut - 1]) < shortest(&by_deadline[*cut]));
        let cuts: Vec<_> = cuts.collect();
        let cuts: Vec<_> = cuts.iter().copied().step_by(cuts.len().div_ceil(12).max(1)).collect();
        let mut ways = vec![vec![by_deadline.concat()]];
        for (index, cut) in cuts.iter().enumerate() {
            let (first, rest) = by_deadline.split_at(*cut);
            ways.push(vec![first.concat(), rest.concat()]);
            for second in cuts.iter().skip(index + 1).filter(|_| count <= ALL) {
                let (middle, last) = rest.split_at(second - cut);
                ways.push(vec![first.concat(), middle.concat(), last.concat()]);
            }
        }
        for groups in &mut ways {
            *groups = groups.iter().flat_map(|group| self.by_settings(group)).collect();
        }
        ways
    }

    /// Separates tasks that cannot share a worker, in the order of their deadlines.
    fn by_settings(&self, group: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        for task in group {
            let settings = self.tasks[*task].settings;
            match groups.iter_mut().find(|(of, _)| *of == settings) {
                Some((_, tasks)) => tasks.push(*task),
                None => groups.push((settings, vec![*task])),
            }
        }
        groups
            .into_iter()
            .map(|(_, mut tasks)| {
                tasks.sort_unstable();
                tasks
            })
            .collect()
    }
}

fn load(task: &Placed) -> f64 {
    task.run.seconds() * task.rate.hertz()
}

/// Judges the layout of one CPU.
fn judge(tasks: &[Placed], layout: CpuLayout, chains: &Chains<'_>) -> Judged {
    let cpu = &layout;
    let share: f64 =
        cpu.workers.iter().flat_map(|worker| &worker.tasks).fold(0.0, |sum, (task, _)| sum + load(&tasks[*task]));
    let worst = on_cpu(tasks, cpu, Span::ZERO, TICKS).worst;
    let placed = || cpu.workers.iter().zip(&worst).flat_map(|(worker, worst)| worker.tasks.iter().zip(worst));
    let thousandths = |((task, _), worst): (&(usize, Span), &Span)| {
        let Placed { run, deadline, .. } = &tasks[*task];
        let wait = i128::from((*worst - *run).max(Span::ZERO).nanos());
        u64::try_from((wait * 1_000).div_euclid(i128::from(deadline.nanos().max(1)))).unwrap_or(u64::MAX)
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a few CPUs at the most")]
    let load = (share * 1_000.0) as u64;
    let score = Score {
        objections: objections(&claims(tasks, cpu)),
        too_old: TooOld::default(),
        waits: placed().map(thousandths).collect(),
        load,
        workers: cpu.workers.iter().filter(|worker| !worker.tasks.is_empty()).count(),
    };
    let alone = [Judged { score, worst, layout }];
    let score = Score::of(tasks.len(), &alone, chains);
    let [alone] = alone;
    Judged { score, ..alone }
}

/// What `hertzd check` counts for each worker.
fn claims(tasks: &[Placed], cpu: &CpuLayout) -> Vec<(Vec<Claim>, Tail)> {
    let workers = cpu.workers.iter().filter(|worker| !worker.tasks.is_empty());
    let of = |worker: &PlannedWorker| {
        let claims = worker.tasks.iter().map(|(task, _)| tasks[*task].claim.clone()).collect();
        (claims, tasks[worker.tasks[0].0].tail)
    };
    workers.map(of).collect()
}

#[cfg(test)]
mod tests;
