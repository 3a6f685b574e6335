//! The kind `plugin`: a task in the user's own shared library, called through the C interface of `hertzd.h`.
//!
//! Loading, describing and creating happen before the start, and may block and allocate. A tick copies its inputs into a preallocated table
//! and calls the library. hertzd measures that code like any other task. Time comes with the ticks.

mod described;
mod keys;

pub(crate) use keys::keys_of;
pub(super) use keys::kind;

use crate::channels::NONE;
use crate::site::Built;
use crate::sys::plugin::{Instance, Moment, Sample};
use crate::task::{Column, Input, Quality, Reason, Task, Tick, TickError};
use crate::time::Span;

/// The return value of a tick without a new value.
const NO_VALUE: i32 = -1;

/// A running plugin.
struct Plugin {
    instance: Instance,
    inputs: Vec<Option<Input>>, // `None`: the section does not name it
    samples: Box<[Sample]>,     // their state at this tick
    columns: Vec<Column>,
    errors: Vec<&'static str>,
}

impl Plugin {
    fn built(instance: Instance, inputs: Vec<Option<Input>>, described: &crate::sys::plugin::Described) -> Built {
        let code = instance.code().addr();
        let plugin = Self {
            instance,
            samples: vec![Sample::MISSING; inputs.len()].into(),
            inputs,
            columns: columns(described),
            errors: described.errors.clone(),
        };
        // The library's code is where the time goes.
        Built { measures: described.measures, code, ..plugin.into() }
    }
}

fn columns(described: &crate::sys::plugin::Described) -> Vec<Column> {
    let column = |(name, unit): &(&str, &str)| Column { name: (*name).into(), unit: (*unit).into() };
    described.values.iter().map(column).collect()
}

impl Task for Plugin {
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        for (sample, input) in self.samples.iter_mut().zip(&self.inputs) {
            if let Some(input) = input {
                lay(sample, input);
            }
        }
        let Tick { n, release, started, lateness, skipped, period, .. } = *tick;
        let moment = Moment { n, release, started, lateness, skipped, period };
        match self.instance.tick(&moment, &self.samples, values) {
            0 => Ok(()),
            NO_VALUE => {
                values.fill(NONE);
                Ok(())
            }
            code => {
                let known = usize::try_from(code).ok().and_then(|code| self.errors.get(code.checked_sub(1)?));
                Err(TickError::new(
                    known.copied().unwrap_or("the plugin returned a code that its table has no error for"),
                ))
            }
        }
    }
}

fn lay(sample: &mut Sample, input: &Input) {
    sample.value = input.get();
    sample.quality = match input.quality() {
        Quality::Good => 0,
        Quality::Bad(Reason::Stale) => 2,
        Quality::Bad(_) => 1,
        Quality::None => 3,
        Quality::Held => 4,
    };
    sample.age_ns = input.age().map_or(Sample::NO_AGE, Span::nanos);
}
