//! The alarms of running tasks, as the metrics thread watches them. Time is an argument; never waits for a tick.

use crate::channels::alarm::{Alarm, AlarmChange, Level, Severity, Shown};
use crate::time::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The state of an alarm.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlarmState {
    /// Its task.
    pub(crate) task: String,
    pub(crate) severity: Severity,
    pub(crate) level: Level,
    /// At its last tick; NaN: there was no good value.
    pub(crate) value: f64,
    /// Its level persists only because it is latched.
    pub(crate) is_latched: bool,
    /// When it was first seen active; `None`: it is not active.
    pub(crate) since: Option<Instant>,
}

/// An alarm, and when it was first seen active.
#[derive(Debug)]
struct Watched {
    alarm: Arc<Alarm>,
    since: Option<Instant>,
}

impl Watched {
    /// The alarm's published state; `None`: it has not ticked.
    fn look(&mut self, now: Instant) -> Option<Shown> {
        let shown = self.alarm.shown();
        let is_active = shown.is_some_and(|shown| shown.level != Level::Normal);
        self.since = is_active.then(|| self.since.unwrap_or(now));
        shown
    }
}

/// The alarms of running tasks, and of ended tasks whose last changes are still to be logged.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Vec<Watched>);

impl Alarms {
    /// Adds the alarm of a new task. A task that continues from another may have the same alarm.
    pub(crate) fn add(&mut self, alarm: Arc<Alarm>) {
        if !self.0.iter().any(|watched| Arc::ptr_eq(&watched.alarm, &alarm)) {
            self.0.push(Watched { alarm, since: None });
        }
    }

    /// Calls `changed` with each change of each alarm since the last call. Changes lost for lack of room are reported by their number,
    /// without a change. Alarms ended by a reload end here; at the end of a run they are simply not checked again. Never waits for a tick.
    pub(crate) fn take_changes(&mut self, now: Instant, mut changed: impl FnMut(&Alarm, Option<AlarmChange>, u64)) {
        self.0.retain_mut(|watched| {
            let alarm = &watched.alarm;
            let is_over = alarm.is_over();
            let (changes, lost) = alarm.take();
            if lost > 0 {
                changed(alarm, None, lost);
            }
            for change in changes {
                if change.is == Level::Normal {
                    watched.since = None;
                }
                changed(alarm, Some(change), 0);
            }
            if is_over && let Some(end) = alarm.end() {
                changed(alarm, Some(end), 0);
            }
            watched.look(now);
            !is_over
        });
    }

    /// The states of all alarms whose tasks have ticked, by task name; `None`: there are no alarms.
    pub(crate) fn states(&mut self, now: Instant) -> Option<Vec<AlarmState>> {
        // While a reload restarts a task, it briefly has two alarms. The newer one counts once it ticks.
        let mut names = BTreeSet::new();
        let state = |watched: &mut Watched| {
            let Shown { level, severity, is_latched, value, .. } = watched.look(now)?;
            let (task, since) = (watched.alarm.task.clone(), watched.since);
            names.insert(task.clone()).then_some(AlarmState { task, severity, level, value, is_latched, since })
        };
        let mut states: Vec<_> = self.0.iter_mut().rev().filter_map(state).collect();
        states.sort_unstable_by(|a, b| a.task.cmp(&b.task));
        (!self.0.is_empty()).then_some(states)
    }
}
