//! The kind `profile`: a setpoint over time. Its [`shape`] is pure; this module passes it the time since the first release.
//!
//! That time is computed from the index of the tick and the exact rate, including skipped ticks; no clock is read. A table of values is
//! read when the task is built. A tick makes no system call and allocates nothing.

mod csv;
mod keys;
mod shape;

#[cfg(test)]
mod tests;

pub(super) use keys::kind;

use crate::pacing::Rate;
use crate::task::{Column, Reason, Task, Tick, TickError};
use shape::Course;

/// A running setpoint.
struct Profile {
    course: Course,
    rate: Rate,
    unit: String,
    first: Option<u64>, // index of the first release
}

impl Profile {
    fn new(course: Course, rate: Rate, unit: String) -> Self {
        Self { course, rate, unit, first: None }
    }
}

impl Task for Profile {
    fn columns(&self) -> Vec<Column> {
        columns(&self.unit)
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let first = *self.first.get_or_insert(tick.n.saturating_sub(tick.skipped));
        let value = self.course.at(self.rate.offset(tick.n.saturating_sub(first)));
        values[0] = if value.is_nan() { Reason::NotAvailable.value() } else { value };
        Ok(())
    }
}

fn columns(unit: &str) -> Vec<Column> {
    vec![Column { name: "out".into(), unit: unit.into() }]
}
