//! The kind `alarm`: watches a value, and has the log say when it leaves its range and when it is back.
//!
//! Its [`law`] is pure. A tick makes no system call and allocates nothing: a change of the level goes into a ring, which the metrics
//! thread looks at in each of its rounds, and what holds now lies in atomics. No clock is read.

mod keys;
mod law;

pub(super) use keys::kind;
pub(crate) use law::Level;

use crate::kinds::elapsed::seconds_since_last;
use crate::task::{Column, Input, Task, Tick, TickError};
use crate::time::Instant;
use crossbeam_channel::{Receiver, Sender, bounded};
use law::{Change, Law, Settings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many changes wait to be told, at most; more are counted.
const ROOM: usize = 256;

/// How much an alarm matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Notice,
    Warning,
    Error,
}

impl Severity {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A change of an alarm's level, to be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AlarmChange {
    /// The tick.
    pub(crate) n: u64,
    pub(crate) was: Level,
    pub(crate) is: Level,
    /// NaN: there was no good value.
    pub(crate) value: f64,
}

/// An alarm, as others than its own task see it.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Its task.
    pub(crate) task: String,
    pub(crate) severity: Severity,
    changes: Receiver<AlarmChange>,
    lost: AtomicU64,
    // As of its latest tick.
    has_ticked: AtomicBool,
    level: AtomicU8,
    value: AtomicU64,
    is_latched: AtomicBool,
}

impl Alarm {
    fn level(&self) -> Level {
        Level::of_byte(self.level.load(Ordering::Relaxed))
    }

    /// What has just come of a tick. To be called before the change is sent, if there is one.
    fn show(&self, law: &Law, value: f64) {
        self.level.store(law.level().to_byte(), Ordering::Relaxed);
        self.value.store(value.to_bits(), Ordering::Relaxed);
        self.is_latched.store(law.is_latched(), Ordering::Relaxed);
        self.has_ticked.store(true, Ordering::Relaxed);
    }
}

/// How an alarm is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlarmState {
    /// Its task.
    pub(crate) task: String,
    pub(crate) severity: Severity,
    pub(crate) level: Level,
    /// At its latest tick; NaN: there was no good value.
    pub(crate) value: f64,
    /// It lasts only because it is latched.
    pub(crate) is_latched: bool,
    /// When it was first seen to be active; `None`: it is not.
    pub(crate) since: Option<Instant>,
}

/// An alarm, and when it was first seen to be active.
struct Watched {
    alarm: Arc<Alarm>,
    since: Option<Instant>,
}

impl Watched {
    /// Its level.
    fn look(&mut self, now: Instant) -> Level {
        let level = self.alarm.level();
        self.since = (level != Level::Normal).then(|| self.since.unwrap_or(now));
        level
    }
}

/// Those of the tasks that there are, and of those that have ended and whose last changes are still to be told. Locked where tasks are
/// built, and by the metrics thread; never at a tick.
static ALARMS: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

/// Hands `told` each change of each alarm since this was last called, and how many were lost for want of room; without a change only where
/// some were. Waits for no tick.
pub(crate) fn take_changes(now: Instant, mut told: impl FnMut(&Alarm, Option<AlarmChange>, u64)) {
    let mut alarms = ALARMS.lock().unwrap_or_else(PoisonError::into_inner);
    for watched in alarms.iter_mut() {
        let alarm = &watched.alarm;
        let lost = alarm.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            told(alarm, None, lost);
        }
        for change in alarm.changes.try_iter() {
            if change.is == Level::Normal {
                watched.since = None;
            }
            told(alarm, Some(change), 0);
        }
        watched.look(now);
    }
    alarms.retain(|Watched { alarm, .. }| Arc::strong_count(alarm) > 1 || !alarm.changes.is_empty());
}

/// How all alarms are whose tasks have ticked, by the names of these; `None`: there is no task of this kind. For the metrics thread.
pub(crate) fn states(now: Instant) -> Option<Vec<AlarmState>> {
    let mut alarms = ALARMS.lock().unwrap_or_else(PoisonError::into_inner);
    // Of a task that a reload restarts there are two for a moment: the newer one is meant once it ticks.
    let mut names = BTreeSet::new();
    let states = alarms.iter_mut().rev().filter(|watched| watched.alarm.has_ticked.load(Ordering::Relaxed));
    let mut states: Vec<_> = states.filter(|watched| names.insert(watched.alarm.task.clone())).collect();
    states.sort_unstable_by(|a, b| a.alarm.task.cmp(&b.alarm.task));
    let state = |watched: &mut Watched| {
        let level = watched.look(now);
        let alarm = &watched.alarm;
        AlarmState {
            task: alarm.task.clone(),
            severity: alarm.severity,
            level,
            value: f64::from_bits(alarm.value.load(Ordering::Relaxed)),
            is_latched: alarm.is_latched.load(Ordering::Relaxed),
            since: watched.since,
        }
    };
    let states: Vec<_> = states.into_iter().map(state).collect();
    (!alarms.is_empty()).then_some(states)
}

/// An alarm that runs.
struct Watch {
    law: Law,
    input: Input,
    reset: Option<Input>,
    changes: Sender<AlarmChange>,
    alarm: Arc<Alarm>,
}

impl Watch {
    fn new(task: &str, severity: Severity, settings: Settings, input: Input, reset: Option<Input>) -> Self {
        let (sender, changes) = bounded(ROOM);
        let alarm = Arc::new(Alarm {
            task: task.to_owned(),
            severity,
            changes,
            lost: AtomicU64::new(0),
            has_ticked: AtomicBool::new(false),
            level: AtomicU8::new(Level::Normal.to_byte()),
            value: AtomicU64::new(f64::NAN.to_bits()),
            is_latched: AtomicBool::new(false),
        });
        ALARMS.lock().unwrap_or_else(PoisonError::into_inner).push(Watched { alarm: alarm.clone(), since: None });
        Self { law: Law::new(settings), input, reset, changes: sender, alarm }
    }
}

fn columns() -> Vec<Column> {
    ["active", "level"].map(|name| Column { name: name.into(), unit: String::new() }).into()
}

impl Task for Watch {
    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let value = self.input.get();
        let reset = self.reset.as_ref().map_or(0.0, Input::get);
        let elapsed = seconds_since_last(tick);
        let change = self.law.step(value, reset.is_finite() && reset != 0.0, elapsed);
        self.alarm.show(&self.law, value);
        if let Some(Change { was, is }) = change
            && self.changes.try_send(AlarmChange { n: tick.n, was, is, value }).is_err()
        {
            self.alarm.lost.store(self.alarm.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let level = self.law.level();
        values.copy_from_slice(&[f64::from(u8::from(level != Level::Normal)), level.number()]);
        Ok(())
    }
}
