//! Turns the inputs of tasks into links between running tasks: at the start, and at a reload also for tasks that continue while their
//! producers or consumers change. Reads no clock; never blocks.

use super::diff::{Change, Diff};
use crate::channels::{self, Column, Input, InputSource, Limits};
use crate::config::{Config, Problems, Taken, TaskConfig, Valid, suggestion};
use crate::worker::{Flow, Stuck};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a task's links are made from: its inputs and its own values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joint {
    taken: Vec<Taken>, // the running task reads its inputs here
    columns: Arc<[String]>,
    measures: bool,
}

/// The joints of running tasks that have any inputs or values, by name.
pub(crate) type Joints = BTreeMap<Arc<str>, Joint>;

impl Joint {
    /// The joint of a task built from `config`.
    pub(crate) fn of(config: &TaskConfig, columns: &[Column], measures: bool) -> Self {
        let taken = config.taken.iter().map(|(taken, _)| taken.clone()).collect();
        Self { taken, columns: columns.iter().map(|column| column.name.clone()).collect(), measures }
    }

    /// The names of its values.
    pub(crate) fn columns(&self) -> Arc<[String]> {
        self.columns.clone()
    }

    /// Whether its values tell of what is so now. What an output has written, or a setpoint, stays what it is.
    pub(crate) fn measures(&self) -> bool {
        self.measures
    }

    fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.columns.is_empty()
    }
}

/// The joints of the tasks of `config`: new ones from `built`, by task index, and those of tasks that continue from `running`.
pub(crate) fn joints(config: &Config, mut built: BTreeMap<usize, Joint>, running: &Joints) -> Joints {
    let of = |(index, task): (usize, &TaskConfig)| {
        let joint = built.remove(&index).or_else(|| running.get(task.name.as_str()).cloned())?;
        (!joint.is_empty()).then(|| (task.name.as_str().into(), joint))
    };
    config.tasks.iter().enumerate().filter_map(of).collect()
}

/// Lets `previous` inputs of a new task continue with the last value, if a task with the same section (`is_same`) ran before it. Call this
/// before [`flows`].
pub(super) fn go_on(joints: &Joints, running: &Joints, is_same: impl Fn(&str) -> bool) {
    for (name, joint) in joints {
        let Some(before) = running.get(name).filter(|_| is_same(name)) else { continue };
        for (new, old) in joint.taken.iter().zip(&before.taken) {
            new.input.goes_on_from(&old.input);
            if let (Some(new), Some(old)) = (&new.beside, &old.beside) {
                new.goes_on_from(old);
            }
        }
    }
}

/// New links for the tasks of `config`, by task index. They cover every task that begins, and every task that continues but is or was
/// linked, directly or through others, to a task that does not.
///
/// # Errors
/// A link or a `valid` range names a value that its task does not have.
pub(crate) fn flows(
    config: &Config,
    joints: &Joints,
    running: &Joints,
    diff: &Diff,
) -> Result<BTreeMap<usize, Box<Flow>>, Problems> {
    let columns = |task: &str| joints.get(task).map_or(&[][..], |joint| &joint.columns);
    misfits(config, |task| Some(columns(task))).map_or(Ok(()), Err)?;
    let touched = touched(joints, running, diff);
    let mut flows: BTreeMap<usize, Box<Flow>> = BTreeMap::new();
    let positions: BTreeMap<&str, usize> =
        config.tasks.iter().enumerate().map(|(index, task)| (task.name.as_str(), index)).collect();
    for (index, task) in config.tasks.iter().enumerate() {
        let Some(joint) = joints.get(task.name.as_str()) else { continue };
        if !touched.contains(task.name.as_str()) {
            continue;
        }
        let mut by_task: BTreeMap<&str, Vec<(usize, &Taken)>> = BTreeMap::new();
        for (at, taken) in joint.taken.iter().enumerate() {
            by_task.entry(&taken.name().task).or_default().push((at, taken));
        }
        for (from, taken) in by_task {
            let Some(giver) = positions.get(from) else { continue };
            let columns = columns(from);
            let column = |value: &str| columns.iter().position(|name| name == value);
            let named = |input| match Input::source(input) {
                InputSource::Value(name) => Some((column(&name.value)?, input)),
                InputSource::Number(_) => None,
            };
            let inputs = taken.iter().flat_map(|(_, one)| [Some(&one.input), one.beside.as_ref()]).flatten();
            let inputs: Vec<_> = inputs.filter_map(named).collect();
            let limits = task.taken[taken[0].0].1;
            let hold = |input: &Input| match input.source() {
                InputSource::Value(name) => task.hold.as_ref().and_then(|hold| hold.of(&name.full())),
                InputSource::Number(_) => None,
            };
            let holds: Vec<_> = inputs.iter().map(|(_, input)| hold(input).unwrap_or_default()).collect();
            let (sender, receiver) = channels::link(columns.len(), inputs, limits);
            let receiver = receiver.with_holds(&holds);
            flows.entry(index).or_default().incoming.push(receiver);
            flows.entry(*giver).or_default().outgoing.push(sender);
        }
    }
    for (index, task) in config.tasks.iter().enumerate() {
        let name = task.name.as_str();
        if task.stuck_after.is_some() && touched.contains(name) && joints.contains_key(name) {
            flows.entry(index).or_default();
        }
    }
    let direct = |task: &TaskConfig| task.taken.iter().any(|(taken, _)| taken.name().previous.is_none());
    let gives: BTreeSet<&str> = config
        .tasks
        .iter()
        .flat_map(|task| task.taken.iter().map(|(taken, _)| taken.name()))
        .filter(|name| name.previous.is_none())
        .map(|name| name.task.as_str())
        .collect();
    for (index, flow) in &mut flows {
        let task = &config.tasks[*index];
        let joint = &joints[task.name.as_str()];
        flow.measures = joint.measures;
        // An actuator ends a chain even if others read its values: they inherit the age.
        let ends = task.acts || !gives.contains(task.name.as_str());
        flow.is_measured = task.max_latency.is_some() || direct(task) && ends;
        flow.valid = valid(task, &joint.columns);
        flow.stuck = task
            .stuck_after
            .as_ref()
            .map(|after| Box::new(Stuck::new(joint.columns.iter().map(|column| after.of(column)).collect())));
    }
    // A task that is no longer linked drops its old links.
    for name in touched.iter().filter(|name| diff.tasks.get(&**name) == Some(&Change::Kept)) {
        if let Some(index) = positions.get(&**name) {
            flows.entry(*index).or_default();
        }
    }
    Ok(flows)
}

