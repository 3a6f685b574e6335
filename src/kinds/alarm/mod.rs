//! The kind `alarm`: watches a value, and has the log say when it leaves its range and when it is back.
//!
//! Its [`law`] is pure. A tick makes no system call and allocates nothing: a change of the level goes into a ring, which the metrics
//! thread looks at in each of its rounds. No clock is read.

mod keys;
mod law;

pub(super) use keys::kind;
pub(crate) use law::Level;

use crate::task::{Column, Input, Task, Tick, TickError};
use crossbeam_channel::{Receiver, Sender, bounded};
use law::{Change, Law, Settings};
use std::sync::atomic::{AtomicU64, Ordering};
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
}

/// Those of the tasks that there are, and of those that have ended and whose last changes are still to be told. Locked where tasks are
/// built, and by the metrics thread; never at a tick.
static ALARMS: Mutex<Vec<Arc<Alarm>>> = Mutex::new(Vec::new());

/// Hands `told` each change of each alarm since this was last called, and how many were lost for want of room; without a change only where
/// some were. Waits for no tick.
pub(crate) fn take_changes(mut told: impl FnMut(&Alarm, Option<AlarmChange>, u64)) {
    let mut alarms = ALARMS.lock().unwrap_or_else(PoisonError::into_inner);
    for alarm in alarms.iter() {
        let lost = alarm.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            told(alarm, None, lost);
        }
        alarm.changes.try_iter().for_each(|change| told(alarm, Some(change), 0));
    }
    alarms.retain(|alarm| Arc::strong_count(alarm) > 1 || !alarm.changes.is_empty());
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
        let alarm = Arc::new(Alarm { task: task.to_owned(), severity, changes, lost: AtomicU64::new(0) });
        ALARMS.lock().unwrap_or_else(PoisonError::into_inner).push(alarm.clone());
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
        #[expect(clippy::cast_precision_loss, reason = "2^53 periods are longer than any delay")]
        let elapsed = (tick.skipped + 1) as f64 * tick.period.seconds();
        if let Some(Change { was, is }) = self.law.step(value, reset.is_finite() && reset != 0.0, elapsed)
            && self.changes.try_send(AlarmChange { n: tick.n, was, is, value }).is_err()
        {
            self.alarm.lost.store(self.alarm.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let level = self.law.level();
        values.copy_from_slice(&[f64::from(u8::from(level != Level::Normal)), level.number()]);
        Ok(())
    }
}
