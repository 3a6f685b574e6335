//! Puts summaries together: counts from the workers, histograms from the metrics, values from the recorder.
//!
//! The last summary takes its counts from the workers themselves, so they are right even where records were dropped; a
//! snapshot while it runs takes them from the records.

use super::Daemon;
use super::diff::Sections;
use super::metrics_thread::View;
use crate::config::Config;
use crate::log::journal;
use crate::metrics::{
    Distribution, Granted, HostSummary, JournalSummary, Picture, RecordsSummary, Summary, TaskSummary, WorkerSummary,
};
use crate::recording::OutputState;
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::thread;
use crate::time::{Clock, Span};
use crate::worker::{Counts, Finished, Report, Standing};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a snapshot waits for the threads it asks.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the status socket says: the summary so far, and the daemon itself.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    /// The summary so far.
    #[serde(flatten)]
    pub summary: Summary,
    /// The daemon itself.
    pub daemon: DaemonSummary,
}

/// The daemon itself, as the status socket shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DaemonSummary {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The files its configuration was read from; none for the embedded one.
    pub files: Vec<String>,
    /// Time since the epoch, in nanoseconds.
    pub running_ns: i64,
    /// All workers have run their first tick.
    pub ready: bool,
    /// Reloads asked for so far, whatever came of them.
    pub reloads: u64,
    /// Reloads that were refused.
    pub reloads_refused: u64,
    /// What came of the latest reload, for people; empty before the first.
    pub last_reload: String,
    /// The latest reload was refused.
    pub last_reload_refused: bool,
    /// The sections that run, by name.
    pub sections: Sections,
}

/// What a worker was granted and has used.
pub(super) struct WorkerPart {
    pub(super) granted: Granted,
    pub(super) cpu: Option<usize>,
    pub(super) refused: Vec<String>,
    pub(super) elapsed: Span,
    pub(super) cpu_time: Span,
    pub(super) spun: Span,
    pub(super) wakes: u64,
    pub(super) oversleep: Distribution,
}

/// What a task has come to.
#[derive(Default)]
pub(super) struct TaskPart {
    pub(super) counts: Counts,
    pub(super) picture: Picture,
    pub(super) streamed: Option<OutputState>,
}

/// The summary of `config`, whose workers and tasks have come to these parts.
pub(super) fn summary(
    host: &Host,
    config: &Config,
    workers: Vec<WorkerPart>,
    tasks: Vec<TaskPart>,
    records: RecordsSummary,
) -> Summary {
    let share = |span: Span, of: Span| {
        if of > Span::ZERO { span.seconds() / of.seconds() } else { 0.0 }
    };
    let worker = |(of, part): (&crate::config::WorkerConfig, WorkerPart)| WorkerSummary {
        worker: of.name.clone(),
        cpu: part.cpu,
        granted: part.granted,
        refused: part.refused,
        cpu_share: share(part.cpu_time, part.elapsed),
        spin_share: share(part.spun, part.elapsed),
        wakes: part.wakes,
        oversleep_ns: part.oversleep,
    };
    let task = |(of, part): (&crate::config::TaskConfig, TaskPart)| {
        let TaskPart { counts, picture, streamed } = part;
        let (values, recorded) = streamed.map(|streamed| (streamed.values, streamed.recorded)).unwrap_or_default();
        TaskSummary {
            task: of.name.clone(),
            worker: config.workers[of.worker].name.clone(),
            rate: of.rate.to_string(),
            due: counts.ran + counts.skipped,
            ran: counts.ran,
            skipped: counts.skipped,
            overruns: counts.overruns,
            over_budget: counts.over_budget,
            errors: counts.errors,
            disabled: counts.disabled,
            lateness_ns: picture.lateness,
            run_ns: picture.run,
            response_ns: picture.response,
            causes: picture.causes,
            values,
            recorded,
        }
    };
    let journal = JournalSummary { sent: journal::sent(), lost: journal::lost() };
    Summary {
        version: 1,
        host: HostSummary {
            kernel: host.kernel.clone(),
            cpus: host.cpus,
            preempt: host.preempt.clone(),
            clocksource: host.clocksource.clone(),
        },
        workers: config.workers.iter().zip(workers).map(worker).collect(),
        tasks: config.tasks.iter().zip(tasks).map(task).collect(),
        records,
        journal: (journal.sent + journal.lost > 0).then_some(journal),
    }
}

