//! The kind `filter`: one value computed from another over time. Its [`law`] is pure; this module supplies the inputs of each tick.
//!
//! Time comes with the ticks and the rows. A tick makes no system call and allocates nothing. The last output is kept where a successor of
//! the same type finds it after a reload.

mod keys;
mod law;

pub(super) use keys::kind;

use super::elapsed::{Periods, Rows};
use super::succession::Succession;
use crate::site::Site;
use crate::task::{Column, Input, Task, Tick, TickError};
use law::{Law, Step};

/// A running filter.
#[derive(Debug)]
struct Filter {
    law: Law,
    periods: Periods,
    input: Input,
    reset: Input,
    rows: Rows,  // of the input
    waited: u64, // ticks since the last one that had a value
    succession: Succession,
}

impl Filter {
    fn new(law: Law, periods: Periods, input: Input, reset: Input) -> Self {
        Self { law, periods, input, reset, rows: Rows::default(), waited: 0, succession: Succession::default() }
    }

    /// Continues from the output of the filter of this type and name, if there is one, at the moment it takes over.
    fn going_on(self, site: &Site, word: &'static str, name: &str) -> Self {
        Self { succession: Succession::of(site, word, name), ..self }
    }
}

impl Task for Filter {
    fn columns(&self) -> Vec<Column> {
        vec![Column { name: "out".into(), unit: String::new() }]
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        if let Some(out) = self.succession.takes_over() {
            self.law.go_on_from(out);
        }
        let elapsed = self.periods.elapsed(tick, self.waited);
        let row = self.rows.look(&self.input, elapsed);
        let reset = self.reset.get();
        // While `reset` is unknown, there is nothing to output.
        let input = if reset.is_finite() { self.input.get() } else { f64::NAN };
        let reset = reset.is_finite() && reset != 0.0;
        values[0] = self.law.step(&Step { input, row, elapsed, reset });
        self.waited = if values[0].is_finite() { 0 } else { elapsed.waited() };
        if values[0].is_finite() || !self.law.remembers() {
            self.succession.puts_out(values[0]);
        } else if reset {
            self.succession.puts_out(0.0); // a reset while there is no value
        }
        Ok(())
    }
}
