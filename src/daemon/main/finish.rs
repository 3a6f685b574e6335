//! The end of a run: every thread gets a limited time to finish, and the numbers are summed up.

use super::summary::{self, Sources};
use crate::daemon::change::builder::BuilderEnd;
use crate::daemon::change::running_set::{RunningSet, Threads};
use crate::daemon::disk::recorder_thread::RecorderEnd;
use crate::daemon::metrics::metrics_thread::View;
use crate::daemon::plan;
use crate::daemon::watch::notices;
use crate::log;
use crate::metrics::{TaskHealth, TaskSnapshot};
use crate::snapshot::{Counts, Summary};
use crate::sys::clock::KernelClock;
use crate::sys::host::Host;
use crate::sys::notify;
use crate::sys::thread::helper;
use crate::time::{Clock, Span};
use crate::worker::WorkerEnd;
use std::time::Duration;
use tracing::{info, warn};

/// How long a stop waits: for running ticks, unless [`Options`](crate::daemon::Options) say otherwise; for a log that takes nothing, both
/// before and after waiting for a recording's file system that makes no progress; for the flight recorder; for the builder. docs/running.md
/// adds them up.
pub(super) const TICK_PATIENCE: Span = Span::from_seconds(2);
const LOG_PATIENCE: Span = Span::from_seconds(2);
const DISK_PATIENCE: Span = Span::from_seconds(4);
const FLIGHT_PATIENCE: Span = Span::from_millis(500);
const BUILDER_PATIENCE: Duration = Duration::from_secs(4); // longer than the readback of a fan just taken from its chip

/// The time requested from the service manager once the ticks have ended. It exceeds everything that may still be waited for.
pub(super) const STOP_TAKES: Span = Span::from_seconds(15);

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The numbers.
    pub summary: Summary,
    /// Why the run ended early, or what its numbers lack. For example, a task ended the run, or a thread died or hangs.
    pub fault: Option<String>,
}

/// Lets every thread finish, and sums up. The stop has already waited `patience` for ticks that did not return.
pub(crate) fn finish(
    host: &Host,
    mut set: RunningSet,
    threads: Threads,
    patience: Span,
    mut faults: Vec<String>,
) -> Outcome {
    let now = KernelClock::monotonic().now();
    let Threads { metrics, mut recorder, flight, builder, guard } = threads;
    // The tasks of a worker that was given up will not write their own safe values.
    let not_safe = guard.make_safe_and_wait();
    let is_said = not_safe.is_some();
    faults.extend(not_safe);
    guard.readbacks().end();
    set.abandon_change(&builder).into_iter().for_each(|ended| metrics.tasks_ended(ended));
    for running in set.all_mut() {
        running.final_counts().into_iter().for_each(|ended| metrics.tasks_ended(ended));
        let worker = &running.config.name;
        match &running.end {
            Some(WorkerEnd::Died) => faults.push(format!("the thread of worker {worker} died; please report this")),
            Some(WorkerEnd::Finished(_) | WorkerEnd::Unused) => {}
            None if running.began.is_none() => {}
            None => {
                let running_tick = running.running_tick();
                metrics
                    .give_up(running.tasks.iter().map(|task| task.id).collect(), running_tick.map(|(task, ..)| task));
                let text = running_tick.map_or_else(
                    || format!("worker {worker} did not stop within {patience}"),
                    |tick| running.not_returned(tick),
                );
                faults.push(format!("{text}; the counts of worker {worker} are the last that it showed"));
                running.watch.give_up(running.worker.doing());
            }
        }
        if let Some(id) = running.worker.failed() {
            let task = running.task_name(id);
            faults.push(format!("task {task} ended the run: its section says \"exit\""));
        }
    }
    // A panicking thread drops its end of the channel before it is finished.
    let waits = || notify::extend_timeout("summing up what the tasks did", STOP_TAKES);
    let view = metrics.last_look_within(LOG_PATIENCE, waits).unwrap_or_else(|error| {
        let why = if error.is_timeout() {
            format!("the metrics thread did not answer and made no progress for {LOG_PATIENCE} (the log takes nothing)")
        } else {
            "the metrics thread has died".into()
        };
        faults.push(format!("{why}: no histograms, 0 records, and no more ticks in recordings"));
        what_is_shown(&set)
    });
    // By now the metrics thread has passed on every tick whose record it received. The others were dropped because the channel was full.
    set.all().flat_map(|running| &running.tasks).for_each(|task| recorder.expect_ticks_of(task.id, task.ran()));
    let (outputs, recorder) =
        recorder.close(DISK_PATIENCE, || notify::extend_timeout("writing the recordings", STOP_TAKES));
    if recorder == RecorderEnd::HeldUp {
        let recorded = outputs.states.iter().filter_map(|output| output.recorded.as_ref());
        let lost: u64 = recorded.map(|recorded| recorded.lost).sum();
        let text = format!(
            "recordings: a file system has not responded for {DISK_PATIENCE}; {lost} rows, blocks and ticks are lost"
        );
        warn!(lost, "{text}");
        faults.push(text);
    }
    // Ending the thread frees its memory for the summary.
    if !metrics.finish(LOG_PATIENCE, || notify::extend_timeout("logging the last events", STOP_TAKES)) {
        faults.push(format!("the log has taken nothing for {LOG_PATIENCE}: the last events may be missing there"));
    }
    flight.finish(FLIGHT_PATIENCE);
    let memory_locked = builder.memory_locked();
    let sources = Sources { host, set: &set, memory_locked, view: &view, outputs: &outputs, now };
    let mut summary = summary::of_set(&sources, None, |_| true);
    summary.flight = flight.summary();
    summary.guard = guard.summary().map(Box::new);
    summary.readbacks = guard.readbacks().summary(&summary::names(&set), now);
    builder.close(set);
    let (end, owed) = builder.finish(BUILDER_PATIENCE);
    if let BuilderEnd::HeldUp(activity) = end {
        warn!("the builder thread is stuck while {activity}; exiting without it");
    }
    summary.object(owed);
    faults.extend((!is_said).then(|| guard.not_safe()).flatten());
    faults.extend(helper::deaths().try_iter().map(|death| notices::report_death(&death)));
    helper::leave_deaths();
    let fault = (!faults.is_empty()).then(|| faults.join("; "));
    summary.object(fault.clone());
    log_end(&summary);
    Outcome { summary, fault }
}

/// What workers that were given up publish themselves, without the metrics thread.
fn what_is_shown(set: &RunningSet) -> View {
    let given_up = set.in_force().filter(|running| running.end.is_none() && running.began.is_some());
    let shown = given_up.flat_map(|running| {
        let now = plan::clock(running.config.clock).now();
        running.tasks.iter().map(move |task| {
            let health = TaskHealth { progress: task.progress(now), ..TaskHealth::default() };
            (task.id, TaskSnapshot { health, ..TaskSnapshot::default() })
        })
    });
    View { tasks: shown.collect(), ..View::default() }
}

/// The last log entry of a run: the outcome of all releases of the tasks in its summary.
fn log_end(summary: &Summary) {
    let sum = |of: fn(&Counts) -> u64| summary.tasks.iter().map(|task| of(&task.counts)).sum::<u64>();
    let (due, met, missed) = (sum(|all| all.due), sum(|all| all.met), sum(|all| all.missed));
    let (ticks, overruns, skipped) = (sum(|all| all.ran), sum(|all| all.overruns), sum(|all| all.skipped));
    info!(due, met, missed, ticks, overruns, skipped, "stopped: {}", log::outcome(due, overruns, skipped));
}
