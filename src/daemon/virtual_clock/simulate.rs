//! The same schedules and the same hot loop as `run`, on the virtual clock.
//!
//! No device is opened and no real time is read. A task that only computes really runs, and so does an output, but without its target. A
//! script of run times or a recording replaces every other task. Workers do not affect each other and are simulated one after the other,
//! unless values flow between them. Such workers have a thread each; one thread runs at a time, in one order of virtual time.

use super::ledger::{Ledger, Lines, Played, RELAYED_AHEAD, Relay, Shown, SimulatedTick};
use super::models::Models;
use super::virtual_tasks::{Graph, VirtualTask};
use crate::channels::{Counts, Queue, Sent, rows};
use crate::config::{Config, TaskConfig};
use crate::daemon::main::summary::{Used, asked, summary, target_affordable, task_summary};
use crate::daemon::plan::{self, Epoch, TaskTerms, Window};
use crate::metrics::{Metrics, Progress, WorkerFacts};
use crate::pacing::Sleeps;
use crate::sim::{NeverPreempted, Scripted, SimClock};
use crate::snapshot::{GrantedSummary, Policy, RecordsSummary, Summary, TaskSummary, WorkerSummary};
use crate::sys::host::Host;
use crate::time::{Instant, NANOS_PER_SECOND, Span};
use crate::worker::{Control, Report, Runner, Slot, TaskSet};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulateOptions {
    /// Run exactly the releases with `r(n) − epoch` below this. If `first_tick` is above 0, count from its release without the phase
    /// instead of from the epoch.
    pub length: Span,
    /// Every task starts at this tick.
    pub first_tick: u64,
}

/// The highest first tick that leaves every task room to count its ticks (64 bits) and their nanoseconds (128 bits) over `length`, and the
/// task that sets this limit.
pub(crate) fn highest_first_tick(config: &Config, length: Span) -> Option<(u64, &str)> {
    let of = |task: &TaskConfig| {
        let exact = i128::MAX / i128::from(NANOS_PER_SECOND) / i128::from(task.rate.den());
        let last = u64::try_from(exact).unwrap_or(u64::MAX);
        last.saturating_sub(task.rate.ticks_before(length.nanos().into())).saturating_sub(1)
    };
    config.tasks.iter().map(|task| (of(task), task.name.as_str())).min()
}

/// Runs `config` on the virtual clock, passes every tick to `line`, and sums up. Each task is a script of run times; no values flow.
///
/// # Errors
/// The first error of `line`, after which it is not called again.
pub(crate) fn simulate(
    config: &Config,
    options: SimulateOptions,
    line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
) -> io::Result<Summary> {
    let (models, graph) = (&Models::default(), &Graph::scripts(config));
    Simulation { config, options, models, graph }.play(line)
}

/// A configuration on the virtual clock, to be run once.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    pub(crate) config: &'a Config,
    pub(crate) options: SimulateOptions,
    pub(crate) models: &'a Models,
    pub(crate) graph: &'a Graph,
}

