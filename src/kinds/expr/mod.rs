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

use crate::channels::{InputSource, NONE};
use crate::task::{Column, Input, Quality, Task, Tick, TickError};
use crate::time::Span;
use program::Program;

/// A running set of expressions.
struct Expr {
    inputs: Vec<Input>,
    aged: Box<[usize]>, // the inputs whose age is not always 0
    data: Box<[f64]>,   // of this tick: the inputs, their ages, and the results so far
    values: Vec<(Column, Program)>,
}

impl Expr {
    fn new(inputs: Vec<Input>, values: Vec<(Column, Program)>) -> Self {
        let aged = (0..inputs.len()).filter(|at| matches!(inputs[*at].source(), InputSource::Value(_))).collect();
        Self { data: vec![0.0; 2 * inputs.len() + values.len()].into(), aged, inputs, values }
    }
}

/// What is known of an input, or, without that, why not.
fn known(input: &Input, number: f64) -> f64 {
    if number.is_nan() && input.quality() == Quality::None { NONE } else { number }
}

impl Task for Expr {
    fn columns(&self) -> Vec<Column> {
        self.values.iter().map(|(column, _)| column.clone()).collect()
    }

    fn tick(&mut self, _: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        let count = self.inputs.len();
        for (data, input) in self.data.iter_mut().zip(&self.inputs) {
            *data = known(input, input.get());
        }
        for at in &self.aged {
            let input = &self.inputs[*at];
            self.data[count + at] = known(input, input.age().map_or(f64::NAN, Span::seconds));
        }
        for (at, (value, (_, program))) in values.iter_mut().zip(&mut self.values).enumerate() {
            *value = program.run(&self.data);
            self.data[2 * count + at] = *value;
        }
        Ok(())
    }
}
