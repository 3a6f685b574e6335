//! The kind `pid`: a controller. Its [`law`] is pure; this feeds it what a tick knows.
//!
//! Time comes with the ticks and the rows. A tick makes no system call and allocates nothing. What a controller put out last is kept
//! where the one that follows it at a reload finds it.

mod keys;
mod law;

#[cfg(test)]
mod tests;

pub(super) use keys::kind;

use super::elapsed::{Periods, Rows};
use crate::site::Site;
use crate::task::{Column, Input, Task, Tick, TickError};
use crate::time::Instant;
use law::{Held, Law, Mode, Output, Settings, Step};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What a controller takes.
#[derive(Clone, Debug)]
struct Inputs {
    input: Input,
    setpoint: Input,
    feed_forward: Input,
    enable: Input,
    track: Option<Input>,
    held: Option<Input>, // what the task that it tracks says of how that differs from what was asked for
    manual: Option<Input>,
}

impl Inputs {
    /// The oldest measurement behind what it takes; if there is none, the row of its input.
    fn measured(&self) -> Option<Instant> {
        let taken = [&self.input, &self.setpoint, &self.feed_forward];
        taken.into_iter().filter_map(Input::origin).min().or_else(|| self.input.release())
    }
}

/// A controller that runs.
struct Pid {
    law: Law,
    periods: Periods,
    inputs: Inputs,
    rows: Rows,                // of the input
    waited: u64,               // ticks since the latest one that lacked nothing, whose output they hold
    measured: Option<Instant>, // the oldest measurement behind that one
    ticked: bool,
    unit: String, // of what it puts out
    put_out: Arc<PutOut>,
    before: Option<Arc<PutOut>>, // of the one that it follows; kept, since a tick frees no memory
}

/// What a controller put out last; NaN: nothing yet.
#[derive(Debug)]
struct PutOut(AtomicU64);

/// What the controllers of a daemon put out, by the names of their sections: read where tasks are built, never at a tick.
/// Of several with one name the last one runs, unless it is dropped before its first tick: its reload was given up.
#[derive(Debug, Default)]
struct Controllers(Mutex<BTreeMap<String, Vec<Weak<PutOut>>>>);

impl Pid {
    fn new(settings: Settings, periods: Periods, inputs: Inputs) -> Self {
        let put_out = Arc::new(PutOut(AtomicU64::new(f64::NAN.to_bits())));
        Self {
            law: Law::new(settings),
            periods,
            inputs,
            rows: Rows::default(),
            waited: 0,
            measured: None,
            ticked: false,
            unit: String::new(),
            put_out,
            before: None,
        }
    }

    fn in_unit(self, unit: String) -> Self {
        Self { unit, ..self }
    }

    /// One that goes on from what the controller of this name puts out until it takes over, if there is one.
    fn going_on(self, site: &Site, name: &str) -> Self {
        let controllers = site.common::<Controllers>();
        let mut running = controllers.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, of_name| {
            of_name.retain(|put_out| put_out.strong_count() > 0);
            !of_name.is_empty()
        });
        let of_name = running.entry(name.to_owned()).or_default();
        let before = of_name.last().and_then(Weak::upgrade);
        of_name.push(Arc::downgrade(&self.put_out));
        drop(running);
        Self { before, ..self }
    }

    fn mode(&self) -> Mode {
        let enable = self.inputs.enable.get();
        let manual = self.inputs.manual.as_ref().map(Input::get).filter(|value| value.is_finite());
        match manual {
            _ if enable == 0.0 || !enable.is_finite() => Mode::Off,
            Some(value) => Mode::Manual(value),
            None => Mode::Automatic,
        }
    }
}

impl Task for Pid {
    fn columns(&self) -> Vec<Column> {
        let unit = self.unit.as_str();
        let names = [
            ("out", unit),
            ("error", ""),
            ("p", unit),
            ("i", unit),
            ("d", unit),
            ("ff", unit),
            ("saturated", ""),
            ("saturated-for", "s"),
        ];
        names.into_iter().map(|(name, unit)| Column { name: name.into(), unit: unit.into() }).collect()
    }

    fn origin(&self) -> Option<Instant> {
        self.measured.filter(|_| self.waited > 0)
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        if !std::mem::replace(&mut self.ticked, true)
            && let Some(before) = &self.before
        {
            self.law.go_on_from(f64::from_bits(before.0.load(Ordering::Relaxed)));
        }
        let elapsed = self.periods.elapsed(tick, self.waited);
        let mut rows = self.rows;
        let row = rows.look(&self.inputs.input, elapsed);
        let Inputs { input, setpoint, feed_forward, track, held, .. } = &self.inputs;
        let step = Step {
            mode: self.mode(),
            elapsed,
            input: input.get(),
            row,
            setpoint: setpoint.get(),
            feed_forward: feed_forward.get(),
            applied: track.as_ref().map(Input::get).filter(|applied| applied.is_finite()),
            held: Held::of(held.as_ref().map_or(0.0, Input::get)),
        };
        let Output { out, error, p, i, d, ff, saturated, saturated_for, waits } = self.law.step(&step);
        if waits {
            self.waited = elapsed.waited();
        } else {
            (self.waited, self.measured, self.rows) = (0, self.inputs.measured(), rows);
        }
        if out.is_finite() {
            self.put_out.0.store(out.to_bits(), Ordering::Relaxed);
        }
        values.copy_from_slice(&[out, error, p, i, d, ff, saturated, saturated_for]);
        Ok(())
    }
}
