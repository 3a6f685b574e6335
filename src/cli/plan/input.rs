//! What a plan starts from: the tasks that it may place, with the longest run that is known of each, and what is written for
//! them and stays. Pure.

use crate::cli::graph::Graph;
use crate::config::{Config, Scheduling, TaskConfig, WorkerConfig};
use crate::daemon::layout::{CpuLayout, Placed, PlannedWorker};
use crate::daemon::{Claim, Models};
use crate::time::Span;
use std::collections::BTreeMap;

/// Chains that are brought to one worker while others are not.
const ALONE: usize = 7;

/// Where the longest run of a task is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Budget,
    /// The longest of this many recorded ticks.
    Recording(usize),
    /// What its kind knows, where that is more than its budget.
    Kind,
    /// The script that `hertzd simulate` plays; `hertzd check` does not count it.
    Script,
    /// It has no budget and was not recorded: it counts as no work.
    Nowhere,
}

#[derive(Debug)]
pub(super) struct Input {
    /// The tasks that are placed, and the index of each in the configuration.
    pub(super) placed: Vec<Placed>,
    pub(super) tasks: Vec<usize>,
    pub(super) from: Vec<From>,
    /// The CPUs that may be used.
    pub(super) cpus: Vec<usize>,
    /// Workers that stay as they are: the kernel chooses their CPU, or every other program may delay them.
    pub(super) kept: Vec<String>,
    /// Tasks and workers whose phases and CPUs were written down, so they stay.
    pub(super) written: Written,
    /// Ways to bring chains with a `max-latency` from several workers to one: [`Chains::together`](crate::daemon::layout::Chains).
    pub(super) together: Vec<Vec<Option<usize>>>,
    /// Two workers that interrupt each other have the same priority, so which comes first is not known.
    pub(super) tied: bool,
}

/// What a configuration says and a plan does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Tasks with a phase.
    pub(super) phases: Vec<String>,
    /// Workers with a CPU or several.
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
    /// With `split` tasks of one chain are placed one by one.
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
        // The positions of the CPUs that each worker may use.
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
        // Of a chain over several workers the phases stay: they may come together on one.
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

    /// The layout that the configuration has now, on the CPUs that may be used; `None`: it has another, or one that leaves
    /// something to the kernel.
    pub(super) fn now_on_these(&self, config: &Config) -> Option<Vec<CpuLayout>> {
        let mut all = vec![CpuLayout::default(); self.cpus.len()];
        for (cpu, layout, _) in self.now(config) {
            let position = self.cpus.iter().position(|known| Some(*known) == cpu)?;
            all[position] = layout;
        }
        (!self.tied).then_some(all)
    }

    /// The layout that the configuration has now: CPU by CPU, each with its number, and workers that are not pinned to one CPU as
    /// if they had one of their own.
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

/// The chain of each task: of those of its worker that are linked with it, the first; `None`: there is no other.
fn chains(graph: &Graph<'_>) -> Vec<Option<usize>> {
    let tasks = &graph.config.tasks;
    let mut first: Vec<usize> = (0..tasks.len()).collect();
    for link in graph.links.iter().filter(|link| tasks[link.from].worker == tasks[link.to].worker) {
        let [one, other] = [first[link.from], first[link.to]];
        first.iter_mut().filter(|of| [one, other].contains(of)).for_each(|of| *of = one.min(other));
    }
    shared(&first)
}

/// Without those that are alone.
fn shared(chains: &[usize]) -> Vec<Option<usize>> {
    let is_alone = |chain: usize| chains.iter().filter(|of| **of == chain).count() == 1;
    chains.iter().map(|chain| (!is_alone(*chain)).then_some(*chain)).collect()
}

/// Ways to bring the tasks of chains with a `max-latency` to one worker, as far as the settings of their workers and the CPUs that these may use
/// allow it: all such chains, then the first few alone. Of the tasks that are placed.
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

/// The real-time priority of a worker whose CPU may be chosen; `None`: it stays as it is.
pub(super) fn priority(worker: &WorkerConfig) -> Option<u8> {
    match worker.scheduling {
        Scheduling::Fifo { priority } | Scheduling::Rr { priority } => Some(priority),
        Scheduling::Deadline { .. } | Scheduling::Other => None,
    }
}

/// All that a worker's tasks must agree on: what a plan does not change.
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
