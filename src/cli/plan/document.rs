//! The text of a configuration with other workers and phases; comments and the order of its keys stay. May read files.

use super::input::{Input, priority};
use crate::cli::stop::Stop;
use crate::cli::{App, Source};
use crate::config::{Config, duration_written};
use crate::daemon::layout::Layout;
use std::fs;
use std::path::PathBuf;
use toml_edit::{DocumentMut, Item, Table, value};

/// A configuration as text that can be changed.
#[derive(Clone, Debug)]
pub(super) struct Document(DocumentMut);

/// A planned worker.
#[derive(Clone, Debug)]
pub(super) struct NamedWorker {
    pub(super) name: String,
    pub(super) cpu: usize,
    pub(super) priority: u8,
}

/// The texts that a configuration was read from, in the order in which they are merged.
pub(super) fn texts(app: &App, source: &Source, config: &Config) -> Result<Vec<String>, Stop> {
    if matches!(source, Source::Demo) {
        return Ok(vec![app.demo_text().to_owned()]);
    }
    let read =
        |path: &PathBuf| fs::read_to_string(path).map_err(|error| Stop::Fault(format!("{}: {error}", path.display())));
    config.files.iter().map(read).collect()
}

impl Document {
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut all = DocumentMut::new();
        for (nth, text) in texts.iter().enumerate() {
            let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
            match nth {
                0 => all = document,
                _ => merge(all.as_table_mut(), document.as_table()),
            }
        }
        Ok(Self(all))
    }

    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }

    /// Whether a task has a phase written down.
    pub(super) fn has_phase(&self, task: &str) -> bool {
        let task = self.0.get("task").and_then(|tasks| tasks.get(task)).and_then(Item::as_table_like);
        task.is_some_and(|task| task.contains_key("phase"))
    }

    /// Replaces workers and phases. Returns the planned workers, CPU by CPU.
    pub(super) fn lay_out(&mut self, config: &Config, input: &Input, layout: &Layout) -> Vec<Vec<NamedWorker>> {
        let old = self
            .0
            .get("worker")
            .and_then(Item::as_table_like)
            .map(|table| table.iter().map(|(name, item)| (name.to_owned(), item.clone())).collect::<Vec<_>>());
        let old = old.unwrap_or_default();
        let section = |name: &str| old.iter().find(|(of, _)| of == name).map(|(_, item)| item.clone());
        let mut workers = Table::new();
        workers.set_implicit(true);
        for name in &input.kept {
            workers.insert(name, section(name).unwrap_or_else(|| Item::Table(Table::new())));
        }
        let mut named = Vec::new();
        let mut taken: Vec<String> = input.kept.clone();
        for (cpu_layout, cpu) in layout.cpus.iter().zip(&input.cpus) {
            let mut on_cpu = Vec::new();
            for (level, worker) in cpu_layout.workers.iter().enumerate().filter(|(_, worker)| !worker.tasks.is_empty())
            {
                let tasks: Vec<usize> = worker.tasks.iter().map(|(position, _)| input.tasks[*position]).collect();
                let name = name(config, &tasks, *cpu, &taken);
                taken.push(name.clone());
                let model = &config.workers[config.tasks[tasks[0]].worker];
                let highest =
                    tasks.iter().filter_map(|task| priority(&config.workers[config.tasks[*task].worker])).max();
                // A lower worker must stay below all that come before it on this CPU, and above all that come after it.
                let after = cpu_layout.workers.len() - 1 - level;
                let lowest = on_cpu.iter().map(|other: &NamedWorker| other.priority.saturating_sub(1)).min();
                let room = u8::try_from(after + 1).unwrap_or(u8::MAX);
                let priority = highest.into_iter().chain(lowest).min().unwrap_or(1).max(room);
                let item = section(&name).filter(|_| model.name == name).or_else(|| section(&model.name));
                let mut item = item.unwrap_or_else(|| Item::Table(Table::new()));
                if let Item::Value(inline) = &item
                    && let Some(inline) = inline.as_inline_table()
                {
                    item = Item::Table(inline.clone().into_table());
                }
                if let Some(table) = item.as_table_mut() {
                    table.remove("cpus");
                    table.set_implicit(false);
                    table.set_position(None);
                    if name != model.name {
                        without_comments(table); // they are about the other one
                        table.decor_mut().set_prefix("\n");
                    }
                    set(table, "cpu", value(i64::try_from(*cpu).unwrap_or(i64::MAX)));
                    set(table, "priority", value(i64::from(priority)));
                }
                workers.insert(&name, item);
                for (position, phase) in &worker.tasks {
                    let task = &config.tasks[input.tasks[*position]];
                    self.place(&task.name, &name, (*phase != task.phase).then(|| duration_written(*phase)));
                }
                on_cpu.push(NamedWorker { name, cpu: *cpu, priority });
            }
            named.push(on_cpu);
        }
        self.0.remove("worker");
        self.0.insert("worker", Item::Table(workers));
        self.workers_first();
        named
    }

    /// Gives a task its worker, and its phase if that changes.
    fn place(&mut self, task: &str, worker: &str, phase: Option<String>) {
        let Some(task) = self.0.get_mut("task").and_then(|tasks| tasks.get_mut(task)).and_then(Item::as_table_like_mut)
        else {
            return;
        };
        let mut put = |key: &str, text: &str| match task.get_mut(key) {
            Some(item) => replace(item, value(text)),
            None => {
                task.insert(key, value(text));
            }
        };
        put("worker", worker);
        if let Some(phase) = phase {
            put("phase", &phase);
        }
    }

    /// Sections are written in the order of their positions: the workers, then all else as it was.
    fn workers_first(&mut self) {
        let mut next = 0;
        let mut order = |table: &mut Table| {
            next += 1;
            table.set_position(Some(next));
        };
        let root = self.0.as_table_mut();
        for name in ["worker", "task"] {
            let Some(sections) = root.get_mut(name).and_then(Item::as_table_mut) else { continue };
            let mut tables: Vec<_> = sections.iter_mut().filter_map(|(_, item)| item.as_table_mut()).collect();
            tables.sort_by_key(|table| table.position().unwrap_or(isize::MAX));
            for table in tables {
                order(table);
                for (_, item) in table.iter_mut() {
                    if let Some(inner) = item.as_table_mut() {
                        order(inner);
                    }
                }
            }
        }
    }
}

