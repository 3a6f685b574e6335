//! Runs the worker's real loop on the virtual clock and keeps every record.

use crate::channels::{TickRecord, TickSink};
use crate::pacing::{Account, Grid, Overrun, Rate, Schedule, Sleeps, Tail};
use crate::task::Task;
use crate::time::{Clock, Instant, Span};
use crate::worker::{Control, Report, Runner, Slot, TaskSet};
use std::sync::Arc;

/// Keeps every record.
#[derive(Debug, Default)]
pub(crate) struct Keep(pub(crate) Vec<TickRecord>);

impl TickSink for Keep {
    fn offer(&mut self, record: TickRecord) {
        self.0.push(record);
    }
}

/// One task of a worker.
pub(crate) struct Spec {
    pub(crate) rate: Rate,
    pub(crate) phase: Span,
    pub(crate) overrun: Overrun,
    pub(crate) deadline: Span,
    pub(crate) task: Box<dyn Task>,
}

/// Runs `specs` on `clock`, whose current instant is the epoch: every release before `epoch + length`.
pub(crate) fn run(
    clock: impl Clock,
    epoch: Instant,
    specs: Vec<Spec>,
    tail: Tail,
    length: Span,
) -> (Report, Vec<TickRecord>) {
    let set = task_set(specs, |spec| Grid::starting_at(epoch + spec.phase, spec.rate), epoch + length);
    let runner = Runner::new(clock, set, Sleeps::new(tail), Keep::default(), Arc::new(Control::default()));
    let (report, Keep(records), _) = runner.run();
    (report, records)
}

/// The set of these tasks, each on its grid, with every release before `end`.
pub(crate) fn task_set(specs: Vec<Spec>, grid: impl Fn(&Spec) -> Grid, end: Instant) -> TaskSet {
    let account = |spec: &Spec| (Account::new(grid(spec), spec.overrun, 0, end), spec.deadline);
    let schedule = Schedule::new(specs.iter().map(account).collect::<Vec<_>>());
    let slot = |(spec, id): (Spec, u32)| Slot::of(id, spec.task, spec.deadline, spec.rate.period());
    let slots = specs.into_iter().zip(0..).map(slot).collect();
    TaskSet::starting(schedule, slots)
}

/// Spans from nanoseconds.
pub(crate) fn spans(nanos: &[i64]) -> Vec<Span> {
    nanos.iter().copied().map(Span::from_nanos).collect()
}
