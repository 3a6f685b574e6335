//! Assembles summaries: counts from the workers, histograms from the metrics, values from the recorder.
//!
//! All counts are the workers' own, so they are right even if records were dropped. For a worker that has ended, they come from its final
//! report; for a running one, they are as recent as the view of the metrics. Reads no clock.

use super::condition;
use crate::channels::alarm::Level;
use crate::channels::{Counts, stale_after};
use crate::config::{Scheduling, Spin, WorkerConfig};
use crate::daemon::change::diff::Sections;
use crate::daemon::change::joints::Joint;
use crate::daemon::change::running::{Running, RunningTask};
use crate::daemon::change::running_set::RunningSet;
use crate::daemon::disk::recorder_thread::Outputs;
use crate::daemon::metrics::alarms::AlarmState;
use crate::daemon::metrics::metrics_thread::View;
use crate::daemon::plan::TaskTerms;
use crate::daemon::watch::stall::StallLooks;
use crate::log::journal;
use crate::metrics::{Cause, Progress, Spans, TaskSnapshot};
use crate::recording::{OutputState, PastLoss};
use crate::snapshot::{
    AlarmSummary, AskedSummary, ClockStepSummary, DaemonSummary, EndedRecordingSummary, GrantedSummary, HostSummary,
    JournalSummary, LatencySummary, Policy, RecordsSummary, Summary, TaskState, TaskSummary, ValueSummary,
    WorkerSummary, trouble, trouble_now,
};
use crate::sys::host::Host;
use crate::sys::thread;
use crate::time::{Instant, Span};
use crate::worker::{Report, WorkerEnd};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the status socket sends.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// The full answer.
    Snapshot(Box<Snapshot>),
    /// Nothing is known of the tasks yet.
    HeldUp {
        /// The reason, for people.
        error: &'static str,
    },
}

/// The summary so far, and the daemon itself.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    /// The summary so far.
    #[serde(flatten)]
    pub summary: Summary,
    /// The daemon itself.
    pub daemon: RunningDaemon,
}

/// The daemon itself, and the sections that a reload compares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunningDaemon {
    /// The daemon itself.
    #[serde(flatten)]
    pub daemon: DaemonSummary,
    /// The running sections, by name.
    pub sections: Arc<Sections>,
}

/// What a worker has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) elapsed: Span,
    pub(crate) cpu_time: Span,
    pub(crate) wakes: u64,
    pub(crate) spun: Span,
    pub(crate) fell_short: bool,
}

impl Used {
    /// The shares of one CPU that were used in total and in spin tails.
    pub(crate) fn shares(&self) -> (f64, f64) {
        let share = |span: Span| if self.elapsed > Span::ZERO { span.seconds() / self.elapsed.seconds() } else { 0.0 };
        (share(self.cpu_time), share(self.spun))
    }
}

/// The summary of these workers and tasks, running or ended.
pub(crate) fn summary(
    runs: bool,
    host: &Host,
    workers: Vec<WorkerSummary>,
    tasks: impl Iterator<Item = Box<TaskSummary>>,
    recordings_ended: Vec<EndedRecordingSummary>,
    records: RecordsSummary,
) -> Summary {
    let journal = JournalSummary { sent: journal::sent(), lost: journal::lost() };
    let mut summary = Summary {
        version: 1,
        well: true,
        host: HostSummary {
            kernel: host.kernel.clone(),
            cpus: host.cpus,
            preempt: host.preempt.clone(),
            clocksource: host.clocksource.clone(),
        },
        workers,
        tasks: tasks.collect(),
        recordings_ended,
        records,
        journal: (journal.sent + journal.lost > 0).then_some(journal),
        ..Summary::default()
    };
    let clauses = if runs { trouble_now(&summary) } else { trouble(&summary) };
    summary.object(clauses);
    summary
}

/// The summary of one task.
pub(crate) fn task_summary(
    terms: &TaskTerms,
    worker: &str,
    progress: Progress,
    snapshot: &TaskSnapshot,
    output: Option<OutputState>,
) -> TaskSummary {
    let Progress { over_budget, errors, disabled, counts } = progress;
    let mut causes = snapshot.causes.clone();
    // The counts include every release. The causes lack releases whose record is missing or has not arrived.
    let unexplained = counts.missed.saturating_sub(causes.values().sum());
    // Until its final counts arrive, only the clock shows what a disabled task misses.
    let open = if disabled { progress.open() } else { 0 };
    let open = open.saturating_sub(causes.get(Cause::Disabled.word()).copied().unwrap_or(0));
    let while_disabled = unexplained.min(open);
    for (cause, count) in [(Cause::Disabled, while_disabled), (Cause::Unknown, unexplained - while_disabled)] {
        if count > 0 {
            *causes.entry(cause.word().into()).or_default() += count;
        }
    }
    let Spans { lateness, run, response, age, .. } = snapshot.spans();
    let latency = terms.max_latency.map(|most| {
        let none = || Box::new(LatencySummary { max_latency_ns: most.nanos(), ..LatencySummary::default() });
        snapshot.latency.clone().unwrap_or_else(none)
    });
    let (mut values, inputs, recorded) =
        output.map(|output| (output.values, output.inputs, output.recorded)).unwrap_or_default();
    if disabled {
        values.values_mut().for_each(ValueSummary::end);
    }
    TaskSummary {
        task: terms.name.clone(),
        worker: worker.into(),
        rate: terms.rate.to_string(),
        state: if disabled { TaskState::Disabled } else { TaskState::Ticking },
        counts,
        over_budget,
        errors,
        disabled,
        lateness_ns: lateness,
        run_ns: run,
        response_ns: response,
        age_ns: age.map(Box::new),
        latency,
        causes,
        causes_judged: (unexplained > 0).then(|| snapshot.causes.clone()),
        before_reload: snapshot.before.clone(),
        blockers: snapshot.blockers.clone(),
        max_missed: terms.max_missed,
        values,
        inputs,
        recorded,
        ..TaskSummary::default()
    }
}

