//! The shipped loop with tasks that do nothing, for benches: what is left is the cost of the loop itself.

use hertzd::internals::{Clock, Control, Runner, Sleeps, Slot, Tail, TaskSet, TickRecord, TickSink};
use hertzd::pacing::{Account, Grid, Overrun, Rate, Schedule};
use hertzd::task::{Task, Tick, TickError};
use hertzd::time::{Instant, Span};
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

/// When the tasks are due: together, or in turns.
#[derive(Clone, Copy)]
pub(crate) enum Phases {
    Equal,
    Spread,
}

/// A worker that runs `ticks` ticks from `epoch` on, one per millisecond on average, distributed over `tasks`. Records go to `sink`.
pub(crate) fn runner<C: Clock, S: TickSink>(
    clock: C,
    epoch: Instant,
    tail: Tail,
    (tasks, phases): (u32, Phases),
    ticks: u32,
    sink: S,
) -> Runner<C, S> {
    let rate = Rate::new(1_000, tasks.into()).unwrap();
    let end = epoch + Span::from_millis(ticks.into());
    // Nothing is ever given up: every run has the same ticks.
    let overrun = Overrun::Credit { max_debt: Span::MAX };
    let accounts = (0..tasks).map(|task| {
        let phase = if let Phases::Spread = phases { Span::from_millis(task.into()) } else { Span::ZERO };
        let grid = Grid::starting_at(epoch + phase, rate);
        (Account::new(grid, overrun, 0, end), rate.period())
    });
    let schedule = Schedule::new(accounts);
    let slots = (0..tasks).map(|id| Slot::of(id, Box::new(Idle), rate.period(), rate.period()));
    let set = TaskSet::starting(schedule, slots.collect());
    Runner::new(clock, set, Sleeps::new(tail), sink, Arc::new(Control::default()))
}
