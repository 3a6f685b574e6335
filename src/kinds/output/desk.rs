//! Runs in place of an output on the virtual clock: the same law, with nothing to write to. Time comes with the ticks; a tick allocates
//! nothing and makes no system call.

use super::law::{Law, Wanted};
use super::settings::{OutputSettings, Safe, Start};
use super::task::{TOO_LARGE, columns, learned, shown};
use crate::task::{Column, Task, Tick, TickError};

/// A simulated output, without its target.
pub(super) struct AtTheDesk {
    settings: OutputSettings,
    law: Law,
    safe: f64, // in the unit of the input; NaN: what the target held before, unknown here
}

impl AtTheDesk {
    /// The state of an output that has started with a writable target.
    pub(super) fn new(settings: OutputSettings) -> Self {
        let safe = if let Safe::Value(value) = settings.safe { value } else { f64::NAN };
        let law = match (settings.safe, settings.start) {
            (Safe::Value(_) | Safe::Restore, Start::Safe) => Law::safe(settings.law, safe),
            _ => Law::going_on(settings.law, f64::NAN),
        };
        Self { settings, law, safe }
    }
}

impl Task for AtTheDesk {
    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let step = learned(&self.settings.input, self.settings.reset.as_ref(), tick, false);
        let done = match self.law.step(&step) {
            Wanted::Nothing => Ok(()),
            Wanted::Value(value) | Wanted::Ramp(value) if !self.settings.conversion.raw(value).is_finite() => {
                Err(TOO_LARGE)
            }
            Wanted::Value(value) | Wanted::Ramp(value) => {
                self.law.put_out(value);
                Ok(())
            }
            Wanted::Safe => {
                let safe = if self.settings.safe == Safe::Hold { self.law.applied() } else { self.safe };
                self.law.put_out_safe(safe);
                Ok(())
            }
        };
        values.copy_from_slice(&shown(&self.law, self.settings.safe != Safe::Hold, step.input, 0.0));
        done
    }
}