/// The names of the tasks in `set`.
pub(crate) fn names(set: &RunningSet) -> BTreeSet<&str> {
    set.in_force().flat_map(|running| running.tasks.iter().map(|task| task.terms.name.as_str())).collect()
}

/// The alarms of the tasks in `set` at `now`.
pub(crate) fn alarms(alarms: Option<&[AlarmState]>, set: &RunningSet, now: Instant) -> Option<Vec<AlarmSummary>> {
    let names = names(set);
    let summary = |alarm: &AlarmState| AlarmSummary {
        task: alarm.task.clone(),
        active: alarm.level != Level::Normal,
        level: alarm.level.word().into(),
        severity: alarm.severity.word().into(),
        value: Some(alarm.value).filter(|value| value.is_finite()),
        latched: alarm.is_latched,
        since_ns: alarm.since.map(|since| (now - since).nanos().max(0)),
    };
    Some(alarms?.iter().filter(|alarm| names.contains(alarm.task.as_str())).map(summary).collect())
}

/// The inputs of a summary.
pub(crate) struct Sources<'a> {
    pub(crate) host: &'a Host,
    pub(crate) set: &'a RunningSet,
    pub(crate) memory_locked: bool,
    pub(crate) view: &'a View,
    pub(crate) outputs: &'a Outputs,
    pub(crate) now: Instant,
}

/// The summary of the set. With `looks` the set still runs, and the summary shows how it is doing; otherwise it has ended. Contains the
/// tasks that `keep` selects.
pub(super) fn of_set(
    sources: &Sources<'_>,
    looks: Option<StallLooks>,
    mut keep: impl FnMut(&TaskSummary) -> bool,
) -> Summary {
    let Sources { host, set, memory_locked, view, outputs, now } = *sources;

    let workers = set.in_force().map(|running| worker_summary(running, memory_locked, view, now, looks)).collect();
    let tasks = set.in_force().flat_map(|running| running.tasks.iter().map(move |task| (running, task)));
    // A task that moves to another worker may run on both until the change is complete.
    let mut names = BTreeSet::new();
    let mut tasks: Vec<_> = tasks.filter(|(_, task)| names.insert(&task.terms.name)).collect();
    tasks.sort_unstable_by_key(|(_, task)| task.index);
    let ended = set.in_force().filter_map(|running| match &running.end {
        Some(WorkerEnd::Finished(finished)) => Some(&finished.report.tasks),
        _ => None,
    });
    let finals: BTreeMap<u32, Counts> = ended.flatten().copied().collect();
    let none = TaskSnapshot::default();
    let Outputs { states, past } = outputs;
    let mut past = past.clone();
    // The recorder may still have tasks that a reload has ended and that are no longer in the set.
    let shown: BTreeSet<u32> = tasks.iter().map(|(_, task)| task.id).collect();
    for state in states.iter().filter(|state| !shown.contains(&state.id)) {
        PastLoss::add(&mut past, state);
    }
    let task = |(running, task): (&Running, &RunningTask)| {
        let snapshot = view.task(task.id).unwrap_or(&none);
        let output = states.binary_search_by_key(&task.id, |output| output.id).ok().map(|index| states[index].clone());
        let progress = match finals.get(&task.id) {
            Some(counts) => Progress::finished(*counts),
            None => progress(running, snapshot, looks.is_some()),
        };
        let mut summary = task_summary(&task.terms, &running.config.name, progress, snapshot, output);
        if let (Some(_), Some(spans)) = (looks, &snapshot.spans) {
            summary.lateness_histogram_ns.clone_from(&spans.late);
        }
        match looks {
            Some(looks) if running.end.is_none() => {
                condition::show(&mut summary, running, task.id, &snapshot.health, looks);
            }
            Some(_) => condition::show_ended(&mut summary, &snapshot.health),
            _ if running.watch.stalled().is_some_and(|(stalled, _)| stalled == task.id) => {
                summary.state = TaskState::Stalled;
            }
            _ if running.end.is_none() && running.watch.sleeps_on() && !summary.disabled => {
                summary.state = TaskState::Stalled;
            }
            _ => {}
        }
        let measures = || set.joints.get(&*task.terms.name).is_some_and(Joint::measures);
        if summary.state == TaskState::Stalled && measures() {
            let stale_after = stale_after(task.terms.rate.period());
            summary.values.values_mut().for_each(|value| value.outlive(stale_after));
        }
        summary
    };
    // Box each task at once: two copies of ten thousand tasks would be the process's peak memory.
    let mut kept = Vec::new();
    for each in tasks {
        let mut task = task(each);
        add_past(&mut task, &mut past, now);
        if keep(&task) {
            kept.push(Box::new(task));
        }
    }
    let ended = past.into_iter().map(|(task, PastLoss { path, lost, lost_at })| EndedRecordingSummary {
        task,
        path,
        lost,
        lost_age_ns: (now - lost_at).nanos().max(0),
    });
    let records = RecordsSummary { sent: view.sent, dropped: view.dropped };
    let mut summary = summary(looks.is_some(), host, workers, kept.into_iter(), ended.collect(), records);
    summary.before_reload_dropped = view.before_reload_dropped;
    summary.shadow = set.is_shadow;
    summary
}

