//! The kind `expr`: values computed from those of other tasks. Its [`program`] is pure; this module supplies the inputs of each tick.
//!
//! Expressions are parsed before the start; a tick runs them without a system call and without allocating. The parser is our own because
//! exmex, the closest library, has no functions of three operands and no state, allocates from the 33rd operand on, and does not report
//! where in the text an error is.

mod keys;
mod parse;
mod program;
mod tokens;

#[cfg(test)]
mod tests;

pub(super) use keys::kind;

use crate::task::{Column, Input, Task, Tick, TickError};
use program::Program;

/// A running set of expressions.
struct Expr {
    inputs: Vec<Input>,
    taken: Box<[f64]>, // input values at this tick
    values: Vec<(Column, Program)>,
}

impl Expr {
    fn new(inputs: Vec<Input>, values: Vec<(Column, Program)>) -> Self {
        Self { taken: vec![f64::NAN; inputs.len()].into(), inputs, values }
    }
}

impl Task for Expr {
    fn columns(&self) -> Vec<Column> {
        self.values.iter().map(|(column, _)| column.clone()).collect()
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        for (taken, input) in self.taken.iter_mut().zip(&self.inputs) {
            *taken = input.get();
        }
        for (value, (_, program)) in values.iter_mut().zip(&mut self.values) {
            *value = program.run(&self.taken);
        }
        Ok(())
    }
}
