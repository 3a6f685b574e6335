//! An expression as a flat program with its own preallocated stack. Running it allocates nothing, and takes one step for each number, input
//! and operator. Pure.
//!
//! Without a result there is a `NaN`: [`NOT_FINITE`] where finite operands gave none, [`NONE`] behind an input that has nothing new, a plain
//! one behind a bad input. A step that produces no finite number makes it, so `min(1 / x, 5)` has no result at 0. All operands are computed in each run: the states of
//! `hysteresis` and `changed` are updated at every tick, even in a branch of `if` that is not taken.

use crate::channels::NONE;
use crate::task::Reason;

/// What a tick writes where finite operands have no finite result, as in `1 / 0`.
const NOT_FINITE: f64 = Reason::NotFinite.value();

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Pushes a number.
    Number(f64),
    /// Pushes what is at this index of the data of the tick: an input, its age, or the result of an earlier value.
    Load(usize),
    /// Replaces the operands with the result.
    Apply(Op),
    /// The same, for the median of this many operands.
    Median(usize),
    /// The same, for the median of those of this many operands that have a value, if more than half have one.
    Vote(usize),
    /// The same, with a state of its own. Operands: the value, the low and the high threshold.
    Hysteresis,
    /// The same, with the last value as its state.
    Changed,
}

/// A stateless operator or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Negate,
    Not,
    Abs,
    Sqrt,
    Exp,
    Ln,
    Log10,
    Sin,
    Cos,
    Tan,
    Floor,
    Ceil,
    Round,
    Sign,
    /// Whether there is a value.
    Good,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
    And,
    Or,
    Min,
    Max,
    Atan2,
    /// The right operand where the left one has no value.
    Default,
    If,
    Clamp,
}

impl Op {
    /// The number of operands.
    pub(super) const fn operands(self) -> usize {
        match self {
            Self::If | Self::Clamp => 3,
            Self::Negate | Self::Not | Self::Abs | Self::Sqrt | Self::Exp | Self::Ln | Self::Log10 => 1,
            Self::Sin | Self::Cos | Self::Tan | Self::Floor | Self::Ceil | Self::Round => 1,
            Self::Sign | Self::Good => 1,
            _ => 2,
        }
    }

    /// The result; a `NaN` if there is none. An operand without a value gives no result, unless it does not matter: the branch of `if` that
    /// is not taken, and the right side of an `and`, `or` or `default` that the left side decides.
    pub(super) fn apply(self, operands: &[f64]) -> f64 {
        let result = match (self, operands) {
            (Self::If, [condition, yes, no]) if !condition.is_nan() => {
                return [*yes, *no][usize::from(*condition == 0.0)];
            }
            (Self::If, [condition, ..]) => return without_value(&[*condition]),
            (Self::And, [left, _]) if *left == 0.0 => 0.0,
            (Self::Or, [left, _]) if *left != 0.0 && !left.is_nan() => 1.0,
            (Self::Good, [x]) => f64::from(!x.is_nan()),
            (Self::Default, [x, other]) if x.is_nan() && !other.is_nan() => *other,
            (Self::Default, [x, _]) if !x.is_nan() => *x,
            (_, operands) if operands.iter().any(|operand| operand.is_nan()) => return without_value(operands),
            (op, [x]) => op.of_one(*x),
            (op, [a, b]) => op.of_two(*a, *b),
            (Self::Clamp, [x, low, high]) if low <= high => x.clamp(*low, *high),
            _ => NOT_FINITE,
        };
        if result.is_finite() { result } else { NOT_FINITE }
    }

