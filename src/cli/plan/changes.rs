//! What a plan changes in a configuration: the sections with new or different keys, as TOML. May read files.

use super::input::{Input, priority};
use crate::cli::stop::Stop;
use crate::cli::{App, Source};
use crate::config::{Config, WorkerConfig, duration_written};
use crate::daemon::layout::Layout;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// A planned worker.
#[derive(Clone, Debug)]
pub(super) struct NamedWorker {
    pub(super) name: String,
    pub(super) cpu: usize,
    pub(super) priority: u8,
}

/// The changes of a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Sections of workers, then of tasks. Merging them into the configuration like a drop-in gives the planned one.
    pub(super) toml: String,
    /// Workers that no longer have a task.
    pub(super) removed: Vec<String>,
    /// The planned workers, CPU by CPU.
    pub(super) named: Vec<Vec<NamedWorker>>,
}

/// The texts a configuration was read from, with their names, in merge order.
pub(super) fn texts(app: &App, source: &Source, config: &Config) -> Result<Vec<(String, String)>, Stop> {
    if matches!(source, Source::Demo) {
        return Ok(vec![(source.to_string(), app.demo_text().to_owned())]);
    }
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Ok((name, text)),
            Err(error) => Err(Stop::Fault(format!("{name}: {error}"))),
        }
    };
    config.files.iter().map(read).collect()
}

/// The changes for this layout.
pub(super) fn changes(config: &Config, input: &Input, layout: &Layout) -> Changes {
    let (mut workers, mut places) = (String::new(), String::new());
    let mut named = Vec::new();
    let mut taken: Vec<String> = input.kept.clone();
    let workers_after = layout.cpus.iter().flat_map(|cpu| &cpu.workers).filter(|worker| !worker.tasks.is_empty());
    // With a single worker, tasks need not name it.
    let is_split = config.workers.len() == 1 && workers_after.count() > 1;
    for (cpu_layout, cpu) in layout.cpus.iter().zip(&input.cpus) {
        let mut on_cpu = Vec::new();
        for (level, worker) in cpu_layout.workers.iter().enumerate().filter(|(_, worker)| !worker.tasks.is_empty()) {
            let tasks: Vec<usize> = worker.tasks.iter().map(|(position, _)| input.tasks[*position]).collect();
            let name = name(config, &tasks, *cpu, &taken);
            taken.push(name.clone());
            let highest = tasks.iter().filter_map(|task| priority(&config.workers[config.tasks[*task].worker])).max();
            // A lower worker must have less priority than all before it on this CPU, and more than all after it.
            let after = cpu_layout.workers.len() - 1 - level;
            let lowest = on_cpu.iter().map(|other: &NamedWorker| other.priority.saturating_sub(1)).min();
            let room = u8::try_from(after + 1).unwrap_or(u8::MAX);
            let priority = highest.into_iter().chain(lowest).min().unwrap_or(1).max(room);
            let planned = NamedWorker { name, cpu: *cpu, priority };
            let model = &config.workers[config.tasks[tasks[0]].worker];
            write_worker(&mut workers, config, &planned, model);
            for (position, phase) in &worker.tasks {
                let task = &config.tasks[input.tasks[*position]];
                let moves = is_split || config.workers[task.worker].name != planned.name;
                let worker = moves.then(|| format!("worker = \"{}\"\n", planned.name));
                let phase = (*phase != task.phase).then(|| format!("phase = \"{}\"\n", duration_written(*phase)));
                write_section(&mut places, "task", &task.name, worker.into_iter().chain(phase).collect());
            }
            on_cpu.push(planned);
        }
        named.push(on_cpu);
    }
    let is_left = |worker: &&WorkerConfig| !taken.contains(&worker.name);
    let removed = config.workers.iter().filter(is_left).map(|worker| worker.name.clone()).collect();
    let toml = workers + &places;
    Changes { toml: toml.trim_end_matches('\n').to_owned() + if toml.is_empty() { "" } else { "\n" }, removed, named }
}

/// The keys of a worker that change. A new worker gets all keys, copied from `model` except for CPU and priority.
fn write_worker(text: &mut String, config: &Config, planned: &NamedWorker, model: &WorkerConfig) {
    let old = config.workers.iter().find(|worker| worker.name == planned.name);
    let mut keys = String::new();
    let is = |line: &str, key: &str| line.split(" = ").next() == Some(key);
    if old.is_none_or(|old| old.cpus != [planned.cpu]) {
        // Keep a list as a list: a worker has only one of the two keys.
        let has_list = old.is_some_and(|old| old.identity.lines().any(|line| is(line, "cpus")));
        let cpu = planned.cpu;
        keys += &if has_list { format!("cpus = [{cpu}]\n") } else { format!("cpu = {cpu}\n") };
    }
    if old.is_none_or(|old| priority(old) != Some(planned.priority)) {
        keys += &format!("priority = {}\n", planned.priority);
    }
    if old.is_none() {
        let kept = model.identity.lines().filter(|line| !["cpu", "cpus", "priority"].iter().any(|key| is(line, key)));
        kept.for_each(|line| keys += &format!("{line}\n"));
        let late: Vec<_> =
            model.simulated_oversleep.iter().map(|late| format!("{:?}", duration_written(*late))).collect();
        if !late.is_empty() {
            keys += &format!("simulate.oversleep = [{}]\n", late.join(", "));
        }
    }
    write_section(text, "worker", &planned.name, keys);
}

/// Names are letters, digits, `-` and `_`, so they need no quotes.
fn write_section(text: &mut String, kind: &str, name: &str, keys: String) {
    if !keys.is_empty() {
        let _ = write!(text, "[{kind}.{name}]\n{keys}\n");
    }
}

/// No changes: the workers are those of the configuration.
pub(super) fn as_it_is(config: &Config, input: &Input) -> Changes {
    let now = input.now(config);
    let on = |cpu: &usize| {
        let workers = now.iter().filter(|(of, ..)| *of == Some(*cpu)).flat_map(|(_, _, workers)| workers);
        let named = |worker: &usize| {
            let worker = &config.workers[*worker];
            NamedWorker { name: worker.name.clone(), cpu: *cpu, priority: priority(worker).unwrap_or(1) }
        };
        workers.map(named).collect()
    };
    Changes { named: input.cpus.iter().map(on).collect(), ..Changes::default() }
}

/// The name of the worker that currently runs most of these tasks, otherwise one derived from the CPU.
fn name(config: &Config, tasks: &[usize], cpu: usize, taken: &[String]) -> String {
    let mut counts: Vec<(usize, usize)> = Vec::new(); // worker, tasks
    for task in tasks {
        let worker = config.tasks[*task].worker;
        match counts.iter_mut().find(|(of, _)| *of == worker) {
            Some((_, count)) => *count += 1,
            None => counts.push((worker, 1)),
        }
    }
    counts.sort_by_key(|(worker, count)| (std::cmp::Reverse(*count), *worker));
    let is_free = |name: &String| !taken.contains(name);
    let now = counts.iter().map(|(worker, _)| config.workers[*worker].name.clone()).find(is_free);
    let is_new = |name: &String| is_free(name) && config.workers.iter().all(|worker| worker.name != *name);
    let numbered = || (2..).map(|nth| format!("cpu{cpu}-{nth}"));
    now.or_else(|| std::iter::once(format!("cpu{cpu}")).chain(numbered()).find(is_new)).unwrap_or_default()
}
