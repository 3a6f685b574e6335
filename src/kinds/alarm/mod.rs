//! The kind `alarm`: watches a value, and logs when it leaves its range and when it is back.
//!
//! Its [`law`] is pure. A tick makes no system call and allocates nothing: a change of level goes into a ring that the metrics thread reads
//! in each round, and the current state is in atomics. No clock is read. A task that replaces another after a reload continues its alarm if
//! the value and the limits are the same.

mod keys;
mod law;

pub(super) use keys::kind;

use crate::channels::InputSource;
use crate::channels::alarm::{Alarm, AlarmChange, Level, Severity, Shown};
use crate::kinds::elapsed::seconds_since_last;
use crate::site::{Built, Site};
use crate::task::{Column, Input, Quality, Task, Tick, TickError};
use law::{Change, Law, Limits, Settings};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The alarms of a daemon's tasks, newest last. Locked where tasks are built, never at a tick.
#[derive(Default)]
struct Running(Mutex<Vec<Weak<Kept>>>);

/// An alarm, as a later task finds it.
struct Kept {
    alarm: Arc<Alarm>,
    of: (InputSource, Limits), // the value and limits that its levels refer to
}

/// A running alarm.
struct Watch {
    law: Law,
    input: Input,
    reset: Option<Input>,
    severity: Severity,
    begun: bool, // has ticked
    waited: f64, // seconds since the value was last something: good or bad
    alarm: Arc<Alarm>,
    _kept: Arc<Kept>,          // keeps the entry alive as long as the task
    before: Option<Arc<Kept>>, // the alarm it replaces; kept because a tick frees no memory
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
        let running = site.common::<Running>();
        let mut running = running.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|kept| kept.strong_count() > 0);
        let (kept, before) = match running.iter().rev().filter_map(Weak::upgrade).find(|kept| kept.alarm.task == task) {
            Some(same) if same.of == of => (same, None),
            before => {
                let kept = Arc::new(Kept { alarm: Alarm::new(task), of });
                running.push(Arc::downgrade(&kept));
                (kept, before)
            }
        };
        drop(running);
        let alarm = kept.alarm.clone();
        Self { law: Law::new(settings), input, reset, severity, begun: false, waited: 0.0, alarm, _kept: kept, before }
    }

    fn built(self) -> Built {
        let alarm = self.alarm.clone();
        Built::from(self).alarmed_by(alarm)
    }

    /// Called at the first tick: the task before it has made its last tick.
    fn begin(&mut self) {
        if let Some(Shown { level, worst, .. }) = self.alarm.shown() {
            self.law.go_on_from(level, worst);
        }
        if let Some(before) = &self.before {
            before.alarm.supersede();
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
        let elapsed = self.waited + seconds_since_last(tick);
        let reset = self.reset.as_ref().map(Input::get).filter(|reset| reset.is_finite()).map(|reset| reset != 0.0);
        let change = if self.input.quality() == Quality::None {
            // Nothing new is no error: the level stays. The time counts for the delays at the next value.
            self.waited = elapsed;
            self.law.waits(reset);
            None
        } else {
            self.waited = 0.0;
            self.law.step(value, reset, elapsed)
        };
        let (law, severity) = (&self.law, self.severity);
        let (level, worst, is_latched) = (law.level(), law.worst(), law.is_latched());
        self.alarm.show(Shown { level, worst, severity, is_latched, value });
        if let Some(Change { was, is }) = change {
            self.alarm.report(AlarmChange { n: Some(tick.n), severity, was, is, value });
        }
        values.copy_from_slice(&[f64::from(u8::from(level != Level::Normal)), level.number()]);
        Ok(())
    }
}