    fn of_one(self, x: f64) -> f64 {
        match self {
            Self::Negate => -x,
            Self::Not => f64::from(x == 0.0),
            Self::Abs => x.abs(),
            Self::Sqrt => x.sqrt(),
            Self::Exp => x.exp(),
            Self::Ln => x.ln(),
            Self::Log10 => x.log10(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tan => x.tan(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round(),
            Self::Sign => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
            _ => f64::NAN,
        }
    }

    #[expect(clippy::float_cmp, reason = "it is what the expression asks for")]
    fn of_two(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Remainder => a % b,
            Self::Power => a.powf(b),
            Self::Less => f64::from(a < b),
            Self::LessOrEqual => f64::from(a <= b),
            Self::Greater => f64::from(a > b),
            Self::GreaterOrEqual => f64::from(a >= b),
            Self::Equal => f64::from(a == b),
            Self::Unequal => f64::from(a != b),
            Self::And => f64::from(a != 0.0 && b != 0.0),
            Self::Or => f64::from(a != 0.0 || b != 0.0),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Atan2 => a.atan2(b),
            _ => f64::NAN,
        }
    }
}

/// A runnable expression.
#[derive(Debug)]
pub(super) struct Program {
    steps: Box<[Step]>,
    stack: Box<[f64]>,
    states: Box<[f64]>, // one per step that has a state, in order
}

impl Program {
    /// A program of these steps, which must leave one result.
    pub(super) fn new(steps: &[Step]) -> Self {
        let (mut height, mut most) = (0_usize, 1);
        for step in steps {
            height = height + 1 - step.operands();
            most = most.max(height);
        }
        let states = steps.iter().filter_map(|step| match step {
            Step::Hysteresis => Some(0.0),
            Step::Changed => Some(f64::NAN),
            _ => None,
        });
        Self { steps: steps.into(), stack: vec![f64::NAN; most].into(), states: states.collect() }
    }

    /// The result for the data of a tick; a `NaN` if there is none.
    pub(super) fn run(&mut self, data: &[f64]) -> f64 {
        let (mut height, mut states) = (0, self.states.iter_mut());
        for step in &self.steps {
            let base = height - step.operands();
            let operands = &mut self.stack[base..height];
            let result = match *step {
                Step::Load(index) => data[index],
                Step::Hysteresis => states.next().map_or(f64::NAN, |state| hysteresis(state, operands)),
                Step::Changed => states.next().map_or(f64::NAN, |last| changed(last, operands)),
                step => step.apply(operands),
            };
            self.stack[base] = result;
            height = base + 1;
        }
        self.stack[0]
    }
}

impl Step {
    /// The number of operands.
    pub(super) const fn operands(self) -> usize {
        match self {
            Self::Number(_) | Self::Load(_) => 0,
            Self::Apply(op) => op.operands(),
            Self::Median(count) | Self::Vote(count) => count,
            Self::Hysteresis => 3,
            Self::Changed => 1,
        }
    }

    /// The result of a step that depends on its operands alone; a `NaN` if there is none. May reorder the operands.
    pub(super) fn apply(self, operands: &mut [f64]) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Apply(op) => op.apply(operands),
            Self::Median(count) => median(operands, count),
            Self::Vote(count) => median(operands, count / 2 + 1),
            Self::Load(_) | Self::Hysteresis | Self::Changed => f64::NAN,
        }
    }
}

/// What stands for the result of operands that give none. It is plain if one of them is: a bad input is behind it.
fn without_value(operands: &[f64]) -> f64 {
    let is = |operand: &f64, mark: f64| operand.to_bits() == mark.to_bits();
    let is_plain = |operand: &f64| operand.is_nan() && !is(operand, NOT_FINITE) && !is(operand, NONE);
    match () {
        () if operands.iter().any(is_plain) => f64::NAN,
        () if operands.iter().any(|operand| is(operand, NONE)) => NONE,
        () => NOT_FINITE,
    }
}

/// The median of the operands that have a value, if at least this many have one. Sorts them.
fn median(operands: &mut [f64], least: usize) -> f64 {
    operands.sort_unstable_by(|a, b| a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(b)));
    let values = &operands[..operands.partition_point(|operand| !operand.is_nan())];
    let upper = values.len() / 2;
    match values.len() {
        count if count < least => without_value(operands),
        count if count % 2 == 1 => values[upper],
        _ => values[upper - 1].midpoint(values[upper]),
    }
}

/// Becomes 1 above the high threshold and 0 below the low one; stays unchanged in between and without a value.
fn hysteresis(state: &mut f64, operands: &[f64]) -> f64 {
    match operands {
        [x, low, high] if low <= high && !x.is_nan() => {
            *state = f64::from(*x > *high || (*state > 0.0 && *x >= *low));
            *state
        }
        _ => without_value(operands),
    }
}

/// 1 if the operand differs from the last one that had a value, else 0. `last` is `NaN` before the first one.
#[expect(clippy::float_cmp, reason = "any difference counts")]
fn changed(last: &mut f64, operands: &[f64]) -> f64 {
    match operands {
        [x] if !x.is_nan() => {
            let before = std::mem::replace(last, *x);
            f64::from(!before.is_nan() && before != *x)
        }
        _ => without_value(operands),
    }
}
