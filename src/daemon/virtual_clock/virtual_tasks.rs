//! What runs in place of each task on the virtual clock, and the links between them. That is the task itself if it computes, an output
//! without its target, a recording of its values, a plant, or only a script of run times.
//!
//! Building reads recordings and opens nothing else. During ticks nothing blocks and no clock is read.

use super::models::{RecordedValues, played_at};
use super::plant::Plant;
use crate::channels::{Column, InputSource};
use crate::config::{Config, Failing, Problems, StandIn, TaskConfig, Valid};
use crate::daemon::change::diff::{Diff, Sections};
use crate::daemon::change::joints::{Joint, Joints, flows, joints, no_value};
use crate::sim::Scripted;
use crate::site::{Built, Site};
use crate::task::{Task, Tick, TickError};
use crate::time::{Instant, Span};
use crate::worker::Flow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What makes the values of a task.
enum Source {
    /// Nothing: it has none.
    Nothing,
    Task(Built),
    Recording {
        values: RecordedValues,
        zero: Instant,
    },
    Plant(Arc<Mutex<Plant>>),
}

/// A plant that one of a task's values drives.
struct Driven {
    column: usize, // of the value
    plant: Arc<Mutex<Plant>>,
}

/// A task that has values or reads some.
pub(crate) struct Part {
    source: Source,
    drives: Vec<Driven>,
    fails: Option<Failing>,
    /// Its links to other tasks.
    pub(crate) flow: Option<Box<Flow>>,
    /// The number of its values.
    pub(super) width: usize,
}

/// The values of all tasks of a configuration on the virtual clock, and how they flow.
pub(crate) struct Graph {
    parts: Mutex<BTreeMap<usize, Part>>, // by task index
    columns: BTreeMap<usize, Vec<Column>>,
    groups: Vec<Vec<usize>>, // workers between which values flow
    missing: Vec<Missing>,
    recorded: Vec<(String, Span)>, // tasks, and how long their recordings last
    units: Vec<String>,            // recorded values whose unit differs here, one sentence each
}

impl Graph {
    /// Without values: every task is a script, and each worker is on its own.
    pub(crate) fn scripts(config: &Config) -> Self {
        let groups = (0..config.workers.len()).map(|worker| vec![worker]).collect();
        Self {
            parts: Mutex::default(),
            columns: BTreeMap::new(),
            groups,
            missing: Vec::new(),
            recorded: Vec::new(),
            units: Vec::new(),
        }
    }

    /// Builds the tasks that compute, and reads recordings.
    ///
    /// # Errors
    /// A file that cannot be used, or a value that its task does not have.
    pub(crate) fn build(config: &mut Config) -> Result<Self, Problems> {
        let (mut sources, mut site) = (BTreeMap::new(), Site::default());
        let mut problems = Vec::new();
        for index in 0..config.tasks.len() {
            match source(&mut config.tasks[index], &mut site) {
                Ok((source, columns)) => drop(sources.insert(index, (source, columns))),
                Err(problem) => problems.push(problem),
            }
        }
        if let Some(problems) = problems.into_iter().reduce(Problems::and) {
            return Err(problems);
        }
        let config = &*config;
        let missing = add_missing(config, &mut sources)?;
        let built = sources.iter().map(|(index, (source, columns))| {
            let measures = match source {
                Source::Task(built) => built.measures,
                _ => true,
            };
            (*index, Joint::of(&config.tasks[*index], columns, measures))
        });
        let joints = joints(config, built.collect(), &Joints::new());
        let diff = Diff::between(&Sections::default(), &Sections::of(config));
        let mut flows = flows(config, &joints, &Joints::new(), &diff)?;
        let mut drives = drives(config, &sources)?;
        let groups = groups(config);
        let name = |index: usize| config.tasks[index].name.clone();
        let recorded = sources.iter().filter_map(|(index, (source, _))| match source {
            Source::Recording { values, .. } => Some((name(*index), values.length())),
            _ => None,
        });
        let recorded = recorded.collect();
        let units =
            sources.iter().flat_map(|(index, (source, _))| other_units(&config.tasks[*index], source)).collect();
        let mut columns = BTreeMap::new();
        let mut parts = BTreeMap::new();
        for (index, (source, of_task)) in sources {
            let (flow, drives) = (flows.remove(&index), drives.remove(&index).unwrap_or_default());
            if matches!(source, Source::Nothing) && flow.is_none() && drives.is_empty() {
                continue;
            }
            let (width, fails) = (of_task.len(), config.tasks[index].fails.as_deref().copied());
            if !matches!(source, Source::Nothing) {
                columns.insert(index, of_task);
            }
            parts.insert(index, Part { source, drives, fails, flow, width });
        }
        Ok(Self { parts: Mutex::new(parts), columns, groups, missing, recorded, units })
    }

    /// The workers, grouped where values flow between them.
    pub(crate) fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// Whether any values flow.
    pub(crate) fn flows(&self) -> bool {
        self.parts().values().any(|part| part.flow.is_some() || !part.drives.is_empty())
    }

    /// The values of the tasks that have any, by task index.
    pub(crate) fn columns(&self) -> &BTreeMap<usize, Vec<Column>> {
        &self.columns
    }