/// Reports inputs and `valid` ranges that name values which do not exist. `columns` returns a task's value names; tasks for which it
/// returns `None` are not checked. Neither are the ranges of a task without values and inputs.
pub(crate) fn misfits<'a>(config: &Config, columns: impl Fn(&str) -> Option<&'a [String]>) -> Option<Problems> {
    let of_task = |task: &TaskConfig| {
        let own = columns(&task.name).filter(|columns| !columns.is_empty() || !task.taken.is_empty());
        let no_range = own.and_then(|columns| no_such_range(task, columns));
        let no_value = |(taken, _): &(Taken, Limits)| no_such_value(task, taken, columns(&taken.name().task)?);
        task.taken.iter().filter_map(no_value).chain(no_range).reduce(Problems::and)
    };
    config.tasks.iter().filter_map(of_task).reduce(Problems::and)
}

/// The tasks that begin, and those linked to a task that does not continue.
fn touched(joints: &Joints, running: &Joints, diff: &Diff) -> BTreeSet<Arc<str>> {
    let mut linked: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, joint) in joints.iter().chain(running) {
        for taken in &joint.taken {
            let from = taken.name().task.as_str();
            linked.entry(from).or_default().push(name);
            linked.entry(name).or_default().push(from);
        }
    }
    let changes = |(name, change): (&Arc<str>, &Change)| (*change != Change::Kept).then(|| name.clone());
    let mut touched: BTreeSet<Arc<str>> = diff.tasks.iter().filter_map(changes).collect();
    let mut waiting: Vec<Arc<str>> = touched.iter().cloned().collect();
    while let Some(name) = waiting.pop() {
        for other in linked.get(&*name).into_iter().flatten() {
            let other: Arc<str> = (*other).into();
            if touched.insert(other.clone()) {
                waiting.push(other);
            }
        }
    }
    touched
}

/// The range of each value of a task; empty: any number is valid.
pub(super) fn valid(task: &TaskConfig, columns: &[String]) -> Vec<[f64; 2]> {
    if task.valid == Valid::Any {
        return Vec::new();
    }
    let any = [f64::NEG_INFINITY, f64::INFINITY];
    columns.iter().map(|column| task.valid.of(column).unwrap_or(any)).collect()
}

fn no_such_range(task: &TaskConfig, columns: &[String]) -> Option<Problems> {
    let unknown = [
        ("valid", task.valid.stranger(columns)),
        ("stuck-after", task.stuck_after.as_ref().and_then(|after| after.stranger(columns))),
    ];
    let problem = |(key, name): (&'static str, Option<&str>)| {
        Some(Problems::at(&task.section, key, no_value(&task.name, name?, columns)))
    };
    unknown.into_iter().filter_map(problem).reduce(Problems::and)
}

fn no_such_value(task: &TaskConfig, taken: &Taken, columns: &[String]) -> Option<Problems> {
    let name = taken.name();
    let is_there = columns.contains(&name.value);
    let problem = || Problems::at_taken(&task.section, taken, no_value(&name.task, &name.value, columns));
    (!is_there).then(problem)
}

/// The message that a task has no value of this name.
pub(crate) fn no_value(task: &str, value: &str, columns: &[String]) -> String {
    let Some(near) = suggestion(value, columns.iter().map(String::as_str)) else {
        return match columns {
            [] => format!("task {task} has no values"),
            columns => format!("task {task} has no value {value:?}; it has {}", columns.join(", ")),
        };
    };
    format!("task {task} has no value {value:?}; did you mean {near:?}?")
}
