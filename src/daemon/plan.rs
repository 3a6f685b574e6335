//! From a checked configuration to the schedules, paces and sizes that the threads get.
//!
//! Pure. Shared by `run` and `simulate`, so that both count the same releases.

use crate::channels::{LiveCounts, size};
use crate::config::{ClockKind, TakeEvidence, TaskConfig, WorkerConfig};
use crate::metrics::TaskFacts;
use crate::pacing::{Account, Grid, Overrun, Rate, Schedule, Turn};
use crate::sys::clock::KernelClock;
use crate::time::{Instant, Span};
use crate::worker::Pace;
use std::sync::Arc;

/// What remains of a task's section once the task is built. Thousands of whole sections would take megabytes.
#[derive(Clone, Debug)]
pub(super) struct TaskTerms {
    pub(super) name: String,
    pub(super) rate: Rate,
    phase: Span,
    pub(super) overrun: Overrun,
    pub(super) turn: Turn, // with its deadline
    pub(super) max_missed: f64,
    pub(super) max_latency: Option<Span>,
}

impl TaskTerms {
    pub(super) fn of(config: &TaskConfig) -> Self {
        let TaskConfig { rate, phase, overrun, turn, max_missed, max_latency, .. } = *config;
        Self { name: config.name.clone(), rate, phase, overrun, turn, max_missed, max_latency }
    }
}

/// Where ticks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epoch {
    /// Tick 0 of a task lies at this instant plus its phase.
    At(Instant),
    /// Ticks are aligned to the clock's own zero, and start at this instant.
    Aligned(Instant),
}

/// Which of all releases are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Every task starts at this tick.
    pub first_tick: u64,
    /// Run exactly the releases with `r(n) − epoch` below this; `None`: no end. If `first_tick` is above 0, count from its release without
    /// the phase instead of from the epoch.
    pub length: Option<Span>,
}

impl Epoch {
    /// Nothing is released before this instant.
    pub(super) const fn start(self) -> Instant {
        match self {
            Self::At(start) | Self::Aligned(start) => start,
        }
    }

    /// The pace of a task that joins a worker with this epoch. It ends at `end`, on the worker's clock.
    pub(super) fn pace(self, task: &TaskTerms, end: Instant) -> Pace {
        let zero = match self {
            Self::At(epoch) => epoch + task.phase,
            Self::Aligned(_) => Instant::ZERO + task.phase,
        };
        Pace { zero, rate: task.rate, overrun: task.overrun, turn: task.turn, end }
    }
}

/// A worker's initial schedule for these tasks.
pub(super) fn schedule<'a>(tasks: impl Iterator<Item = &'a TaskTerms>, epoch: Epoch, window: Window) -> Schedule {
    let open = |task: &TaskTerms| {
        let (grid, start) = match epoch {
            Epoch::At(epoch) => {
                let start = epoch.plus_nanos(task.rate.offset(window.first_tick));
                (Grid::starting_at(epoch + task.phase, task.rate), start)
            }
            Epoch::Aligned(start) => (Grid::aligned(Instant::ZERO + task.phase, start, task.rate), start),
        };
        let end = window.length.map_or(Instant::MAX, |length| start + length);
        (Account::new(grid, task.overrun, window.first_tick, end), task.turn)
    };
    Schedule::new(tasks.map(open))
}

/// Indices in the configuration of the tasks of `worker`, in the order of declaration.
pub(super) fn of_worker(tasks: &[TaskConfig], worker: usize) -> impl Iterator<Item = usize> {
    tasks.iter().enumerate().filter(move |(_, task)| task.worker == worker).map(|(index, _)| index)
}

/// The kernel clock of this kind.
pub(super) fn clock(kind: ClockKind) -> KernelClock {
    match kind {
        ClockKind::Monotonic => KernelClock::monotonic(),
        ClockKind::Tai => KernelClock::tai(),
        ClockKind::Realtime => KernelClock::realtime(),
    }
}

/// What the metrics need to know of a task: its terms, its worker's number and the counts that its worker publishes.
pub(super) fn facts(task: &TaskTerms, worker: usize, live: Arc<LiveCounts>) -> TaskFacts {
    TaskFacts {
        name: task.name.as_str().into(),
        columns: None,
        worker,
        period: task.rate.period(),
        deadline: task.turn.deadline(),
        grid_moves: task.overrun == Overrun::Delay,
        kept: match task.overrun {
            Overrun::Drop | Overrun::KeepWorking => task.rate.period(),
            Overrun::CatchUp { max } => Span::from_nanos(task.rate.period().nanos().saturating_mul(max.into())),
            Overrun::Credit { max_debt } => max_debt,
            Overrun::Delay => Span::MAX,
        },
        rate: task.rate,
        max_missed: task.max_missed,
        max_latency: task.max_latency.unwrap_or(Span::MAX),
        live,
    }
}

/// The capacity of a worker's channel, in record parts.
pub(super) fn records<'a>(tasks: impl Iterator<Item = &'a TaskConfig>, worker: &WorkerConfig) -> usize {
    // A tick takes one part, another if it has evidence, and one more if earlier releases were given up.
    let (usually, missing) = match worker.evidence {
        TakeEvidence::Off => (1, 2),
        TakeEvidence::Wake => (1, 3),
        TakeEvidence::Tick => (2, 3),
    };
    size::parts(tasks.map(|task| (task.rate.hertz(), !task.taken.is_empty())), usually, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Evidence, TickRecord, TickSink, ticks};
    use crate::config::{Config, Facts, Kinds};
    use std::fmt::Write as _;

    #[test]
    fn a_channel_has_room_for_a_tick_of_every_task_at_once_each_of_which_has_given_up_releases() {
        for count in [1, 10_000] {
            let mut text = String::new();
            for task in 0..count {
                writeln!(text, "[task.t{task}]\nkind = \"load\"\nperiod = \"1h\"").unwrap();
            }
            let facts = Facts { online_cpus: vec![0], cpu_set_size: 1_024 };
            let config = Config::parse(text, "test.toml", &Kinds::builtin(), &facts).unwrap();
            let (mut sender, receiver) = ticks(records(config.tasks.iter(), &config.workers[0]));
            let missed = TickRecord { missed: 1, evidence: Some(Evidence::default()), ..TickRecord::EMPTY };
            (0..count).for_each(|task| sender.offer(TickRecord { task, ..missed }));
            assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (count.into(), 0));
        }
    }
}
