//! An expression as a flat program with its own preallocated stack. Running it allocates nothing, and takes one step for each number, input
//! and operator. Pure.
//!
//! A result that is not finite becomes missing, `NaN`, at the step that produced it, so `min(1 / x, 5)` is missing at 0. All operands are
//! computed in each run: the states of `hysteresis` are updated at every tick, even in a branch of `if` that is not taken.

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Pushes a number.
    Number(f64),
    /// Pushes the input with this index.
    Input(usize),
    /// Replaces the operands with the result.
    Apply(Op),
    /// The same, with a state of its own. Operands: the value, the low and the high threshold.
    Hysteresis,
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
            _ => 2,
        }
    }

    /// The result; `NaN` if there is none. A `NaN` operand gives no result, unless it does not matter: the branch of `if` that is not
    /// taken, and the right side of an `and` or `or` that the left side decides.
    pub(super) fn apply(self, operands: &[f64]) -> f64 {
        let result = match (self, operands) {
            (Self::If, [condition, yes, no]) if !condition.is_nan() => [*yes, *no][usize::from(*condition == 0.0)],
            (Self::And, [left, _]) if *left == 0.0 => 0.0,
            (Self::Or, [left, _]) if *left != 0.0 && !left.is_nan() => 1.0,
            (_, operands) if operands.iter().any(|operand| operand.is_nan()) => f64::NAN,
            (op, [x]) => op.of_one(*x),
            (op, [a, b]) => op.of_two(*a, *b),
            (Self::Clamp, [x, low, high]) if low <= high => x.clamp(*low, *high),
            _ => f64::NAN,
        };
        if result.is_finite() { result } else { f64::NAN }
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
    states: Box<[bool]>, // one per use of hysteresis, in order
}

impl Program {
    /// A program of these steps, which must leave one result.
    pub(super) fn new(steps: &[Step]) -> Self {
        let (mut height, mut most, mut states) = (0_usize, 1, 0);
        for step in steps {
            height = height + 1 - step.operands();
            most = most.max(height);
            states += usize::from(*step == Step::Hysteresis);
        }
        Self { steps: steps.into(), stack: vec![f64::NAN; most].into(), states: vec![false; states].into() }
    }

    /// The result for these inputs; `NaN` if there is none.
    pub(super) fn run(&mut self, inputs: &[f64]) -> f64 {
        let (mut height, mut states) = (0, self.states.iter_mut());
        for step in &self.steps {
            let base = height - step.operands();
            let operands = &self.stack[base..height];
            let result = match *step {
                Step::Number(number) => number,
                Step::Input(index) => inputs[index],
                Step::Apply(op) => op.apply(operands),
                Step::Hysteresis => states.next().map_or(f64::NAN, |state| hysteresis(state, operands)),
            };
            self.stack[base] = result;
            height = base + 1;
        }
        self.stack[0]
    }
}

impl Step {
    const fn operands(self) -> usize {
        match self {
            Self::Number(_) | Self::Input(_) => 0,
            Self::Apply(op) => op.operands(),
            Self::Hysteresis => 3,
        }
    }
}

/// Becomes 1 above the high threshold and 0 below the low one; stays unchanged in between and without a value.
fn hysteresis(state: &mut bool, operands: &[f64]) -> f64 {
    match operands {
        [x, low, high] if low <= high && !x.is_nan() => {
            *state = *x > *high || (*state && *x >= *low);
            f64::from(*state)
        }
        _ => f64::NAN,
    }
}
