//! Runs the worker's real loop on the virtual clock and keeps every record. Also a small random number generator.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

use hertzd::internals::{Clock, Control, Report, Runner, Sleeps, Slot, Tail, TaskSet, TickRecord, TickSink};
use hertzd::pacing::{Account, Grid, Overrun, Rate, Schedule};
use hertzd::task::Task;
use hertzd::time::{Instant, Span};
use std::sync::Arc;

/// SplitMix64: the same sequence for the same seed on every machine, so that a failing seed can be reported.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..below`.
    pub(crate) fn below(&mut self, below: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(below).unwrap()).unwrap()
    }

    /// Up to `most` numbers (at least one) in `0..below`.
    pub(crate) fn some_below(&mut self, most: i64, below: i64) -> Vec<i64> {
        let count = 1 + self.below(most);
        (0..count).map(|_| self.below(below)).collect()
    }
}

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
