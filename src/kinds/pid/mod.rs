//! The kind `pid`: a controller. Its [`law`] is pure; this module feeds it the data of each tick.
//!
//! Time comes with the ticks and the rows. A tick makes no system call and allocates nothing. A controller's last output is stored where
//! its successor finds it at a reload.

mod keys;
mod law;

#[cfg(test)]
mod tests;

pub(super) use keys::kind;

use super::elapsed::{Periods, Rows};
use super::succession::Succession;
use crate::channels::InputSource;
use crate::site::Site;
use crate::task::{Column, Input, Quality, Reason, Task, Tick, TickError};
use crate::time::Instant;
use law::{Held, Law, Mode, Output, Settings, Step};

/// The inputs of a controller.
#[derive(Clone, Debug)]
struct Inputs {
    input: Input,
    setpoint: Input,
    feed_forward: Input,
    enable: Input,
    track: Option<Input>,
    held: Option<Input>, // how the tracked task's applied value differs from the requested one
    manual: Option<Input>,
}

impl Inputs {
    /// The oldest measurement behind the inputs or, if there is none, the release of the input's row.
    fn measured(&self) -> Option<Instant> {
        let taken = [&self.input, &self.setpoint, &self.feed_forward];
        taken.into_iter().filter_map(Input::origin).min().or_else(|| self.input.release())
    }

    /// What was really applied last. The `initial` value of a link without a row counts only at a first start.
    fn applied(&self, goes_on: bool) -> Option<f64> {
        let track = self.track.as_ref()?;
        let is_initial = matches!(track.source(), InputSource::Value(_)) && track.release().is_none();
        Some(track.get()).filter(|applied| applied.is_finite() && !(goes_on && is_initial))
    }
}

/// A running controller.
struct Pid {
    law: Law,
    periods: Periods,
    inputs: Inputs,
    rows: Rows,                // of the input
    waited: u64,               // ticks since the last complete one, whose output is held
    measured: Option<Instant>, // the oldest measurement behind that tick
    ran: bool,                 // there has been an output
    enabled: Option<bool>,     // as `enable` last said; `None`: it has not said anything yet
    by_hand: Option<f64>,      // as `manual` last said
    unit: String,              // of the output
    succession: Succession,
    goes_on: bool, // continues another controller's output
}

impl Pid {
    fn new(settings: Settings, periods: Periods, inputs: Inputs) -> Self {
        Self {
            law: Law::new(settings),
            periods,
            inputs,
            rows: Rows::default(),
            waited: 0,
            measured: None,
            ran: false,
            enabled: None,
            by_hand: None,
            unit: String::new(),
            succession: Succession::default(),
            goes_on: false,
        }
    }

    fn in_unit(self, unit: String) -> Self {
        Self { unit, ..self }
    }

    /// Makes it continue from the last output of the controller with this name, if there is one.
    fn going_on(self, site: &Site, name: &str) -> Self {
        Self { succession: Succession::of(site, "pid", name), ..self }
    }

    fn mode(&self) -> Mode {
        match self.by_hand {
            _ if self.enabled != Some(true) => Mode::Off,
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
        if let Some(out) = self.succession.takes_over() {
            self.law.go_on_from(out);
            self.goes_on = true;
        }
        let enable = &self.inputs.enable;
        if enable.quality() != Quality::None {
            self.enabled = Some(enable.get() != 0.0 && enable.quality().is_usable());
        }
        if let Some(manual) = self.inputs.manual.as_ref().filter(|manual| manual.quality() != Quality::None) {
            self.by_hand = Some(manual.get()).filter(|value| value.is_finite());
        }
        let elapsed = self.periods.elapsed(tick, self.waited);
        let mut rows = self.rows;
        let row = rows.look(&self.inputs.input, elapsed);
        let Inputs { input, setpoint, feed_forward, held, .. } = &self.inputs;
        let applied = self.inputs.applied(self.goes_on);
        let step = Step {
            mode: self.mode(),
            elapsed,
            input: input.get(),
            row,
            setpoint: setpoint.get(),
            feed_forward: feed_forward.get(),
            applied,
            held: Held::of(held.as_ref().map_or(0.0, Input::get)),
        };
        let Output { out, error, p, i, d, ff, saturated, saturated_for, waits } = self.law.step(&step);
        if waits {
            self.waited = elapsed.waited();
        } else {
            (self.waited, self.measured, self.rows) = (0, self.inputs.measured(), rows);
        }
        if out.is_finite() {
            self.succession.puts_out(out);
        } else if let Some(applied) = applied.filter(|_| self.succession.has_put_out()) {
            self.succession.puts_out(applied);
        }
        values.copy_from_slice(&[out, error, p, i, d, ff, saturated, saturated_for]);
        self.ran |= out.is_finite();
        let why = match (step.mode, out.is_finite()) {
            (Mode::Off, _) if self.inputs.enable.quality().is_usable() => Some(Reason::NotAvailable),
            // It gives up: what takes its output must not wait any longer.
            (_, false) if self.ran && step.lacks_a_value() => Some(Reason::Inherited),
            _ => None,
        };
        if let Some(why) = why {
            values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = why.value());
        }
        Ok(())
    }
}