    /// What has no values in a run of this `length`, or values in another unit, one sentence each.
    pub(crate) fn notes(&self, length: Span) -> Vec<String> {
        let missing = self.missing.iter().map(Missing::to_string);
        let ends = self.recorded.iter().filter(|(_, lasts)| *lasts < length);
        let ends = ends
            .map(|(task, lasts)| format!("task.{task}: what was recorded lasts {lasts}; after that it has no values"));
        missing.chain(ends).chain(self.units.iter().cloned()).collect()
    }

    /// Takes the part of a task, once.
    pub(crate) fn take(&self, task: usize) -> Option<Part> {
        self.parts().remove(&task)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<usize, Part>> {
        locked(&self.parts)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("groups", &self.groups).finish_non_exhaustive()
    }
}

/// A value that nothing makes in this simulation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Missing {
    task: String,
    value: String,
    /// If it closes a cycle, the number that its readers get instead.
    instead: Option<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, value, instead } = self;
        let seen = match instead {
            Some(number) => format!("where its value of the tick before is taken, that is {number} all the time"),
            None => "tasks that read it get no value".to_owned(),
        };
        write!(
            f,
            "nothing makes {task}.{value} here, so {seen}; write values = \"FILE.csv\" or a plant under \
             [task.{task}.simulate]"
        )
    }
}

type Sources = BTreeMap<usize, (Source, Vec<Column>)>;

/// What makes the values of a task, and their names.
fn source(task: &mut TaskConfig, site: &mut Site) -> Result<(Source, Vec<Column>), Problems> {
    Ok(match task.stand_in.as_deref() {
        Some(StandIn::Recording { path, section }) => {
            let values = RecordedValues::read(path).map_err(|reason| Problems::at(section, "values", reason))?;
            let mut columns = values.columns.clone();
            for column in columns.iter_mut().filter(|column| column.unit.is_empty()) {
                column.unit = task.blueprint.unit(&column.name);
            }
            (Source::Recording { values, zero: Instant::ZERO + task.phase }, columns)
        }
        Some(StandIn::Plant(config)) => {
            let columns = vec![Column { name: config.value.clone(), unit: task.blueprint.unit(&config.value) }];
            (Source::Plant(Arc::new(Mutex::new(Plant::new(config)))), columns)
        }
        None => match task.blueprint.build_at_the_desk(site) {
            Some(built) => {
                let built = built.map_err(|error| Problems::at(&task.section, error.key, error.message))?;
                let columns = built.task.columns();
                (Source::Task(built), columns)
            }
            None => (Source::Nothing, Vec::new()),
        },
    })
}

/// Recorded values of a task whose unit differs from its section, one sentence each.
fn other_units(task: &TaskConfig, source: &Source) -> Vec<String> {
    let (Source::Recording { values, .. }, Some(StandIn::Recording { path, .. })) = (source, task.stand_in.as_deref())
    else {
        return Vec::new();
    };
    let differs = |Column { name, unit }: &Column| {
        let here = task.blueprint.unit(name);
        let text = || {
            format!(
                "task.{}: {name} is in {here}, but in {unit} in {}; its numbers are taken as they are",
                task.name,
                path.display()
            )
        };
        (!here.is_empty() && !unit.is_empty() && here != *unit).then(text)
    };
    values.columns.iter().filter_map(differs).collect()
}

/// Adds values that are read but that nothing makes in this simulation to the tasks they belong to. They are missing at each tick. Returns
/// them.
///
/// # Errors
/// A value that a recording, or a task that computes, does not have.
fn add_missing(config: &Config, sources: &mut Sources) -> Result<Vec<Missing>, Problems> {
    let mut missing = BTreeSet::new();
    let mut problems = Vec::new();
    let position = |name: &str| config.tasks.iter().position(|task| task.name == name);
    let made: BTreeMap<usize, usize> = sources.iter().map(|(index, (_, columns))| (*index, columns.len())).collect();
    for task in &config.tasks {
        let of_plant = match task.stand_in.as_deref() {
            Some(StandIn::Plant(plant)) => Some((&plant.input, &plant.section, "input")),
            _ => None,
        };
        let taken = task.taken.iter().map(|(taken, _)| (&taken.input, &task.section, taken.key));
        for (input, section, key) in taken.chain(of_plant) {
            let InputSource::Value(name) = input.source() else { continue };
            let Some(from) = position(&name.task) else { continue };
            let Some((source, columns)) = sources.get_mut(&from) else { continue };
            let at = columns.iter().position(|column| column.name == name.value);
            if at.is_some_and(|at| at < made[&from]) {
                continue;
            }
            match source {
                Source::Task(_) | Source::Recording { .. } => {
                    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
                    let reason = no_value(&name.task, &name.value, &names);
                    let from_file = matches!(source, Source::Recording { .. });
                    let reason = if from_file { format!("in what was recorded, {reason}") } else { reason };
                    problems.push(Problems::at(section, key, reason));
                }
                Source::Nothing | Source::Plant(_) => {
                    if at.is_none() {
                        columns.push(Column {
                            name: name.value.clone(),
                            unit: config.tasks[from].blueprint.unit(&name.value),
                        });
                    }
                    let instead = name.previous.map(|number| number.to_string());
                    missing.insert(Missing { task: name.task.clone(), value: name.value.clone(), instead });
                }
            }
        }
    }
    // A range for a value that nothing makes in this simulation is not an error.
    for (index, task) in config.tasks.iter().enumerate() {
        let (Valid::Named(named), Some((source, columns))) = (&task.valid, sources.get_mut(&index)) else { continue };
        for (name, _) in named {
            let is_known = columns.iter().any(|column| column.name == *name);
            if !is_known && matches!(source, Source::Nothing | Source::Plant(_)) {
                columns.push(Column { name: name.clone(), unit: task.blueprint.unit(name) });
            }
        }
    }
    match problems.into_iter().reduce(Problems::and) {
        Some(problems) => Err(problems),
        None => Ok(missing.into_iter().collect()),
    }
}

