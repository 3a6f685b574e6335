//! From the configuration's tasks to what runs: tasks are built, recordings opened, rings made.

use super::{Failure, clock, plan};
use crate::config::{Config, Problems, TaskConfig};
use crate::metrics::TaskFacts;
use crate::outputs::{CsvFile, Stream};
use crate::pacing::{LeakyBucket, Overrun};
use crate::stream::{self, Queue, RowSender};
use crate::worker::Slot;

/// A task that has been built and does not run yet.
pub(super) struct Built {
    /// Its place in the configuration.
    pub(super) index: usize,
    pub(super) slot: Slot,
    pub(super) stream: Option<Stream>,
}

/// Builds those tasks of `config` that `wanted` chooses by their places; numbers are taken from `next_id`.
pub(super) fn build(
    config: &mut Config,
    wanted: impl Fn(usize) -> bool,
    next_id: &mut u32,
) -> Result<Vec<Built>, Failure> {
    let mut built = Vec::new();
    let mut problems: Option<Problems> = None;
    let workers = &config.workers;
    for (index, task) in config.tasks.iter_mut().enumerate().filter(|(index, _)| wanted(*index)) {
        let clock = clock(workers[task.worker].clock);
        match build_one(task, *next_id, clock) {
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
    clock: crate::sys::clock::KernelClock,
) -> Result<(Slot, Option<Stream>), Problems> {
    let mut task = config.blueprint.build().map_err(|error| Problems::at(&config.section, error.key, error.message))?;
    let columns = task.columns();
    let record = config.record.as_deref();
    let csv = match record.map(|path| CsvFile::open(path, &columns)).transpose() {
        Ok(csv) => csv,
        Err(error) => {
            let path = record.unwrap_or("".as_ref()).display();
            return Err(Problems::at(&config.section, "record", format_args!("cannot record to {path}: {error}")));
        }
    };
    let values = vec![f64::NAN; columns.len()];
    let mut rows: Option<RowSender> = None;
    let mut stream = None;
    if csv.is_some() || !columns.is_empty() {
        let blocks = task.stream().filter(|_| record.is_some()).map(|shape| {
            let (sender, receiver) = stream::blocks(Queue::Fifo, &shape);
            task.connect(sender);
            (receiver, shape.format)
        });
        let (sender, receiver) = stream::rows(Queue::Fifo, plan::room(config.rate.hertz(), 4.0, 256), columns.len());
        rows = Some(sender);
        stream = Some(Stream { id, task: config.name.clone(), clock, columns, rows: receiver, blocks, csv });
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
