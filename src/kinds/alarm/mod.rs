//! The kind `alarm`: watches a value, and has the log say when it leaves its range and when it is back.
//!
//! Its [`law`] is pure. A tick makes no system call and allocates nothing: a change of the level goes into a ring, which the metrics
//! thread looks at in each of its rounds, and what holds now lies in atomics. No clock is read. A task that a reload starts in place of another
//! goes on with its alarm, if that is of the same value and has the same limits.

mod keys;
mod law;

pub(super) use keys::kind;
pub(crate) use law::Level;

use crate::channels::{InputSource, Latest};
use crate::kinds::elapsed::seconds_since_last;
use crate::site::Site;
use crate::task::{Column, Input, Task, Tick, TickError};
use crate::time::Instant;
use crossbeam_channel::{Receiver, Sender, bounded};
use law::{Change, Law, Limits, Settings};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
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
    const ALL: [Self; 3] = [Self::Notice, Self::Warning, Self::Error];

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
    /// The tick; `None`: a reload has ended the alarm.
    pub(crate) n: Option<u64>,
    pub(crate) severity: Severity,
    pub(crate) was: Level,
    pub(crate) is: Level,
    /// NaN: there was no good value.
    pub(crate) value: f64,
}

/// An alarm, as others than its own task see it, and as the task finds it that follows that one.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Its task.
    pub(crate) task: String,
    of: (InputSource, Limits), // what its levels are of
    sender: Sender<AlarmChange>,
    changes: Receiver<AlarmChange>,
    lost: AtomicU64,
    shown: Latest<2>, // as `Shown`; while one task takes over from another both may store one, and the next tick sets it right
    replaced: AtomicBool, // another alarm has its name
}

/// What an alarm shows of its latest tick.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shown {
    level: Level,
    worst: Level,
    severity: Severity,
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
        let bytes =
            u64::from_le_bytes([self.level.to_byte(), 0, self.worst.to_byte(), self.severity as u8, 0, 0, 0, 0]);
        [self.value.to_bits(), bytes | latched | Self::HAS_TICKED]
    }

    fn of_numbers([value, state]: [u64; 2]) -> Option<Self> {
        let [level, _, worst, severity, ..] = state.to_le_bytes();
        (state & Self::HAS_TICKED != 0).then(|| Self {
            level: Level::of_byte(level),
            worst: Level::of_byte(worst),
            severity: Severity::ALL.get(usize::from(severity)).copied().unwrap_or(Severity::Error),
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
    fn show(&self, law: &Law, severity: Severity, value: f64) {
        let (level, worst, is_latched) = (law.level(), law.worst(), law.is_latched());
        self.shown.store(Shown { level, worst, severity, is_latched, value }.to_numbers());
    }

    /// Whether a task has it.
    fn is_used(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Whether no task will change it any more.
    fn is_over(self: &Arc<Self>) -> bool {
        let is_over = !self.is_used() || self.replaced.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // a task that is gone, or has been replaced, has made its changes before
        is_over
    }

    /// The end that a reload has brought it, if it was active then.
    fn end(&self) -> Option<AlarmChange> {
        let Shown { level: was, severity, value, .. } = self.shown()?;
        (was != Level::Normal).then_some(AlarmChange { n: None, severity, was, is: Level::Normal, value })
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
    /// some were. Alarms that a reload has ended end here: those of a run that ends are not looked at any more. Waits for no tick.
    pub(crate) fn take_changes(&self, now: Instant, mut told: impl FnMut(&Alarm, Option<AlarmChange>, u64)) {
        self.all().retain_mut(|watched| {
            let alarm = &watched.alarm;
            let is_over = alarm.is_over();
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
            if is_over && let Some(end) = alarm.end() {
                told(alarm, Some(end), 0);
            }
            watched.look(now);
            !is_over
        });
    }

    /// How all alarms are whose tasks have ticked, by the names of these; `None`: there is no task of this kind. For the metrics thread.
    pub(crate) fn states(&self, now: Instant) -> Option<Vec<AlarmState>> {
        let mut alarms = self.all();
        // Of a task that a reload restarts there are two for a moment: the newer one is meant once it ticks.
        let mut names = BTreeSet::new();
        let state = |watched: &mut Watched| {
            let Shown { level, severity, is_latched, value, .. } = watched.look(now)?;
            let (task, since) = (watched.alarm.task.clone(), watched.since);
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
    severity: Severity,
    begun: bool, // it has ticked
    alarm: Arc<Alarm>,
    before: Option<Arc<Alarm>>, // the one that it replaces; kept, since a tick frees no memory
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
        let of = (input.source().clone(), settings.limits);
        let all = site.common::<Alarms>();
        let mut alarms = all.all();
        let running =
            alarms.iter().rev().map(|watched| &watched.alarm).find(|alarm| alarm.task == task && alarm.is_used());
        let (alarm, before) = match running.cloned() {
            Some(running) if running.of == of => (running, None),
            before => {
                let (sender, changes) = bounded(ROOM);
                let (lost, shown, replaced) = Default::default();
                let alarm = Arc::new(Alarm { task: task.to_owned(), of, sender, changes, lost, shown, replaced });
                alarms.push(Watched { alarm: alarm.clone(), since: None });
                (alarm, before)
            }
        };
        drop(alarms);
        Self { law: Law::new(settings), input, reset, severity, begun: false, alarm, before }
    }

    /// At its first tick: the task that it follows has made its last one.
    fn begin(&mut self) {
        if let Some(Shown { level, worst, .. }) = self.alarm.shown() {
            self.law.go_on_from(level, worst);
        }
        if let Some(before) = &self.before {
            before.replaced.store(true, Ordering::Release); // who sees it sees the changes of that one
        }
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
        if !std::mem::replace(&mut self.begun, true) {
            self.begin();
        }
        let value = self.input.get();
        let reset = self.reset.as_ref().map(Input::get).filter(|reset| reset.is_finite()).map(|reset| reset != 0.0);
        let elapsed = seconds_since_last(tick);
        let change = self.law.step(value, reset, elapsed);
        self.alarm.show(&self.law, self.severity, value);
        if let Some(Change { was, is }) = change
            && self
                .alarm
                .sender
                .try_send(AlarmChange { n: Some(tick.n), severity: self.severity, was, is, value })
                .is_err()
        {
            self.alarm.lost.fetch_add(1, Ordering::Relaxed);
        }
        let level = self.law.level();
        values.copy_from_slice(&[f64::from(u8::from(level != Level::Normal)), level.number()]);
        Ok(())
    }
}
