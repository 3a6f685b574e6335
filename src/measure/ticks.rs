//! How late ticks start in the worker's own loop, with a task that does nothing. The loop, the thread and the channel are the same ones
//! that `hertzd run` uses.

use super::watch::Watch;
use crate::channels::{self, TickReceiver, TickRecord, size};
use crate::config::{Scheduling, TakeEvidence};
use crate::metrics::Histogram;
use crate::pacing::{Account, Grid, Overrun, Rate, Schedule, Tail};
use crate::snapshot::Counts;
use crate::sys::clock::KernelClock;
use crate::sys::thread::Bandwidth;
use crate::task::{Task, Tick, TickError, code_of};
use crate::time::{Clock, Span};
use crate::worker::{Assignment, Granted, Slot, TaskSet, Worker, WorkerEnd};
use crossbeam_channel::unbounded;
use std::io;

/// How far ahead the epoch is; the tail is rehearsed until then. `hertzd run` allows 5 ms. Here the thread that starts the workers may have
/// to wait for a CPU behind the load, and that must not make the first tick late.
const BEGIN_IN: Span = Span::from_millis(20);

/// A task that does nothing.
struct Nothing;

impl Task for Nothing {
    fn tick(&mut self, _: &Tick, _: &mut [f64]) -> Result<(), TickError> {
        Ok(())
    }
}

/// The results of one worker.
pub(super) struct Ticked {
    pub(super) granted: Granted,
    pub(super) lateness: Histogram,
    pub(super) counts: Counts,
    pub(super) dropped: u64,
    pub(super) elapsed: Span,
    pub(super) cpu: Span,
    pub(super) spun: Span,
}

/// A running worker.
struct Running {
    worker: Worker,
    granted: Granted,
    records: TickReceiver,
    lateness: Histogram,
    period: Span,
    end: Option<WorkerEnd>,
}

/// What to run.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub(super) scheduling: Scheduling,
    pub(super) rate: Rate,
    pub(super) tail: Tail,
    pub(super) length: Span,
}

/// Runs a worker on each of `cpus` at once.
pub(super) fn tick(cpus: &[usize], spec: Spec, what: &str, watch: &mut Watch<'_>) -> io::Result<Vec<Ticked>> {
    let mut running = cpus.iter().map(|cpu| Running::set_up(*cpu, spec)).collect::<io::Result<Vec<_>>>()?;
    running.iter_mut().for_each(|one| one.start(spec));
    let stop = watch.stop.clone();
    let waited = watch.wait(what, spec.length, || {
        let stopping = stop.load(std::sync::atomic::Ordering::Relaxed);
        running.iter_mut().for_each(|one| one.look(stopping));
        running.iter().all(|one| one.end.is_some() && one.worker.is_finished())
    });
    if waited.is_err() {
        running.iter_mut().for_each(|one| one.worker.stop());
    }
    waited?;
    running.into_iter().map(Running::ended).collect()
}

impl Running {
    fn set_up(cpu: usize, spec: Spec) -> io::Result<Self> {
        let (ticks, records) = channels::ticks(size::records(spec.rate.hertz()));
        let assignment = Assignment {
            name: format!("cpu-{cpu}"),
            cpus: vec![cpu],
            anywhere: Vec::new(),
            scheduling: spec.scheduling,
            evidence: TakeEvidence::Wake,
            tail: spec.tail,
            ticks,
        };
        // No one reads this channel: the worker's end is queried instead.
        let (done, _) = unbounded();
        let (worker, _) = Worker::spawn(assignment, done)?;
        let granted = worker.set_up(Bandwidth::default())?;
        Ok(Self { worker, granted, records, lateness: Histogram::new(3), period: spec.rate.period(), end: None })
    }

    fn start(&mut self, spec: Spec) {
        let epoch = KernelClock::monotonic().now() + BEGIN_IN;
        let grid = Grid::starting_at(epoch, spec.rate);
        let account = Account::new(grid, Overrun::KeepWorking, 0, epoch + spec.length);
        let slot = Slot { code: code_of::<Nothing>(), ..Slot::of(0, Box::new(Nothing), self.period, self.period) };
        self.worker.start(TaskSet::starting(Schedule::new([(account, self.period)]), vec![slot]), epoch);
    }

    /// Takes the records sent so far.
    fn look(&mut self, stopping: bool) {
        if stopping {
            self.worker.stop();
        }
        // In this order: a worker sends its last record before it ends.
        let end = self.worker.take_end();
        while let Some(record) = self.records.take() {
            self.enter(&record);
        }
        self.end = self.end.take().or(end);
    }

    /// Ticks that never ran count with the lateness they had when they were given up.
    fn enter(&mut self, record: &TickRecord) {
        self.lateness.add(record.lateness);
        if record.missed > 0 {
            let before = i128::from(self.period.nanos()) * i128::from(record.missed);
            let oldest = Span::from_wide(i128::from(record.lateness.nanos()) + before);
            self.lateness.add_missed(oldest, self.period, record.missed);
        }
        if record.dropped > 0 {
            self.lateness.add_missed(record.response - self.period, self.period, record.dropped);
        }
    }

    fn ended(mut self) -> io::Result<Ticked> {
        let Some(WorkerEnd::Finished(finished)) = self.end else {
            return Err(io::Error::other("a worker's thread ended with a panic"));
        };
        let report = &finished.report;
        for (_, given_up) in &report.given_up {
            self.lateness.add_missed(given_up.oldest, self.period, given_up.count);
        }
        let counts = report.tasks.first().map(|(_, counts)| *counts).unwrap_or_default();
        Ok(Ticked {
            granted: self.granted,
            lateness: self.lateness,
            counts: Counts::of(counts.ran, counts.skipped, counts.overruns),
            dropped: self.records.traffic().dropped(),
            elapsed: report.elapsed,
            cpu: finished.cpu,
            spun: report.spun,
        })
    }
}
