//! The input of a plan: the tasks it may place with their longest known runs, and the written settings that stay. Pure.

use crate::cli::graph::Graph;
use crate::config::{Config, Scheduling, TaskConfig, WorkerConfig};
use crate::daemon::layout::{CpuLayout, Placed, PlannedWorker};
use crate::daemon::{Claim, Models};
use crate::time::Span;
use std::collections::BTreeMap;

/// Maximum number of chains that are each gathered on one worker while other chains are not.
const ALONE: usize = 7;

/// Where a task's longest run is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Budget,
    /// The longest of this many recorded ticks.
    Recording(usize),
    /// What its kind knows, if that is more than the budget.
    Kind,
    /// The script that `hertzd simulate` plays; `hertzd check` does not count it.
    Script,
    /// The task has no budget and was not recorded, so it counts as no work.
    Nowhere,
}

#[derive(Debug)]
pub(super) struct Input {
    /// The tasks to place, then the index of each in the configuration.
    pub(super) placed: Vec<Placed>,
    pub(super) tasks: Vec<usize>,
    pub(super) from: Vec<From>,
    /// The CPUs that may be used.
    pub(super) cpus: Vec<usize>,
    /// Workers that stay unchanged: the kernel chooses their CPU, or any other program may delay them.
    pub(super) kept: Vec<String>,
    /// Tasks and workers whose phases and CPUs stay, because they are written in the configuration.
    pub(super) written: Written,
    /// Ways to gather chains that have a `max-latency` from several workers on one: [`Chains::together`](crate::daemon::layout::Chains).
    pub(super) together: Vec<Vec<Option<usize>>>,
    /// Two workers that preempt each other have equal priority, so their order is unknown.
    pub(super) tied: bool,
}

/// Settings in the configuration that a plan does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Tasks with a phase.
    pub(super) phases: Vec<String>,
    /// Workers with one or more CPUs.
    pub(super) cpus: Vec<String>,
}

impl Written {
    pub(super) fn of(config: &Config) -> Self {
        let has_phase = |task: &&TaskConfig| task.identity.lines().any(|line| line.starts_with("phase = "));
        let tasks = config.tasks.iter().filter(has_phase);
        let workers = config.workers.iter().filter(|worker| !worker.cpus.is_empty() && priority(worker).is_some());
        Self {
            phases: tasks.map(|task| task.name.clone()).collect(),
            cpus: workers.map(|worker| worker.name.clone()).collect(),
        }
    }
}

