//! How each task is doing while it runs, and the one sentence about all of them.
//!
//! Pure except for reading the workers' published state; nothing waits.

use crate::daemon::busy::Busy;
use crate::daemon::change::running::Running;
use crate::daemon::change::running_set::RunningSet;
use crate::daemon::watch::stall::{Stall, StallLooks};
use crate::metrics::{Ailment, RecentMiss, TaskHealth};
use crate::snapshot::{MissSummary, Share, Summary, TaskState, TaskSummary};
use crate::time::{Instant, Span};
use crate::worker::Activity;

/// If a worker's first tick is further away than this, the sentence says how far.
const SOON: Span = Span::from_seconds(1);

fn miss_summary(miss: &RecentMiss, age: Span) -> MissSummary {
    MissSummary {
        cause: miss.cause.word().into(),
        by: miss.by.as_deref().map(str::to_owned),
        missed: miss.count,
        tick: miss.tick,
        worst_ns: miss.worst.nanos(),
        age_ns: age.nanos(),
    }
}

/// Adds to a task's summary how the task is doing.
pub(crate) fn show(summary: &mut TaskSummary, running: &Running, id: u32, health: &TaskHealth, looks: StallLooks) {
    let TaskHealth { short, long, ailment, misses, .. } = health;
    (summary.last_10s, summary.last_minute) = (Some(*short), Some(*long));
    if let Some((last, age)) = misses.first() {
        (summary.last_cause, summary.last_cause_age_ns) = (Some(last.cause.word().into()), Some(age.nanos()));
    }
    summary.last_misses = misses.iter().map(|(miss, age)| miss_summary(miss, *age)).collect();
    let stall = running.stall(looks).filter(|_| !summary.disabled);
    let (state, reason, since) = match (stall, ailment) {
        (Some(Stall { tick: Some((of, n)), lasting }), _) if of == id => {
            summary.stalled_tick = Some(n);
            (TaskState::Stalled, format!("tick {n} has not returned"), Some(lasting))
        }
        (Some(Stall { tick: Some((of, n)), lasting }), _) => {
            (TaskState::Stalled, format!("tick {n} of task {} has not returned", running.task_name(of)), Some(lasting))
        }
        (Some(Stall { tick: None, lasting }), _) => {
            (TaskState::Stalled, "the worker does not wake up".into(), Some(lasting))
        }
        (None, None) => return,
        (None, Some((ailment, since))) => {
            let (state, reason) = match ailment {
                Ailment::Failing(reason) => (TaskState::Failing, reason),
                Ailment::Waiting(reason) => (TaskState::Waiting, reason),
                Ailment::Disabled(reason) => (TaskState::Disabled, reason),
            };
            (state, reason.clone(), *since)
        }
    };
    (summary.state, summary.state_reason) = (state, Some(reason));
    summary.state_since_ns = since.map(|since| since.nanos().max(0));
}

/// The same for a task whose worker has ended while another one is still stopping. Only the reason for being disabled remains.
pub(super) fn show_ended(summary: &mut TaskSummary, health: &TaskHealth) {
    if !summary.disabled {
        (summary.state, summary.state_reason) = (TaskState::Ended, Some("its worker has ended".into()));
    }
    if let Some((Ailment::Disabled(reason), since)) = &health.ailment {
        summary.state_reason = Some(reason.clone());
        summary.state_since_ns = since.map(|since| since.nanos().max(0));
    }
}

/// What the start waits for at `now`; `busy` is the builder's activity. `None`: the start is complete.
pub(crate) fn starting(set: &RunningSet, busy: Option<Busy>, now: Instant) -> Option<String> {
    if set.epoch.is_none() {
        // The builder has prepared everything, and main is handing the tasks to their workers.
        return Some(busy.map_or_else(|| "its workers are about to begin".into(), |busy| busy.activity));
    }
    let first_tick = |running: &Running| {
        let name = &running.config.name;
        match running.worker.doing().now {
            Activity::Rests { until } if until - now > SOON => format!("{name} in {}", until - now),
            _ => name.clone(),
        }
    };
    let waiting: Vec<_> = set.before_first_tick().map(first_tick).collect();
    (!waiting.is_empty()).then(|| format!("waiting for the first tick on worker {}", waiting.join(", ")))
}

/// What the sentence says of tasks that are well: their number, and how their recent releases went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Glance {
    tasks: usize,
    releases: Share,
    span: i64, // the longest of the windows, in nanoseconds
}

impl Glance {
    pub(crate) fn add(&mut self, task: &TaskSummary) {
        self.tasks += 1;
        if let Some(window) = task.last_10s {
            self.releases.missed += window.missed;
            self.releases.due += window.due;
            self.span = self.span.max(window.span_ns);
        }
    }
}

/// The one sentence: what is not well; else what the start waits for; else what runs and how much was missed. The summary may omit tasks
/// that are well.
pub(crate) fn sentence(summary: &Summary, glance: Glance, starting: Option<String>) -> String {
    match (&summary.reason, starting) {
        (Some(reason), _) => return format!("not well: {reason}"),
        (None, Some(waits)) => return format!("starting: {waits}"),
        (None, None) => {}
    }
    let Glance { tasks, releases: Share { due, missed }, span } = glance;
    if tasks == 0 {
        return "well: no task has begun".into();
    }
    let workers = summary.workers.iter().map(|worker| format!("{} {}", worker.worker, worker.granted.policy));
    let workers = workers.collect::<Vec<_>>().join(", ");
    let s = if tasks == 1 { "" } else { "s" };
    let seconds = Span::from_nanos(span).seconds();
    format!("well: {tasks} task{s} on {workers}; missed {missed} of {due} in the last {seconds:.0} s")
}