/// The workers that a layout has which is that of the configuration itself, CPU by CPU.
pub(super) fn as_it_is(config: &Config, input: &Input) -> Vec<Vec<NamedWorker>> {
    let now = input.now(config);
    let on = |cpu: &usize| {
        let workers = now.iter().filter(|(of, ..)| *of == Some(*cpu)).flat_map(|(_, _, workers)| workers);
        let named = |worker: &usize| {
            let worker = &config.workers[*worker];
            NamedWorker { name: worker.name.clone(), cpu: *cpu, priority: priority(worker).unwrap_or(1) }
        };
        workers.map(named).collect()
    };
    input.cpus.iter().map(on).collect()
}

/// Puts a value in place of another; comments and spaces around it stay.
fn replace(item: &mut Item, with: Item) {
    let decor = item.as_value().map(|value| value.decor().clone());
    *item = with;
    if let (Some(decor), Some(value)) = (decor, item.as_value_mut()) {
        *value.decor_mut() = decor;
    }
}

fn without_comments(table: &mut Table) {
    table.decor_mut().clear();
    for (mut key, item) in table.iter_mut() {
        key.leaf_decor_mut().clear();
        match item {
            Item::Value(value) => value.decor_mut().clear(),
            Item::Table(inner) => without_comments(inner),
            _ => {}
        }
    }
}

fn set(table: &mut Table, key: &str, with: Item) {
    match table.get_mut(key) {
        Some(item) => replace(item, with),
        None => {
            table.insert(key, with);
        }
    }
}

/// Tables key by key; any other value as a whole.
fn merge(earlier: &mut Table, later: &Table) {
    for (key, item) in later {
        match (earlier.get_mut(key).and_then(Item::as_table_mut), item.as_table()) {
            (Some(there), Some(table)) => merge(there, table),
            _ => {
                earlier.insert(key, item.clone());
            }
        }
    }
}

/// The name of the worker that most of the tasks have now, else one that tells the CPU.
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
