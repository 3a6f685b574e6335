//! The same schedules and the same hot loop, on the virtual clock.
//!
//! No thread is started, no file opened, no real time read: a script of how long its ticks take replaces each task. Workers
//! do not affect each other, so they are simulated one after the other.

use super::plan::{self, Epoch, TaskTerms, Window};
use super::summary::{Used, asked, summary, target_affordable, task_summary};
use crate::channels::{Counts, IdleWake, Sent, TickRecord, TickSink};
use crate::config::{Config, TaskConfig};
use crate::metrics::{
    GrantedSummary, Metrics, NoAccuser, Progress, RecordsSummary, Summary, WorkerFacts, WorkerSummary,
};
use crate::pacing::Sleeps;
use crate::sim::{NeverPreempted, Scripted, SimClock};
use crate::sys::host::Host;
use crate::time::{Instant, NANOS_PER_SECOND, Span};
use crate::worker::{Control, Report, Runner, Slot, TaskSet};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct SimulateOptions {
    /// Exactly the releases with `r(n) − epoch` below this. With a first tick, its release without the phase stands for
    /// the epoch.
    pub length: Span,
    /// Every task starts at this tick.
    pub first_tick: u64,
}

/// One tick, as `simulate --json` prints it. Instants count from the worker's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SimulatedTick<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// Index of the tick.
    pub n: u64,
    /// When it was meant to start.
    pub release_ns: i128,
    /// When it started.
    pub started_ns: i128,
    /// When it finished.
    pub finished_ns: i128,
    /// Releases given up before it, because something else held the worker, and when it had finished.
    pub skipped: u64,
}

/// The highest first tick from which every task can count its ticks (64 bits) and their nanoseconds (128 bits) for
/// `length`, with the task that allows no more.
pub(crate) fn highest_first_tick(config: &Config, length: Span) -> Option<(u64, &str)> {
    let of = |task: &TaskConfig| {
        let exact = i128::MAX / i128::from(NANOS_PER_SECOND) / i128::from(task.rate.den());
        let last = u64::try_from(exact).unwrap_or(u64::MAX);
        last.saturating_sub(task.rate.ticks_before(length.nanos().into())).saturating_sub(1)
    };
    config.tasks.iter().map(|task| (of(task), task.name.as_str())).min()
}

