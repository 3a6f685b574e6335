//! The kind `alarm`: watches a value, and has the log say when it leaves its range and when it is back.
//!
//! Its [`law`] is pure. A tick makes no system call and allocates nothing: a change of the level goes into a ring, which the metrics
//! thread looks at in each of its rounds, and what holds now lies in atomics. No clock is read.

mod keys;
mod law;

pub(super) use keys::kind;
pub(crate) use law::Level;

use crate::channels::Latest;
use crate::kinds::elapsed::seconds_since_last;
use crate::site::Site;
use crate::task::{Column, Input, Task, Tick, TickError};
use crate::time::Instant;
use crossbeam_channel::{Receiver, Sender, bounded};
use law::{Change, Law, Settings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    shown: Latest<2>, // as `Shown`
}

/// What an alarm shows of its latest tick.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shown {
    level: Level,
    is_latched: bool,
    value: f64,
}

impl Shown {
    /// Without this bit it has not ticked yet.
    const HAS_TICKED: u64 = 1 << 8;
    const IS_LATCHED: u64 = 1 << 9;

    /// The value comes first: a worker that is preempted between both has not ticked yet, the first time.
    fn to_numbers(self) -> [u64; 2] {
        let latched = if self.is_latched { Self::IS_LATCHED } else { 0 };
        [self.value.to_bits(), u64::from(self.level.to_byte()) | latched | Self::HAS_TICKED]
    }

    fn of_numbers([value, state]: [u64; 2]) -> Option<Self> {
        let [level, ..] = state.to_le_bytes();
        (state & Self::HAS_TICKED != 0).then(|| Self {
            level: Level::of_byte(level),
            is_latched: state & Self::IS_LATCHED != 0,
            value: f64::from_bits(value),
        })
    }
}

impl Alarm {
    /// As of its latest tick; `None`: it has not ticked.
    fn shown(&self) -> Option<Shown> {
        Shown::of_numbers(self.shown.read())
    }

    /// What has just come of a tick. To be called before the change is sent, if there is one.
    fn show(&self, law: &Law, value: f64) {
        let shown = Shown { level: law.level(), is_latched: law.is_latched(), value };
        self.shown.store(shown.to_numbers());
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
    /// Its level lasts only because it is latched.
    pub(crate) is_latched: bool,
    /// When it was first seen to be active; `None`: it is not.
    pub(crate) since: Option<Instant>,
}

/// An alarm, and when it was first seen to be active.
#[derive(Debug)]
struct Watched {
    alarm: Arc<Alarm>,
    since: Option<Instant>,
}

impl Watched {
    /// What it shows; `None`: it has not ticked.
    fn look(&mut self, now: Instant) -> Option<Shown> {
        let shown = self.alarm.shown();
        let is_active = shown.is_some_and(|shown| shown.level != Level::Normal);
        self.since = is_active.then(|| self.since.unwrap_or(now));
        shown
    }
}

/// Those of the tasks that a daemon has, and of those that have ended and whose last changes are still to be told. Locked where tasks are
/// built, and by the metrics thread; never at a tick.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Mutex<Vec<Watched>>);

impl Alarms {
    fn all(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands `told` each change of each alarm since this was last called, and how many were lost for want of room; without a change only where
    /// some were. Waits for no tick.
    pub(crate) fn take_changes(&self, now: Instant, mut told: impl FnMut(&Alarm, Option<AlarmChange>, u64)) {
        let mut alarms = self.all();
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
        alarms.retain(|Watched { alarm, .. }| {
            let is_used = Arc::strong_count(alarm) > 1;
            fence(Ordering::Acquire); // a task that is gone has made its changes before
            is_used || !alarm.changes.is_empty()
        });
    }

    /// How all alarms are whose tasks have ticked, by the names of these; `None`: there is no task of this kind. For the metrics thread.
    pub(crate) fn states(&self, now: Instant) -> Option<Vec<AlarmState>> {
        let mut alarms = self.all();
        // Of a task that a reload restarts there are two for a moment: the newer one is meant once it ticks.
        let mut names = BTreeSet::new();
        let state = |watched: &mut Watched| {
            let Shown { level, is_latched, value } = watched.look(now)?;
            let (task, severity, since) = (watched.alarm.task.clone(), watched.alarm.severity, watched.since);
            names.insert(task.clone()).then_some(AlarmState { task, severity, level, value, is_latched, since })
        };
        let mut states: Vec<_> = alarms.iter_mut().rev().filter_map(state).collect();
        states.sort_unstable_by(|a, b| a.task.cmp(&b.task));
        (!alarms.is_empty()).then_some(states)
    }
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
    fn new(
        site: &Site,
        task: &str,
        severity: Severity,
        settings: Settings,
        input: Input,
        reset: Option<Input>,
    ) -> Self {
        let (sender, changes) = bounded(ROOM);
        let alarm = Arc::new(Alarm {
            task: task.to_owned(),
            severity,
            changes,
            lost: AtomicU64::new(0),
            shown: Latest::default(),
        });
        site.common::<Alarms>().all().push(Watched { alarm: alarm.clone(), since: None });
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
            self.alarm.lost.fetch_add(1, Ordering::Relaxed);
        }
        let level = self.law.level();
        values.copy_from_slice(&[f64::from(u8::from(level != Level::Normal)), level.number()]);
        Ok(())
    }
}
