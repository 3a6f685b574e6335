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
use crate::task::{Column, Input, Quality, Reason, Task, Tick, TickError};
use law::{Change, Law, Limits, Settings};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many seconds after a start the first value may take: a program, such as an interpreter, needs some before its first answer.
const STARTS_WITHIN: f64 = 5.0;

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
    begun: bool,           // has ticked
    waited: f64,           // seconds since the value was last something: good or bad
    starting: Option<f64>, // seconds since the start, while the first value may still come
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
        Self {
            law: Law::new(settings),
            input,
            reset,
            severity,
            begun: false,
            waited: 0.0,
            starting: None,
            alarm,
            _kept: kept,
            before,
        }
    }

    fn built(self) -> Built {
        let alarm = self.alarm.clone();
        Built::from(self).alarmed_by(alarm)
    }

    /// Called at the first tick: the task before it has made its last tick.
    fn begin(&mut self) {
        if let Some(Shown { level, worst, .. }) = self.alarm.shown() {
            self.law.go_on_from(level, worst);
        } else {
            self.starting = Some(0.0);
        }
        if let Some(before) = &self.before {
            before.alarm.supersede();
        }
    }

    /// The value has nothing new, or its source only starts: it is not there yet, and that is no error so soon after the start.
    fn has_nothing_new(&mut self, tick: &Tick) -> bool {
        use Reason::{Inherited, NotAvailable, Stale, Unavailable};
        let quality = self.input.quality();
        self.starting =
            self.starting.map(|since| since + seconds_since_last(tick)).filter(|since| *since < STARTS_WITHIN);
        match quality {
            Quality::None => true,
            Quality::Bad(Unavailable | NotAvailable | Stale | Inherited) => self.starting.is_some(),
            _ => {
                self.starting = None;
                false
            }
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
        let change = if self.has_nothing_new(tick) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{self, RowHead, ValueName, link};
    use crate::time::{Instant, Span};

    /// The level in each second after a start, where the value is this of each tick; `None`: there is none yet.
    fn levels(qualities: &[Option<Quality>]) -> Vec<f64> {
        let input = Input::value_of(ValueName { task: "p".into(), value: "v".into(), previous: None });
        let limits = channels::Limits { max_age: Span::from_millis(100), hold: Span::ZERO };
        let (mut sender, mut receiver) = link(1, [(0, &input)], limits);
        let any = f64::INFINITY;
        let limits = Limits::Range { lolo: -any, low: -any, high: 9.0, hihi: any, hysteresis: 0.0 };
        let settings = Settings { limits, on_delay: 0.0, off_delay: 0.0, latch: false };
        let mut watch = Watch::new(&Site::default(), "w", Severity::Warning, settings, input, None);
        let mut at = Instant::ZERO;
        let mut level = |quality: &Option<Quality>| {
            if let Some(quality) = *quality {
                let head = RowHead { n: 0, release: at, origin: None };
                sender.post(head, &[1.0], |_, _| quality);
            }
            receiver.refresh(at);
            let (zero, period) = (Span::ZERO, Span::from_seconds(1));
            let tick = Tick { n: 0, release: at, started: at, lateness: zero, skipped: 0, credit: zero, period };
            let mut values = [0.0; 2];
            watch.tick(&tick, &mut values).unwrap();
            at = at + period;
            values[1]
        };
        qualities.iter().map(|quality| level(quality)).collect()
    }

    #[test]
    fn a_value_that_has_not_come_yet_is_no_alarm_for_a_while() {
        let bad = Level::Bad.number();
        assert_eq!(levels(&[None; 6]), [0.0, 0.0, 0.0, 0.0, bad, bad]);
        let lost = Some(Quality::Bad(Reason::Unavailable));
        assert_eq!(levels(&[lost, Some(Quality::Good), lost]), [0.0, 0.0, bad], "it had come");
        assert_eq!(levels(&[Some(Quality::Bad(Reason::OutOfRange)), lost]), [bad, bad], "it has come");
    }
}
