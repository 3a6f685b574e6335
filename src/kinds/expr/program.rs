//! An expression as a flat program over a stack of its own, which is made beforehand: running it allocates nothing, and a step
//! for each number, input and operator is all that it takes. Pure.
//!
//! A result that is not finite is missing, `NaN`, from the step on that made it, so `min(1 / x, 5)` is missing at 0. All
//! operands are computed at each run: the states of `hysteresis` are those of every tick, also in the branch of an `if` that is not
//! taken.

/// What a program does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Puts a number on the stack.
    Number(f64),
    /// Puts the input with this index on the stack.
    Input(usize),
    /// Replaces its operands by its result.
    Apply(Op),
    /// The same, with a state of its own: the value, the low and the high threshold.
    Hysteresis,
}

/// An operator or a function without a state.
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
    /// How many operands it takes.
    pub(super) const fn operands(self) -> usize {
        match self {
            Self::If | Self::Clamp => 3,
            Self::Negate | Self::Not | Self::Abs | Self::Sqrt | Self::Exp | Self::Ln | Self::Log10 => 1,
            Self::Sin | Self::Cos | Self::Tan | Self::Floor | Self::Ceil | Self::Round => 1,
            _ => 2,
        }
    }

    /// Its result; `NaN` where there is none. Of operands that are `NaN` there is none, but those that do not decide count for nothing:
    /// the branch of `if` that is not taken, and what is right of an `and` or `or` whose left side decides.
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

/// An expression that runs.
#[derive(Debug)]
pub(super) struct Program {
    steps: Box<[Step]>,
    stack: Box<[f64]>,
    states: Box<[bool]>, // of each use of hysteresis, in their order
}

impl Program {
    /// The program of these steps, which leave one result.
    pub(super) fn new(steps: &[Step]) -> Self {
        let (mut height, mut most, mut states) = (0_usize, 1, 0);
        for step in steps {
            height = height + 1 - step.operands();
            most = most.max(height);
            states += usize::from(*step == Step::Hysteresis);
        }
        Self { steps: steps.into(), stack: vec![f64::NAN; most].into(), states: vec![false; states].into() }
    }

    /// Its result with these inputs; `NaN` where there is none.
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

/// 1 from above the high threshold on until below the low one. Without a value it stays as it is.
fn hysteresis(state: &mut bool, operands: &[f64]) -> f64 {
    match operands {
        [x, low, high] if low <= high && !x.is_nan() => {
            *state = *x > *high || (*state && *x >= *low);
            f64::from(*state)
        }
        _ => f64::NAN,
    }
}
