//! The end of a run: workers are asked to stop, the recordings of those that have ended are finished, and a tick that does
//! not return is waited for, for a limited time.
//!
//! Time is an argument. Nothing here waits: main calls it every few milliseconds while a run ends.

use super::change::RunningSet;
use super::finish::STOP_TAKES;
use super::metrics_thread::MetricsThread;
use crate::sys::notify;
use crate::time::{Instant, Span};
use std::collections::BTreeSet;
use tracing::warn;

/// A stop that takes longer than this logs which ticks it waits for.
const QUICK_STOP: Span = Span::from_millis(200);

/// How far the end of a run is.
#[derive(Debug)]
pub(super) struct Ending {
    patience: Span,         // with ticks that do not return
    since: Option<Instant>, // a stop was asked for
    delayed: bool,          // which has been logged
    over: BTreeSet<usize>,  // workers that have ended
}

impl Ending {
    /// None is under way. A tick that has not returned for `patience` will be given up.
    pub(super) fn new(patience: Span) -> Self {
        Self { patience, since: None, delayed: false, over: BTreeSet::new() }
    }

    /// Whether the workers are asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.since.is_some()
    }

    /// Asks the workers to stop from now on.
    pub(super) fn stop(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// From now on, ticks are waited for no longer than this.
    pub(super) fn hurry(&mut self, patience: Span) {
        self.patience = self.patience.min(patience);
    }

    /// Repeats the request to stop. Hands over the final counts of workers that have ended and finishes their recordings, even if the tick of another
    /// worker never returns.
    pub(super) fn advance(&mut self, now: Instant, set: &mut RunningSet, metrics: &MetricsThread) {
        if self.since.is_none() && set.past_length(now).is_none() {
            return;
        }
        if !self.delayed && self.since.is_some_and(|since| now - since > QUICK_STOP) {
            self.delayed = true;
            log_delayed_stop(set, self.patience);
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

    /// Whether nothing is left to wait for: every worker has ended, or what is left is given up. Main has looked without a
    /// gap for `watched`: while it was stopped itself, no tick could return.
    pub(super) fn is_over(&self, now: Instant, watched: Span, set: &mut RunningSet) -> bool {
        let past_length = set.past_length(now).map(|past| past.min(watched));
        let ended = set.has_ended(now, |lasting| past_length.is_some_and(|past| past.min(lasting) > self.patience));
        match self.since {
            Some(since) => ended || (now - since).min(watched) > self.patience,
            // A reload may still be under way: it would begin nothing any more.
            None => ended && set.epoch.is_some(),
        }
    }

    /// How long a tick that does not return is waited for.
    pub(super) fn patience(&self) -> Span {
        self.patience
    }
}

/// A stop takes long: logs which ticks it waits for, and for how long at most. The service manager waits for as long.
fn log_delayed_stop(set: &mut RunningSet, patience: Span) {
    notify::extend_timeout("waiting for a tick that has not returned", patience + STOP_TAKES);
    for running in set.all_mut().filter(|running| !running.worker.is_finished()) {
        let Some((id, n, _)) = running.running_tick() else { continue };
        let (task, worker) = (running.task_name(id), &running.config.name);
        warn!(
            task,
            worker,
            tick = n,
            "stopping: waiting up to {patience} for tick {n} of task {task}; a second Ctrl-C or SIGTERM ends hertzd at once"
        );
    }
}