/// The plants that each task drives. This is not a link to the tasks that these plants stand in for: the age of a measured value counts
/// from the measurement.
fn drives(config: &Config, sources: &Sources) -> Result<BTreeMap<usize, Vec<Driven>>, Problems> {
    let mut drives: BTreeMap<usize, Vec<Driven>> = BTreeMap::new();
    let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    for (index, task) in config.tasks.iter().enumerate() {
        let Some(StandIn::Plant(plant)) = task.stand_in.as_deref() else { continue };
        let InputSource::Value(name) = plant.input.source() else { continue };
        let Some(from) = config.tasks.iter().position(|task| task.name == name.task) else { continue };
        let columns = sources.get(&from).map(|(_, columns)| names(columns)).unwrap_or_default();
        let Some(column) = columns.iter().position(|column| *column == name.value) else {
            return Err(Problems::at(&plant.section, "input", no_value(&name.task, &name.value, &columns)));
        };
        if let Some((Source::Plant(plant), _)) = sources.get(&index) {
            drives.entry(from).or_default().push(Driven { column, plant: plant.clone() });
        }
    }
    Ok(drives)
}

/// The workers, grouped where values flow between them. Each group is at the position of its first worker.
fn groups(config: &Config) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..config.workers.len()).collect();
    for task in &config.tasks {
        let plant = match task.stand_in.as_deref() {
            Some(StandIn::Plant(plant)) => Some(&plant.input),
            _ => None,
        };
        for input in task.taken.iter().map(|(taken, _)| &taken.input).chain(plant) {
            let InputSource::Value(name) = input.source() else { continue };
            let Some(from) = config.tasks.iter().find(|task| task.name == name.task) else { continue };
            let [one, other] = [group[from.worker], group[task.worker]];
            group.iter_mut().filter(|of| **of == one.max(other)).for_each(|of| *of = one.min(other));
        }
    }
    let members = |first: usize| (0..group.len()).filter(|worker| group[*worker] == first).collect::<Vec<_>>();
    (0..group.len()).map(members).filter(|members| !members.is_empty()).collect()
}

const DOES_NOT_ANSWER: TickError = TickError::new("it does not answer, by `fails-at`");

/// A task on the virtual clock: it makes its values and then takes its time.
pub(crate) struct VirtualTask {
    source: Source,
    drives: Vec<Driven>,
    fails: Option<Failing>,
    scripted: Scripted,
}

impl VirtualTask {
    /// Makes a task from its part of the graph. Its ticks take as long as those of `scripted`.
    pub(crate) fn new(part: Part, scripted: Scripted) -> (Self, Option<Box<Flow>>) {
        let Part { source, drives, fails, flow, .. } = part;
        (Self { source, drives, fails, scripted }, flow)
    }

    /// The task itself, if it runs.
    fn task(&self) -> Option<&dyn Task> {
        match &self.source {
            Source::Task(built) => Some(&*built.task),
            _ => None,
        }
    }

    fn make(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        match &mut self.source {
            Source::Nothing => Ok(()),
            Source::Task(built) => built.task.tick(tick, values),
            Source::Recording { values: recorded, zero } => {
                if let Some(row) = recorded.at(played_at(tick.release, *zero, tick.period)) {
                    values.copy_from_slice(row);
                }
                Ok(())
            }
            Source::Plant(plant) => {
                values[0] = locked(plant).measure(tick.release);
                Ok(())
            }
        }
    }
}

impl Task for VirtualTask {
    fn age(&self) -> Span {
        self.task().map_or(Span::ZERO, Task::age)
    }

    fn origin(&self) -> Option<Instant> {
        self.task().and_then(Task::origin)
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let mut made = self.make(tick, values); // also if the task fails: a plant continues
        if self.fails.is_some_and(|fails| fails.contains(tick.release - Instant::ZERO)) {
            values.fill(f64::NAN);
            made = Err(DOES_NOT_ANSWER);
        }
        self.scripted.tick(tick, &mut [])?;
        // A task's output acts when its tick has finished.
        for Driven { column, plant } in &self.drives {
            locked(plant).drive(self.scripted.now(), values[*column]);
        }
        made
    }
}

/// Locks it for the one thread whose turn it is.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
