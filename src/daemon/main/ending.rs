//! The end of a run: asks workers to stop, and finishes the recordings of those that have ended. A worker might not end because a tick does
//! not return or it gets no processor time. Then the wait for it is limited.
//!
//! Time is an argument. Nothing here waits: main calls it every few milliseconds while a run ends.

use super::finish::STOP_TAKES;
use crate::daemon::change::running::Running;
use crate::daemon::change::running_set::RunningSet;
use crate::daemon::metrics::metrics_thread::MetricsThread;
use crate::sys::notify;
use crate::time::{Instant, Span};
use std::collections::BTreeSet;
use tracing::warn;

/// If a stop takes longer than this, or a worker delays the end of a run for longer without advancing, the reason is logged.
const QUICK_STOP: Span = Span::from_millis(200);

/// The progress of a run's end.
#[derive(Debug)]
pub(crate) struct Ending {
    patience: Span,         // with workers that do not advance
    since: Option<Instant>, // when a stop was requested
    delayed: bool,          // the delay was logged
    over: BTreeSet<usize>,  // workers that have ended
}

impl Ending {
    /// No end is in progress yet. A worker that delays the end for longer than `patience` is given up.
    pub(crate) fn new(patience: Span) -> Self {
        Self { patience, since: None, delayed: false, over: BTreeSet::new() }
    }

    /// Whether the workers are asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.since.is_some()
    }

    /// Asks the workers to stop from now on.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.since.is_none() {
            (self.since, self.delayed) = (Some(now), false);
        }
    }

    /// Limits the wait for workers to `patience` from now on.
    pub(crate) fn hurry(&mut self, patience: Span) {
        self.patience = self.patience.min(patience);
    }

    /// Repeats the request to stop. Hands over the final counts of workers that have ended and finishes their recordings, even if another
    /// worker's tick never returns.
    pub(crate) fn advance(&mut self, now: Instant, set: &mut RunningSet, metrics: &MetricsThread) {
        if self.since.is_none() && set.past_length(now).is_none() {
            return;
        }
        if !self.delayed {
            self.delayed = match self.since {
                Some(since) if now - since > QUICK_STOP => log_delayed_stop(set, self.patience),
                Some(_) => false,
                None => log_delayed_end(now, set, self.patience),
            };
        }
        for running in set.all_mut() {
            if running.has_ended() {
                if self.over.insert(running.number) {
                    running.final_counts().into_iter().for_each(|ended| metrics.tasks_ended(ended));
                    metrics.finish_tasks(running.tasks.iter().map(|task| task.id).collect());
                }
            } else if self.since.is_some() {
                running.worker.stop();
            }
        }
    }

    /// Whether the wait is over: every worker has ended, or the rest is given up. Main has checked without a gap for `watched`: while main
    /// itself was stopped, no tick could return.
    pub(crate) fn is_over(&self, now: Instant, watched: Span, set: &mut RunningSet) -> bool {
        let ended = set.has_ended(now, |overdue| overdue.min(watched) > self.patience);
        match self.since {
            Some(since) => ended || (now - since).min(watched) > self.patience,
            // A reload may still be in progress; it will not begin anything.
            None => ended && set.epoch.is_some(),
        }
    }

    /// What to add to the status: that a stop is in progress, or which workers a finished run waits for.
    pub(crate) fn status(&self, now: Instant, set: &RunningSet) -> String {
        if self.since.is_some() {
            return "; a stop is under way".into();
        }
        let workers: Vec<_> = keep_waiting(now, set).map(|running| running.config.name.as_str()).collect();
        match workers[..] {
            [] => String::new(),
            [worker] => format!("; the run is over and waits for worker {worker}"),
            _ => format!("; the run is over and waits for workers {}", workers.join(", ")),
        }
    }

    /// How long to wait for a worker that does not advance.
    pub(crate) fn patience(&self) -> Span {
        self.patience
    }
}

/// The workers that have delayed the end of the run for longer than a normal tick may.
fn keep_waiting(now: Instant, set: &RunningSet) -> impl Iterator<Item = &Running> {
    let usual = |running: &Running| {
        let deadline = running.running_tick().and_then(|(task, ..)| running.deadline_of(task));
        deadline.unwrap_or(Span::ZERO).max(QUICK_STOP)
    };
    set.all().filter(move |running| running.overdue(now) > usual(running))
}

/// Logs what a slow stop waits for, and its time limit. Asks the service manager to wait that long too.
fn log_delayed_stop(set: &RunningSet, patience: Span) -> bool {
    notify::extend_timeout("waiting for a tick that has not returned", patience + STOP_TAKES);
    let ends = "a second Ctrl-C or SIGTERM ends hertzd at once";
    let waits = |running: &&Running| running.began.is_some() && !running.worker.is_finished();
    set.all().filter(waits).for_each(|running| log_wait(running, "stopping", patience, ends));
    true
}

/// Logs what a finished run still waits for, and its time limit. Returns whether there was anything.
fn log_delayed_end(now: Instant, set: &RunningSet, patience: Span) -> bool {
    let ends = "Ctrl-C or SIGTERM, sent twice, ends hertzd at once";
    keep_waiting(now, set).map(|running| log_wait(running, "the run is over", patience, ends)).count() > 0
}

fn log_wait(running: &Running, what: &str, patience: Span, ends: &str) {
    let worker = &running.config.name;
    let Some((id, n, _)) = running.running_tick() else {
        return warn!(worker, "{what}: waiting up to {patience} for worker {worker}, which does not wake up; {ends}");
    };
    let task = running.task_name(id);
    warn!(task, worker, tick = n, "{what}: waiting up to {patience} for tick {n} of task {task}; {ends}");
}