/// Adds what this task's recording lost before a reload restarted it.
fn add_past(task: &mut TaskSummary, past: &mut BTreeMap<String, PastLoss>, now: Instant) {
    let Some(recorded) = &mut task.recorded else { return };
    let Some(PastLoss { lost, lost_at, .. }) = past.remove(&task.task) else { return };
    recorded.lost += lost;
    recorded.lost_before_reload = lost;
    let age = (now - lost_at).nanos().max(0);
    recorded.lost_age_ns = Some(recorded.lost_age_ns.map_or(age, |since| since.min(age)));
}

/// For a task whose final counts are unknown.
fn progress(running: &Running, snapshot: &TaskSnapshot, runs: bool) -> Progress {
    match &running.end {
        Some(WorkerEnd::Finished(_)) => Progress::finished(Counts::default()),
        _ if runs => snapshot.health.progress,
        _ => snapshot.health.progress.given_up(),
    }
}

fn worker_summary(
    running: &Running,
    memory_locked: bool,
    view: &View,
    now: Instant,
    looks: Option<StallLooks>,
) -> WorkerSummary {
    let elapsed = running.began.map_or(Span::ZERO, |began| now - began);
    let used = match &running.end {
        Some(WorkerEnd::Finished(finished)) => {
            let Report { wakes, spun, fell_short, .. } = finished.report;
            Used { elapsed, cpu_time: finished.cpu, wakes, spun, fell_short }
        }
        _ => {
            let cpu_time = thread::cpu_time_of(running.worker.id()).unwrap_or(Span::ZERO);
            let (wakes, spun) = running.worker.rested();
            Used { elapsed, cpu_time, wakes, spun, fell_short: running.worker.falls_short() }
        }
    };
    let granted = &running.granted;
    let (cpu_share, spin_share) = used.shares();
    let share_now = looks.and_then(|_| running.meter.share());
    WorkerSummary {
        worker: running.config.name.clone(),
        cpu: if let [cpu] = granted.cpus[..] { Some(cpu) } else { None },
        clock: running.config.clock.word().into(),
        clock_steps: running.clock.as_ref().map_or(0, |clock| clock.steps),
        clock_step: running
            .clock
            .as_ref()
            .and_then(|clock| clock.latest)
            .map(|step| ClockStepSummary { by_ns: step.by.nanos(), age_ns: (now - step.at).nanos().max(0) }),
        granted: GrantedSummary {
            policy: Policy { name: granted.policy.into(), priority: granted.priority },
            memory_locked,
            cpus: granted.cpus.clone(),
        },
        refused: granted.refused.iter().map(ToString::to_string).collect(),
        asked: asked(&running.config),
        stalled_ns: looks.and_then(|looks| running.stall(looks)).map(|stall| stall.lasting.nanos()),
        cpu_share_now: share_now.map(|shares| shares.cpu),
        cpu_share_now_ns: share_now.map(|shares| shares.over.nanos()),
        spin_share_now: share_now.map(|shares| shares.spin),
        cpu_share,
        spin_share,
        spin_target_affordable: target_affordable(&running.config, used.fell_short),
        wakes: used.wakes,
        oversleep_ns: view.oversleeps.get(&running.number).cloned().unwrap_or_default(),
    }
}

/// Whether its spin tail's target is affordable; `None`: it has no target.
pub(crate) fn target_affordable(config: &WorkerConfig, fell_short: bool) -> Option<bool> {
    matches!(config.spin, Spin::Auto { target: Some(_), .. }).then_some(!fell_short)
}

/// What a worker asks for.
pub(crate) fn asked(config: &WorkerConfig) -> AskedSummary {
    let (name, priority) = match config.scheduling {
        Scheduling::Fifo { priority } => ("fifo", priority),
        Scheduling::Rr { priority } => ("rr", priority),
        Scheduling::Deadline { .. } => ("deadline", 0),
        Scheduling::Other => ("other", 0),
    };
    AskedSummary { policy: Policy { name: name.into(), priority }, cpus: config.cpus.clone() }
}