impl Input {
    /// With `split`, the tasks of a chain are placed individually.
    ///
    /// # Errors
    /// Why there is nothing to plan.
    pub(super) fn of(
        config: &Config,
        models: &Models,
        cpus: &[usize],
        written: Written,
        split: bool,
    ) -> Result<Self, String> {
        let is_kept = |worker: &WorkerConfig| priority(worker).is_none();
        let kept: Vec<_> =
            config.workers.iter().filter(|worker| is_kept(worker)).map(|worker| worker.name.clone()).collect();
        let tasks: Vec<usize> =
            (0..config.tasks.len()).filter(|task| !is_kept(&config.workers[config.tasks[*task].worker])).collect();
        if tasks.is_empty() {
            return Err("no worker has policy = \"fifo\" or \"rr\", so no CPU, priority or order can be planned".into());
        }
        // Indices of the CPUs that each worker may use.
        let on = |worker: &WorkerConfig| {
            let stays = written.cpus.contains(&worker.name);
            stays.then(|| (0..cpus.len()).filter(|position| worker.cpus.contains(&cpus[*position])).collect::<Vec<_>>())
        };
        let on: Vec<_> = config.workers.iter().map(on).collect();
        if let Some((worker, _)) = config.workers.iter().zip(&on).find(|(_, on)| on.as_ref().is_some_and(Vec::is_empty))
        {
            let (name, all) = (&worker.name, list(&worker.cpus));
            return Err(format!(
                "worker.{name} is to stay on CPU {all}, which --cpus leaves out; add it, or use --free"
            ));
        }
        let settings: Vec<_> = config.workers.iter().map(settings).collect();
        let known: Vec<_> = tasks.iter().map(|task| longest_run(&config.tasks[*task], models)).collect();
        let graph = Graph::of(config);
        let chains = if split { vec![None; config.tasks.len()] } else { chains(&graph) };
        let direct = || graph.links.iter().filter(|link| !link.is_previous());
        let position = |task: usize| tasks.iter().position(|placed| *placed == task);
        let feeds =
            |from: usize| direct().filter(|link| link.from == from).filter_map(|link| position(link.to)).collect();
        // A chain across several workers keeps its phases: the plan may bring it together on one worker.
        let worker = |task: usize| config.tasks[task].worker;
        let crosses = |task: usize| {
            let mut links = direct().filter(|link| link.from == task || link.to == task);
            !split && links.any(|link| worker(link.from) != worker(link.to))
        };
        let placed = tasks.iter().zip(&known).map(|(index, (run, _))| {
            let task = &config.tasks[*index];
            let own = &settings[task.worker];
            Placed {
                rate: task.rate,
                deadline: task.deadline,
                feeds: feeds(*index),
                run: *run,
                claim: Claim::of(task),
                settings: settings.iter().position(|other| other == own).unwrap_or(0),
                phase: (written.phases.contains(&task.name) || crosses(*index)).then_some(task.phase),
                on: on[task.worker].clone(),
                tail: config.workers[task.worker].spin.tail(),
                now: task.phase,
                chain: chains[*index],
            }
        });
        let mut priorities: Vec<_> =
            config.workers.iter().filter_map(|worker| Some((worker.cpus.clone(), priority(worker)?))).collect();
        priorities.retain(|(cpus, _)| cpus.len() == 1);
        priorities.sort();
        let tied = priorities.windows(2).any(|pair| pair[0] == pair[1]);
        let (placed, from) = (placed.collect(), known.iter().map(|(_, from)| *from).collect());
        let together = if split { Vec::new() } else { gathered(&graph, &chains, &tasks, &settings, &on) };
        Ok(Self { placed, tasks, from, cpus: cpus.to_vec(), kept, written, together, tied })
    }

    /// The current layout on the CPUs that may be used. `None`: the configuration uses other CPUs, or leaves something to the kernel.
    pub(super) fn now_on_these(&self, config: &Config) -> Option<Vec<CpuLayout>> {
        let mut all = vec![CpuLayout::default(); self.cpus.len()];
        for (cpu, layout, _) in self.now(config) {
            let position = self.cpus.iter().position(|known| Some(*known) == cpu)?;
            all[position] = layout;
        }
        (!self.tied).then_some(all)
    }

    /// The current layout, CPU by CPU, each with its number. Workers that are not pinned to exactly one CPU appear as if each had a CPU of
    /// its own.
    pub(super) fn now(&self, config: &Config) -> Vec<(Option<usize>, CpuLayout, Vec<usize>)> {
        let mut by_cpu: BTreeMap<(bool, usize), Vec<usize>> = BTreeMap::new();
        for (index, worker) in config.workers.iter().enumerate().filter(|(_, worker)| priority(worker).is_some()) {
            let key = match worker.cpus[..] {
                [cpu] => (false, cpu),
                _ => (true, index),
            };
            by_cpu.entry(key).or_default().push(index);
        }
        let layout = |((free, cpu), mut workers): ((bool, usize), Vec<usize>)| {
            workers.sort_by_key(|worker| std::cmp::Reverse(priority(&config.workers[*worker])));
            let of = |worker: &usize| {
                let its = |(_, task): &(usize, &usize)| config.tasks[**task].worker == *worker;
                let tasks = self.tasks.iter().enumerate().filter(its);
                PlannedWorker { tasks: tasks.map(|(position, task)| (position, config.tasks[*task].phase)).collect() }
            };
            ((!free).then_some(cpu), CpuLayout { workers: workers.iter().map(of).collect() }, workers)
        };
        by_cpu.into_iter().map(layout).collect()
    }
}

/// The chain of each task, identified by its first task; only links within a worker count. `None`: the task is alone.
fn chains(graph: &Graph<'_>) -> Vec<Option<usize>> {
    let tasks = &graph.config.tasks;
    let mut first: Vec<usize> = (0..tasks.len()).collect();
    for link in graph.links.iter().filter(|link| tasks[link.from].worker == tasks[link.to].worker) {
        let [one, other] = [first[link.from], first[link.to]];
        first.iter_mut().filter(|of| [one, other].contains(of)).for_each(|of| *of = one.min(other));
    }
    shared(&first)
}