/// Runs `config` on the virtual clock, hands every tick to `line`, and sums up.
///
/// # Errors
/// The first error of `line`, after which nothing more is handed to it.
pub fn simulate(
    config: &Config,
    options: SimulateOptions,
    line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
) -> io::Result<Summary> {
    let window = Window { first_tick: options.first_tick, length: Some(options.length) };
    let mut metrics = Metrics::default();
    config
        .workers
        .iter()
        .enumerate()
        .for_each(|(index, worker)| metrics.add_worker(index, worker.name.clone(), WorkerFacts::default()));
    let terms: Vec<_> = config.tasks.iter().map(TaskTerms::of).collect();
    for ((task, terms), id) in config.tasks.iter().zip(&terms).zip(0..) {
        metrics.add_task(id, plan::facts(terms, task.worker, Arc::default()));
    }
    let names: Vec<_> = config.tasks.iter().map(|task| task.name.as_str()).collect();
    let mut reports = Vec::new();
    let mut records = RecordsSummary::default();
    for (index, worker) in config.workers.iter().enumerate() {
        let tasks = || plan::of_worker(&config.tasks, index);
        let schedule = plan::schedule(tasks().map(|task| &terms[task]), Epoch::At(Instant::ZERO), window);
        // An epoch is where a run begins; with a first tick the wait from there until its release is passed over.
        let began = match options.first_tick {
            0 => Instant::ZERO,
            _ => schedule.next_release().unwrap_or(Instant::ZERO),
        };
        let clock = SimClock::new(began, worker.simulated_oversleep.clone());
        let slots = tasks().map(|task| scripted(config, task, &clock)).collect();
        let control = Arc::new(Control::default());
        let sink = Lines {
            worker: index,
            names: &names,
            metrics: &mut metrics,
            line: &mut *line,
            control: control.clone(),
            records: &mut records,
            broken: None,
        };
        let set = TaskSet::starting(schedule, slots);
        let runner = Runner::new(clock, set, Sleeps::new(worker.spin.tail()), sink, control);
        let (report, sink, _) = runner.with_evidence(Box::new(NeverPreempted), false).run();
        if let Some(error) = sink.broken {
            return Err(error);
        }
        for (id, given_up) in &report.given_up {
            metrics.take_given_up(*id, *given_up);
        }
        reports.push(report);
    }
    let worker = |(index, report): (usize, &Report)| {
        let cpu_time = busy(&metrics, report);
        let Report { elapsed, wakes, spun, fell_short, .. } = *report;
        let used = Used { elapsed, cpu_time, wakes, spun, fell_short };
        let (cpu_share, spin_share) = used.shares();
        WorkerSummary {
            worker: config.workers[index].name.clone(),
            cpu: None,
            clock: config.workers[index].clock.word(),
            clock_steps: 0,
            clock_step: None,
            granted: GrantedSummary { policy: "virtual".into(), priority: 0, memory_locked: false },
            refused: Vec::new(),
            asked: asked(&config.workers[index]),
            stalled_ns: None,
            cpu_share_now: None,
            cpu_share_now_ns: None,
            cpu_share,
            spin_share,
            spin_target_affordable: target_affordable(&config.workers[index], fell_short),
            wakes,
            oversleep_ns: metrics.oversleep(index),
        }
    };
    let workers = reports.iter().enumerate().map(worker).collect();
    let counts: BTreeMap<u32, Counts> = reports.iter().flat_map(|report| report.tasks.iter().copied()).collect();
    let task = |((task, terms), id): ((&TaskConfig, _), _)| {
        let progress = Progress::finished(counts.get(&id).copied().unwrap_or_default());
        task_summary(terms, &config.workers[task.worker].name, progress, &metrics.snapshot(id), None)
    };
    Ok(summary(false, &Host::read(), workers, config.tasks.iter().zip(&terms).zip(0..).map(task), records))
}

/// The stand-in for a task; its number is its index in the configuration.
fn scripted(config: &Config, index: usize, clock: &SimClock) -> Slot {
    let task = &config.tasks[index];
    // What the script says, what the kind knows, else the longest run allowed.
    let known = || match task.blueprint.run() {
        [] => task.budget.into_iter().collect(),
        run => run.to_vec(),
    };
    let run = task.simulated_run.clone().unwrap_or_else(known);
    let id = u32::try_from(index).unwrap_or(u32::MAX);
    let scripted = Box::new(Scripted::new(clock.clone(), run));
    Slot { budget: task.budget, ..Slot::of(id, scripted, task.deadline, task.rate.period()) }
}

/// Virtual processor time: the ticks' runs and the spin tails.
fn busy(metrics: &Metrics, report: &Report) -> Span {
    let runs = report.tasks.iter().map(|(id, counts)| {
        let run = metrics.snapshot(*id).spans().run;
        i128::from(run.mean) * i128::from(counts.ran)
    });
    report.spun + Span::from_wide(runs.sum())
}

/// Takes the loop's records straight into the metrics, and prints them.
struct Lines<'a> {
    worker: usize,
    names: &'a [&'a str], // by number
    metrics: &'a mut Metrics,
    line: &'a mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
    control: Arc<Control>,
    records: &'a mut RecordsSummary,
    broken: Option<io::Error>,
}

impl TickSink for Lines<'_> {
    fn offer(&mut self, record: TickRecord) {
        self.records.sent += 1;
        self.metrics.observe(self.worker, &Sent::Tick(record));
        self.metrics.take(&record, &mut NoAccuser);
        let line = SimulatedTick {
            task: self.names[record.task as usize],
            n: record.n,
            release_ns: record.release.nanos(),
            started_ns: record.started().nanos(),
            finished_ns: record.finished().nanos(),
            skipped: record.skipped(),
        };
        if self.broken.is_none() {
            self.broken = (self.line)(line).err();
            if self.broken.is_some() {
                self.control.stop();
            }
        }
    }

    fn woke_idle(&mut self, wake: IdleWake) {
        self.metrics.observe(self.worker, &Sent::IdleWake(wake));
        self.metrics.take_idle(self.worker, &wake);
    }
}