impl Simulation<'_> {
    /// Runs the whole simulation and passes every tick to `line`.
    ///
    /// # Errors
    /// As [`simulate`].
    pub(crate) fn play(&self, line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>) -> io::Result<Summary> {
        let mut metrics = self.metrics();
        let mut records = RecordsSummary::default();
        let mut reports = BTreeMap::new();
        for group in self.graph.groups() {
            if let [worker] = group[..] {
                let (report, played) = self.worker(worker, &mut metrics, &mut *line)?;
                records.sent += played.sent;
                reports.insert(worker, report);
            } else {
                let (of_group, played) = self.together(group, &mut metrics, &mut *line)?;
                records.sent += played.sent;
                reports.extend(of_group);
            }
        }
        Ok(self.summary(&mut metrics, &reports.into_values().collect::<Vec<_>>(), records))
    }

    /// The metrics before the first tick.
    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        for (index, worker) in self.config.workers.iter().enumerate() {
            metrics.add_worker(index, worker.name.clone(), WorkerFacts::default());
        }
        for (task, id) in self.config.tasks.iter().zip(0..) {
            metrics.add_task(id, plan::facts(&TaskTerms::of(task), task.worker, Arc::default()));
        }
        metrics
    }

    /// The indices of a worker's tasks.
    fn tasks(&self, worker: usize) -> impl Iterator<Item = usize> {
        plan::of_worker(&self.config.tasks, worker)
    }

    /// Runs one worker to its end.
    fn worker(
        &self,
        index: usize,
        metrics: &mut Metrics,
        line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
    ) -> io::Result<(Report, Played)> {
        let ready = self.make_ready(index);
        let control = Arc::new(Control::default());
        let ledger = Ledger::new(self.config, metrics, line);
        let sink = Lines { worker: index, ledger, control: control.clone(), shown: ready.shown };
        let tail = self.config.workers[index].spin.tail();
        let runner = Runner::new(ready.clock, ready.set, Sleeps::new(tail), sink, control);
        let (report, sink, _) = runner.with_evidence(Box::new(NeverPreempted), false).run();
        Ok((report, sink.ledger.finish()?))
    }

    /// Runs a group of workers, between which values flow, to its end.
    fn together(
        &self,
        workers: &[usize],
        metrics: &mut Metrics,
        line: &mut dyn FnMut(SimulatedTick<'_>) -> io::Result<()>,
    ) -> io::Result<(Vec<(usize, Report)>, Played)> {
        let ready: Vec<_> = workers.iter().map(|index| self.make_ready(*index)).collect();
        let clocks: Vec<_> = ready.iter().map(|ready| ready.clock.clone()).collect();
        SimClock::in_one_order(&clocks);
        let controls: Vec<_> = workers.iter().map(|_| Arc::new(Control::default())).collect();
        let mut ledger = Ledger::new(self.config, metrics, line);
        let (relay, relayed) = sync_channel(RELAYED_AHEAD);
        let reports = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (((index, ready), clock), control) in workers.iter().zip(ready).zip(clocks).zip(&controls) {
                let sink = Relay { worker: *index, shown: ready.shown, relay: relay.clone() };
                let (control, sleeps) = (control.clone(), Sleeps::new(self.config.workers[*index].spin.tail()));
                threads.push(scope.spawn(move || {
                    let leaving = clock.leaving();
                    let runner = Runner::new(clock, ready.set, sleeps, sink, control);
                    let (report, sink, _) = runner.with_evidence(Box::new(NeverPreempted), false).run();
                    drop((sink, leaving));
                    report
                }));
            }
            drop(relay);
            for (worker, sent, row) in relayed {
                match sent {
                    Sent::Tick(record) => {
                        if !ledger.tick(worker, &record, &row) {
                            controls.iter().for_each(|control| control.stop());
                        }
                    }
                    Sent::IdleWake(wake) => ledger.woke_idle(worker, wake),
                }
            }
            let joined = |thread: thread::ScopedJoinHandle<'_, Report>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(joined).collect::<Vec<_>>()
        });
        Ok((workers.iter().copied().zip(reports).collect(), ledger.finish()?))
    }

    /// A worker's tasks, ready to run on a virtual clock.
    fn make_ready(&self, index: usize) -> ReadyWorker {
        let Self { config, options, models, graph } = *self;
        let window = Window { first_tick: options.first_tick, length: Some(options.length) };
        let terms: Vec<_> = self.tasks(index).map(|task| TaskTerms::of(&config.tasks[task])).collect();
        let schedule = plan::schedule(terms.iter(), Epoch::At(Instant::ZERO), window);
        // A run begins at its epoch. With a first tick, skip the wait from the epoch to its release.
        let began = match options.first_tick {
            0 => Instant::ZERO,
            _ => schedule.next_release().unwrap_or(Instant::ZERO),
        };
        let clock = SimClock::playing(began, models.oversleeps(config, index));
        let mut shown = BTreeMap::new();
        let slots = self.tasks(index).map(|task| {
            let slot = self.scripted(task, &clock);
            let Some(part) = graph.take(task) else { return slot };
            let (rows, shown_rows) = rows(Queue::Fifo, 1, part.width);
            let valid = part.flow.as_ref().map(|flow| flow.valid.clone()).unwrap_or_default();
            shown.insert(slot.id, Shown::new(shown_rows, valid, part.width));
            let (values, scripted) =
                (vec![f64::NAN; part.width], Scripted::playing(clock.clone(), models.runs(&config.tasks[task])));
            let (task, flow) = VirtualTask::new(part, scripted);
            Slot { task: Box::new(task), values: values.into(), rows: Some(rows), flow, ..slot }
        });
        let set = TaskSet::starting(schedule, slots.collect());
        ReadyWorker { clock, set, shown }
    }

    /// Sums up what the workers did, given their reports.
    fn summary(&self, metrics: &mut Metrics, reports: &[Report], records: RecordsSummary) -> Summary {
        let Self { config, models, .. } = self;
        for (id, given_up) in reports.iter().flat_map(|report| &report.given_up) {
            metrics.take_given_up(*id, *given_up);
        }
        let worker = |(index, report): (usize, &Report)| {
            let cpu_time = busy(metrics, report);
            let Report { elapsed, wakes, spun, fell_short, .. } = *report;
            let used = Used { elapsed, cpu_time, wakes, spun, fell_short };
            let (cpu_share, spin_share) = used.shares();
            WorkerSummary {
                worker: config.workers[index].name.clone(),
                clock: config.workers[index].clock.word().into(),
                granted: GrantedSummary {
                    policy: Policy { name: "virtual".into(), priority: 0 },
                    ..GrantedSummary::default()
                },
                asked: asked(&config.workers[index]),
                cpu_share,
                spin_share,
                spin_target_affordable: target_affordable(&config.workers[index], fell_short),
                wakes,
                oversleep_ns: metrics.oversleep(index),
                ..WorkerSummary::default()
            }
        };
        let workers = reports.iter().enumerate().map(worker).collect();
        let counts: BTreeMap<u32, Counts> = reports.iter().flat_map(|report| report.tasks.iter().copied()).collect();
        let mut task = |(task, id): (&TaskConfig, u32)| {
            let progress = Progress::finished(counts.get(&id).copied().unwrap_or_default());
            let name = &config.workers[task.worker].name;
            let summary = task_summary(&TaskTerms::of(task), name, progress, &metrics.snapshot(id), None);
            TaskSummary { as_recorded: models.as_recorded(&task.name), ..summary }
        };
        let tasks = config.tasks.iter().zip(0..).map(|each| Box::new(task(each)));
        summary(false, &Host::read(), workers, tasks, Vec::new(), records)
    }

    /// The stand-in for a task; its number is its index in the configuration.
    fn scripted(&self, index: usize, clock: &SimClock) -> Slot {
        let task = &self.config.tasks[index];
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        let scripted = Box::new(Scripted::playing(clock.clone(), self.models.runs(task)));
        Slot { budget: task.budget, ..Slot::of(id, scripted, task.deadline, task.rate.period()) }
    }
}

/// Virtual processor time: the ticks' runs and the spin tails.
fn busy(metrics: &mut Metrics, report: &Report) -> Span {
    let runs = report.tasks.iter().map(|(id, counts)| {
        let run = metrics.snapshot(*id).spans().run;
        i128::from(run.mean) * i128::from(counts.ran)
    });
    report.spun + Span::from_wide(runs.sum())
}

/// A worker that has not begun.
struct ReadyWorker {
    clock: SimClock,
    set: TaskSet,
    shown: BTreeMap<u32, Shown>, // by task number
}