/// A worker that has ended.
pub(super) struct EndedWorker {
    pub(super) number: usize,
    pub(super) standing: Standing,
    pub(super) elapsed: Span,
    pub(super) finished: Finished,
}

/// The summary at the end.
pub(super) fn last(daemon: &Daemon, ended: &[EndedWorker], view: &View, streamed: &[OutputState]) -> Summary {
    let workers = ended.iter().map(|EndedWorker { number, standing, elapsed, finished }| {
        let Report { wakes, spun, .. } = finished.report;
        worker_part(daemon, standing, *number, view, Used { elapsed: *elapsed, cpu_time: finished.cpu, wakes, spun })
    });
    let workers = workers.collect();
    let counts = |id: u32| {
        let mut all = ended.iter().flat_map(|ended| &ended.finished.report.tasks);
        all.find(|(of, _)| *of == id).map(|(_, counts)| *counts).unwrap_or_default()
    };
    let tasks = task_parts(daemon, view, streamed, counts);
    summary(&daemon.host, &daemon.config, workers, tasks, records(view))
}

/// How it stands now; `None` when the metrics thread is held up.
pub(super) fn snapshot(daemon: &Daemon) -> Option<Snapshot> {
    let view = daemon.collector.look_within(PATIENCE)?;
    let streamed = daemon.recording.look_within(PATIENCE).unwrap_or_default();
    let now = KernelClock::monotonic().now();
    let workers = daemon.workers.iter().map(|running| {
        let cpu_time = thread::cpu_time_of(running.worker.id()).unwrap_or(Span::ZERO);
        let (wakes, spun) = running.worker.rested();
        let used = Used { elapsed: now - running.began, cpu_time, wakes, spun };
        worker_part(daemon, &running.standing, running.number, &view, used)
    });
    let workers = workers.collect();
    let counts = |id: u32| {
        let totals = view.picture(id).totals;
        Counts {
            ran: totals.ticks,
            skipped: totals.skipped,
            overruns: totals.overruns,
            over_budget: totals.over_budget,
            errors: totals.errors,
            disabled: totals.disabled,
        }
    };
    let tasks = task_parts(daemon, &view, &streamed, counts);
    let daemon_summary = DaemonSummary {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        files: daemon.config.files.iter().map(|path| path.display().to_string()).collect(),
        running_ns: (now - daemon.epoch).nanos(),
        ready: daemon.told.ready,
        reloads: daemon.reloads.asked,
        reloads_refused: daemon.reloads.refused,
        last_reload: daemon.reloads.last.clone(),
        last_reload_refused: daemon.reloads.refused_last,
        sections: Sections::of(&daemon.config),
    };
    let summary = summary(&daemon.host, &daemon.config, workers, tasks, records(&view));
    Some(Snapshot { summary, daemon: daemon_summary })
}

/// What a worker has used.
struct Used {
    elapsed: Span,
    cpu_time: Span,
    wakes: u64,
    spun: Span,
}

fn worker_part(
    daemon: &Daemon,
    standing: &Standing,
    number: usize,
    view: &View,
    Used { elapsed, cpu_time, wakes, spun }: Used,
) -> WorkerPart {
    let cpu = match standing.cpus[..] {
        [cpu] => Some(cpu),
        _ => None,
    };
    let (policy, memory_locked) = (standing.policy.into(), daemon.memory_locked);
    WorkerPart {
        granted: Granted { policy, priority: standing.priority, memory_locked },
        cpu,
        refused: standing.refused.iter().map(ToString::to_string).collect(),
        elapsed,
        cpu_time,
        spun,
        wakes,
        oversleep: view.oversleeps.get(&number).copied().unwrap_or_default(),
    }
}

fn task_parts(daemon: &Daemon, view: &View, streamed: &[OutputState], counts: impl Fn(u32) -> Counts) -> Vec<TaskPart> {
    let part = |id: &u32| TaskPart {
        counts: counts(*id),
        picture: view.picture(*id),
        streamed: streamed.iter().find(|streamed| streamed.id == *id).cloned(),
    };
    daemon.ids.iter().map(part).collect()
}

fn records(view: &View) -> RecordsSummary {
    RecordsSummary { sent: view.sent, dropped: view.dropped }
}