/// Removes chains of a single task.
fn shared(chains: &[usize]) -> Vec<Option<usize>> {
    let is_alone = |chain: usize| chains.iter().filter(|of| **of == chain).count() == 1;
    chains.iter().map(|chain| (!is_alone(*chain)).then_some(*chain)).collect()
}

/// Ways to gather the tasks of chains with a `max-latency` on one worker, as far as their workers' settings and allowed CPUs permit. First
/// all such chains together, then each of the first few alone. Only tasks that are placed.
fn gathered(
    graph: &Graph<'_>,
    chains: &[Option<usize>],
    tasks: &[usize],
    settings: &[String],
    on: &[Option<Vec<usize>>],
) -> Vec<Vec<Option<usize>>> {
    let all = &graph.config.tasks;
    let own: Vec<usize> = chains.iter().zip(0..).map(|(chain, task)| chain.unwrap_or(task)).collect();
    let of = |ends: &[usize]| {
        let mut chains = own.clone();
        let mut on: Vec<_> = all.iter().map(|task| on[task.worker].clone()).collect();
        for link in ends.iter().flat_map(|end| graph.chain(*end)).flat_map(|task| graph.taken_by(task)) {
            let [one, other] = [chains[link.from], chains[link.to]];
            let may_share = settings[all[link.from].worker] == settings[all[link.to].worker];
            if one == other || link.is_previous() || !may_share {
                continue;
            }
            let common = match (&on[one], &on[other]) {
                (Some(one), Some(other)) => {
                    Some(one.iter().filter(|cpu| other.contains(cpu)).copied().collect::<Vec<_>>())
                }
                (one, other) => one.clone().or_else(|| other.clone()),
            };
            if common.as_ref().is_none_or(|common| !common.is_empty()) {
                let first = one.min(other);
                on[first] = common;
                chains.iter_mut().filter(|of| [one, other].contains(of)).for_each(|of| *of = first);
            }
        }
        chains
    };
    let ends: Vec<usize> = tasks.iter().copied().filter(|task| all[*task].max_latency.is_some()).collect();
    let mut ways: Vec<Vec<usize>> = Vec::new();
    for ends in std::iter::once(&ends[..]).chain(ends.chunks(1).take(ALONE)) {
        let way = of(ends);
        if way != own && !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways.iter().map(|way| shared(way)).map(|way| tasks.iter().map(|task| way[*task]).collect()).collect()
}

/// The real-time priority of a worker whose CPU may be chosen. `None`: it stays unchanged.
pub(super) fn priority(worker: &WorkerConfig) -> Option<u8> {
    match worker.scheduling {
        Scheduling::Fifo { priority } | Scheduling::Rr { priority } => Some(priority),
        Scheduling::Deadline { .. } | Scheduling::Other => None,
    }
}

/// All settings that a worker's tasks must share and that a plan does not change.
fn settings(worker: &WorkerConfig) -> String {
    let policy = match worker.scheduling {
        Scheduling::Fifo { .. } => "fifo",
        Scheduling::Rr { .. } => "rr",
        Scheduling::Deadline { .. } => "deadline",
        Scheduling::Other => "other",
    };
    let WorkerConfig { spin, clock, evidence, require_realtime, simulated_oversleep, .. } = worker;
    format!("{policy} {spin:?} {clock:?} {evidence:?} {require_realtime} {simulated_oversleep:?}")
}

fn longest_run(task: &TaskConfig, models: &Models) -> (Span, From) {
    let kind = task.blueprint.run().iter().max().copied();
    let script = task.simulated_run.iter().flatten().max().copied();
    match (models.longest_run(&task.name), task.budget, kind, script) {
        (Some((run, ticks)), ..) => (run, From::Recording(ticks)),
        (None, Some(budget), kind, _) if kind <= Some(budget) => (budget, From::Budget),
        (None, _, Some(run), _) => (run, From::Kind),
        (None, None, None, Some(run)) => (run, From::Script),
        (None, _, None, _) => (Span::ZERO, From::Nowhere),
    }
}

/// `1, 4`.
pub(super) fn list<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
