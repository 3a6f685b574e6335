//! From the configuration's tasks to what runs: tasks are built, recordings opened, rings made.

use super::{Failure, clock, plan};
use crate::channels::{self, RowSender};
use crate::config::{Config, Problems, RecordConfig, RecordFormat, TaskConfig};
use crate::kinds::device::Exchange;
use crate::metrics::TaskFacts;
use crate::pacing::{LeakyBucket, Overrun};
use crate::recording::{Content, Recordings, TaskOutput, place};
use crate::sys::clock::KernelClock;
use crate::worker::Slot;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A task that has been built and does not run yet.
pub(super) struct Built {
    /// Its place in the configuration.
    pub(super) index: usize,
    pub(super) slot: Slot,
    pub(super) stream: Option<TaskOutput>,
}

/// Files that only one task may record to, by their places, and that task's name.
type Sole = BTreeMap<PathBuf, String>;

fn sole(task: &TaskConfig) -> Option<PathBuf> {
    task.record.as_ref().filter(|record| record.format != RecordFormat::Mcap).map(|record| place(&record.path))
}

/// Builds those tasks of `config` that `wanted` chooses by their places; numbers are taken from `next_id`. The others run
/// already.
pub(super) fn build(
    config: &mut Config,
    wanted: impl Fn(usize) -> bool,
    next_id: &mut u32,
    recordings: &mut Recordings,
) -> Result<Vec<Built>, Failure> {
    let mut built = Vec::new();
    let mut problems: Option<Problems> = None;
    let workers = &config.workers;
    let running = || config.tasks.iter().enumerate().filter(|(index, _)| !wanted(*index));
    // Devices of the tasks that end are handed over to those that begin.
    let _exchange = Exchange::beside(running().map(|(_, task)| task.name.clone()));
    let mut taken: Sole = running().filter_map(|(_, task)| Some((sole(task)?, task.name.clone()))).collect();
    for (index, task) in config.tasks.iter_mut().enumerate().filter(|(index, _)| wanted(*index)) {
        let clock = clock(workers[task.worker].clock);
        match build_one(task, *next_id, clock, recordings, &mut taken) {
            Ok((slot, stream)) => built.push(Built { index, slot, stream }),
            Err(found) => {
                problems = Some(match problems {
                    Some(others) => others.and(found),
                    None => found,
                });
            }
        }
        *next_id += 1;
    }
    problems.map_or(Ok(built), |problems| Err(Failure::Config(problems)))
}

fn build_one(
    config: &mut TaskConfig,
    id: u32,
    clock: KernelClock,
    recordings: &mut Recordings,
    taken: &mut Sole,
) -> Result<(Slot, Option<TaskOutput>), Problems> {
    let mut task = config.blueprint.build().map_err(|error| Problems::at(&config.section, error.key, error.message))?;
    let columns = task.columns();
    let shape = task.stream();
    let format = shape.as_ref().map(|shape| shape.format.clone());
    let content = Content { task: config.name.clone(), columns, format };
    let open = |record: &RecordConfig| {
        recordings.open(record, &content).map_err(|error| {
            let path = record.path.display();
            Problems::at(&config.section, "record", format_args!("cannot record to {path}: {error}"))
        })
    };
    // Other ways to write the same path were not seen when the configuration was read.
    if let Some(place) = sole(config)
        && let Some(other) = taken.insert(place, config.name.clone())
    {
        let text = format!("task.{other} records there too; give each its own file");
        return Err(Problems::at(&config.section, "record", text));
    }
    let recording = config.record.as_ref().map(open).transpose()?;
    let columns = content.columns.len();
    if recording.is_none() && columns == 0 && config.section.has("queue") {
        let text = "has no effect: the task has no values and no recording; remove it";
        return Err(Problems::at(&config.section, "queue", text));
    }
    let values = vec![f64::NAN; columns];
    let mut rows: Option<RowSender> = None;
    let mut stream = None;
    if recording.is_some() || columns > 0 {
        let wanted = config.record.as_ref().is_some_and(|record| content.has_blocks_for(record.format));
        let blocks = shape.filter(|_| wanted).map(|shape| {
            let (sender, receiver) = channels::blocks(config.queue, &shape);
            task.connect(sender);
            receiver
        });
        let (sender, receiver) = channels::rows(config.queue, plan::room(config.rate.hertz(), 4.0, 256), columns);
        rows = Some(sender);
        let ticks = config.record.as_ref().filter(|record| record.format == RecordFormat::Mcap).map(|_| Arc::default());
        stream = Some(TaskOutput { id, clock, content, rows: receiver, blocks, recording, ticks });
    }
    let slot = Slot {
        id,
        task,
        deadline: config.deadline,
        budget: config.budget,
        period: config.rate.period(),
        on_error: config.on_error,
        limit: config.overrun_limit.map(|limit| (LeakyBucket::new(limit.count, limit.leak), limit.action)),
        values,
        rows,
    };
    Ok((slot, stream))
}

/// What the metrics are to know of a task, whose worker has this number.
pub(super) fn facts(task: &TaskConfig, worker: usize) -> TaskFacts {
    TaskFacts {
        name: task.name.clone(),
        worker,
        period: task.rate.period(),
        grid_moves: task.overrun == Overrun::Delay,
    }
}
