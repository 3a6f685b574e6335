//! The shipped loop with tasks that do nothing, for benches: what is left is the cost of the loop itself.

use hertzd::channels::{TickRecord, TickSink};
use hertzd::internals::{Control, Runner, Slot, TaskSet};
use hertzd::pacing::{Account, Grid, Overrun, Rate, Schedule, Sleeps, Tail};
use hertzd::task::{Task, Tick, TickError};
use hertzd::time::{Clock, Instant, Span};
use std::hint::black_box;
use std::sync::Arc;

struct Idle;

impl Task for Idle {
    fn tick(&mut self, tick: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        black_box(tick);
        Ok(())
    }
}

/// Takes records to nowhere.
pub(crate) struct Nowhere;

impl TickSink for Nowhere {
    fn offer(&mut self, record: TickRecord) {
        black_box(record);
    }
}

/// A worker that runs `ticks` ticks from `epoch` on, one per millisecond, distributed over `tasks`.
pub(crate) fn runner<C: Clock>(clock: C, epoch: Instant, tail: Tail, tasks: u32, ticks: u32) -> Runner<C, Nowhere> {
    let rate = Rate::new(1_000, tasks.into()).unwrap();
    let end = epoch + Span::from_millis(ticks.into());
    // Nothing is ever given up: every run has the same ticks.
    let overrun = Overrun::Credit { max_debt: Span::MAX };
    let accounts = (0..tasks).map(|task| {
        let grid = Grid::starting_at(epoch + Span::from_millis(task.into()), rate);
        (Account::new(grid, overrun, 0, end), rate.period())
    });
    let schedule = Schedule::new(accounts);
    let slots = (0..tasks).map(|id| Slot::of(id, Box::new(Idle), rate.period(), rate.period()));
    let set = TaskSet::starting(schedule, slots.collect());
    Runner::new(clock, set, Sleeps::new(tail), Nowhere, Arc::new(Control::default()))
}
