//! Turns configured tasks into tasks that can run: builds them, opens recordings, makes queues. May block.

use super::joints::Joint;
use super::joints::valid;
use crate::channels::{self, Format, Limits, RowSender, Shape, Stream, size};
use crate::config::{
    Config, Conflict, OnError, Problems, RecordConfig, RecordFormat, Taken, TaskConfig, refuse_value_name, share,
};
use crate::daemon::failure::Failure;
use crate::daemon::plan;
use crate::pacing::LeakyBucket;
use crate::recording::{Content, Identity, Recordings, TaskOutput, WatchedInput};
use crate::safety::Guard;
use crate::site::{Aside, Beginning, Built, Site};
use crate::sys::clock::KernelClock;
use crate::sys::host::missing_folder;
use crate::task::Column;
use crate::time::Instant;
use crate::worker::Slot;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};

/// A task that has been built, with its queues, but does not run yet.
pub(crate) struct Assembled {
    pub(crate) slot: Slot,
    pub(crate) output: Option<TaskOutput>,
    pub(super) joint: Joint,
    /// What the task writes before its first tick.
    pub(super) beginnings: Vec<Beginning>,
    /// Guards that make the outputs safe when the task does not.
    pub(crate) guards: Vec<Weak<Guard>>,
}

/// What tasks bring for threads other than their worker, by task number. Most tasks bring nothing.
pub(crate) type Asides = BTreeMap<u32, Aside>;

/// Builds the tasks of `config` whose names `begins` selects, and returns them by their index in `config`. The other tasks already run;
/// they keep their devices, and the tasks that end hand theirs over. Numbers come from `next_id`. `building` is called with each task's
/// name before the task is built.
pub(crate) fn assemble(
    config: &mut Config,
    site: &Site,
    begins: impl Fn(&str) -> bool,
    next_id: &mut u32,
    recordings: &mut Recordings,
    building: impl Fn(&str),
) -> Result<(BTreeMap<usize, Assembled>, Asides), Failure> {
    let (mut built, mut asides) = (BTreeMap::new(), Asides::new());
    let mut problems = share_recordings(&mut config.tasks);
    let workers = &config.workers;
    let running = config.tasks.iter().filter(|task| !begins(&task.name));
    let mut site = site.beside(running.map(|task| task.name.clone()));
    for (index, task) in config.tasks.iter_mut().enumerate().filter(|(_, task)| begins(&task.name)) {
        building(&task.name);
        let clock = plan::clock(workers[task.worker].clock);
        match assemble_one(task, &mut site, *next_id, clock, recordings) {
            Ok((one, aside)) => {
                asides.extend(aside.map(|aside| (one.slot.id, aside)));
                built.insert(index, one);
            }
            Err(found) => {
                problems = Some(match problems {
                    Some(others) => others.and(found),
                    None => found,
                });
            }
        }
        *next_id += 1;
    }
    problems.map_or(Ok((built, asides)), |problems| Err(Failure::Config(problems)))
}

/// Merges the recordings of tasks that record to the same file by different paths. Only the file system can tell.
pub(crate) fn share_recordings(tasks: &mut [TaskConfig]) -> Option<Problems> {
    let records = tasks.iter_mut().map(|TaskConfig { name, record, .. }| (name.as_str(), record.as_mut()));
    let conflicts = share(records, Identity::of).into_iter();
    let problem = |Conflict { task, key, message, .. }| Problems::at(&tasks[task].section, key, message);
    conflicts.map(problem).reduce(Problems::and)
}

/// What the task can record. Rejects problems that the section alone does not show.
pub(crate) fn content(config: &TaskConfig, columns: Vec<Column>, shape: Option<&Shape>) -> Result<Content, Problems> {
    // A user's own kind names its values only when it is built.
    if let Some((name, problem)) = columns.iter().find_map(|Column { name, .. }| Some((name, refuse_value_name(name)?)))
    {
        let text = format!("its value {name:?} {problem}");
        return Err(Problems::at(&config.section, "kind", text));
    }
    if config.record.is_none() && columns.is_empty() && config.section.has("queue") {
        let text = "has no effect: the task has no values and no recording; remove it";
        return Err(Problems::at(&config.section, "queue", text));
    }
    let names: Vec<_> = columns.iter().map(|column| column.name.clone()).collect();
    let valid = valid(config, &names);
    Ok(Content {
        task: config.name.clone(),
        columns,
        raw: config.record_raw,
        valid,
        format: shape.map(|shape| shape.format.clone()),
    })
}

pub(crate) fn not_recorded(config: &TaskConfig, record: &RecordConfig, error: &io::Error) -> Problems {
    let path = record.path.display();
    let missing = if error.kind() == io::ErrorKind::NotFound { missing_folder(&record.path) } else { String::new() };
    Problems::at(&config.section, "record", format_args!("cannot record to {path}: {error}{missing}"))
}

/// Returns which block formats a recording accepts.
const fn takes_blocks(recording: RecordFormat) -> fn(&Format) -> bool {
    match recording {
        RecordFormat::Csv => |format| matches!(format, Format::Samples(_)),
        RecordFormat::Wav | RecordFormat::Mcap => |_| true,
    }
}

fn assemble_one(
    config: &mut TaskConfig,
    site: &mut Site,
    id: u32,
    clock: KernelClock,
    recordings: &mut Recordings,
) -> Result<(Assembled, Option<Aside>), Problems> {
    site.records(config.record.as_ref().map(|record| (config.queue, takes_blocks(record.format))));
    let built = config.blueprint.build(site);
    let Built { task, code, measures, stream, aside, beginnings, guards } =
        built.map_err(|error| Problems::at(&config.section, error.key, error.message))?;
    let (shape, blocks) = stream.map_or((None, None), |Stream { shape, blocks }| (Some(shape), blocks));
    let content = content(config, task.columns(), shape.as_ref())?;
    let open =
        |record: &RecordConfig| recordings.open(record, &content).map_err(|error| not_recorded(config, record, &error));
    let recording = config.record.as_ref().map(open).transpose()?;
    let joint = Joint::of(config, &content.columns, measures);
    let columns = content.columns.len();
    let values = vec![f64::NAN; columns];
    let mut rows: Option<RowSender> = None;
    let mut output = None;
    if recording.is_some() || columns > 0 {
        let (sender, receiver) = channels::rows(config.queue, size::rows(config.rate.hertz()), columns);
        rows = Some(sender.with_valid(&content.valid));
        let watched = |(taken, limits): &(Taken, Limits)| WatchedInput {
            name: taken.name().full(),
            input: taken.input.clone(),
            max_age: limits.max_age,
            bad: None,
            turned: Instant::ZERO,
            logged: None,
        };
        let inputs = config.taken.iter().map(watched).collect();
        let ticks = config.record.as_ref().filter(|record| record.format == RecordFormat::Mcap).map(|_| Arc::default());
        output = Some(TaskOutput { id, clock, content, inputs, rows: receiver, blocks, recording, ticks });
    }
    let slot = Slot {
        id,
        task,
        code,
        deadline: config.deadline,
        budget: config.budget,
        period: config.rate.period(),
        on_error: config.on_error,
        // A panic may leave the task in a broken state, so it continues only if the section says so.
        on_panic: if config.section.has("on-error") { config.on_error } else { OnError::Disable },
        limit: config.overrun_limit.map(|limit| (LeakyBucket::new(limit.count, limit.leak), limit.action)),
        values: values.into(),
        rows,
        flow: None,
        live: Arc::default(),
    };
    Ok((Assembled { slot, output, joint, beginnings, guards }, aside))
}
