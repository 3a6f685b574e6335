//! Parses the text of an expression into the steps of its program, by precedence climbing. Folds parts without an input into constants.
//! Pure; a text of any length and depth is parsed or refused.

use super::program::{Op, Step};
use super::tokens::{Token, Wrong, tokens};
use crate::config::suggestion;

/// A function that an expression can call.
#[derive(Clone, Copy)]
enum Function {
    Of(Op),
    /// Takes two or more operands, applied one after the other.
    Each(Op),
    Hysteresis,
}

/// The functions: name, meaning, usage.
const FUNCTIONS: [(&str, Function, &str); 17] = [
    ("if", Function::Of(Op::If), "if(condition, value, other value)"),
    ("min", Function::Each(Op::Min), "min(a, b, ...)"),
    ("max", Function::Each(Op::Max), "max(a, b, ...)"),
    ("abs", Function::Of(Op::Abs), "abs(x)"),
    ("clamp", Function::Of(Op::Clamp), "clamp(x, low, high)"),
    ("hysteresis", Function::Hysteresis, "hysteresis(x, low, high)"),
    ("sqrt", Function::Of(Op::Sqrt), "sqrt(x)"),
    ("exp", Function::Of(Op::Exp), "exp(x)"),
    ("ln", Function::Of(Op::Ln), "ln(x)"),
    ("log10", Function::Of(Op::Log10), "log10(x)"),
    ("sin", Function::Of(Op::Sin), "sin(x)"),
    ("cos", Function::Of(Op::Cos), "cos(x)"),
    ("tan", Function::Of(Op::Tan), "tan(x)"),
    ("atan2", Function::Of(Op::Atan2), "atan2(y, x)"),
    ("floor", Function::Of(Op::Floor), "floor(x)"),
    ("ceil", Function::Of(Op::Ceil), "ceil(x)"),
    ("round", Function::Of(Op::Round), "round(x)"),
];

/// The only named constant.
const PI: &str = "pi";

/// Words that act as operators.
const WORDS: [&str; 3] = ["and", "or", "not"];

const WANTED: &str = "a number, an input, a function or ( is wanted here";

/// Maximum nesting depth of brackets and signs: each level uses stack of the parsing thread.
const DEEPEST: usize = 100;

/// Precedence of the operators; a higher one binds tighter.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARISON: u8 = 4;
const SUM: u8 = 5;
const PRODUCT: u8 = 6;
const SIGN: u8 = 7;
const POWER: u8 = 8;

/// The steps of an expression. `inputs`: the names of its inputs; each one used is marked in `taken`.
///
/// # Errors
/// The first error in the text.
pub(super) fn parse(text: &str, inputs: &[&str], taken: &mut [bool]) -> Result<Vec<Step>, Wrong> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, next: 0, inputs, taken, steps: Vec::new(), depth: 0 };
    parser.expression(OR)?;
    match parser.peek() {
        (_, Token::End) => Ok(parser.steps),
        (at, Token::Sign(")")) => Err(Wrong::new(at, "there is no ( for this )")),
        (at, _) => Err(Wrong::new(at, "an operator is wanted here, such as + or <")),
    }
}

/// Words that cannot be the name of an input, because they have a meaning.
pub(super) fn reserved() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain([PI]).chain(FUNCTIONS.iter().map(|(name, ..)| *name))
}

struct Parser<'a> {
    tokens: &'a [(usize, Token<'a>)],
    next: usize,
    inputs: &'a [&'a str],
    taken: &'a mut [bool],
    steps: Vec<Step>,
    depth: usize,
}

/// A part of the expression already parsed: where its steps begin, and its value if no input affects it.
#[derive(Clone, Copy)]
struct Part {
    begin: usize,
    number: Option<f64>,
}

impl<'a> Parser<'a> {
    /// The next token; past the end, the last one, which is `End`.
    fn peek(&self) -> (usize, Token<'a>) {
        self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> (usize, Token<'a>) {
        let taken = self.peek();
        self.next += 1;
        taken
    }

    /// Parses as long as operators bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Part, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Wrong::new(self.peek().0, format!("this is nested more than {DEEPEST} levels deep")));
        }
        let mut left = self.operand(least)?;
        while let Some((op, tightness)) = infix(self.peek().1).filter(|(_, tightness)| *tightness >= least) {
            let (at, _) = self.take();
            // Powers associate to the right, all others to the left.
            let right = self.expression(if tightness == POWER { POWER } else { tightness + 1 })?;
            left = self.apply(op, &[left, right], at)?;
            let (at, next) = self.peek();
            if tightness == COMPARISON && infix(next).is_some_and(|(_, next)| next == COMPARISON) {
                return Err(Wrong::new(at, "comparisons are not chained; write a < b and b < c"));
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self, least: u8) -> Result<Part, Wrong> {
        let (at, token) = self.take();
        match token {
            Token::Number(number) => Ok(self.push(number)),
            Token::Name("not") if least > NOT => {
                Err(Wrong::new(at, "write not with what it is about in brackets: (not x)"))
            }
            Token::Name("not") => {
                let operand = self.expression(NOT)?;
                self.apply(Op::Not, &[operand], at)
            }
            Token::Sign("-") => {
                let operand = self.expression(SIGN)?;
                self.apply(Op::Negate, &[operand], at)
            }
            Token::Sign("(") => {
                let inner = self.expression(OR)?;
                self.close(at)?;
                Ok(inner)
            }
            Token::Name(PI) => Ok(self.push(std::f64::consts::PI)),
            Token::Name(name) if !WORDS.contains(&name) => self.named(at, name),
            Token::Name(_) | Token::Sign(_) | Token::End => Err(Wrong::new(at, WANTED)),
        }
    }

    /// An input, or a function call.
    fn named(&mut self, at: usize, name: &'a str) -> Result<Part, Wrong> {
        let called = self.peek().1 == Token::Sign("(");
        let function = FUNCTIONS.iter().find(|(known, ..)| *known == name);
        match (function, self.inputs.iter().position(|input| *input == name)) {
            (Some((_, function, usage)), _) if called => self.call(at, *function, usage),
            (Some((_, _, usage)), _) => Err(Wrong::new(at, format!("{name} is a function: {usage}"))),
            (None, Some(input)) if !called => {
                self.taken[input] = true;
                self.steps.push(Step::Input(input));
                Ok(Part { begin: self.steps.len() - 1, number: None })
            }
            (None, Some(_)) => Err(Wrong::new(at, format!("{name} is an input and no function"))),
            (None, None) => {
                let known: Vec<&str> = match called {
                    true => FUNCTIONS.iter().map(|(name, ..)| *name).collect(),
                    false => self.inputs.to_vec(),
                };
                let what = if called { "function" } else { "input" };
                let near = suggestion(name, known.iter().copied());
                let more = match near.filter(|near| near.len() > 1) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("there is {}", known.join(", ")),
                };
                Err(Wrong::new(at, format!("there is no {what} {name}; {more}")))
            }
        }
    }

    fn call(&mut self, at: usize, function: Function, usage: &str) -> Result<Part, Wrong> {
        let (open, _) = self.take();
        let (mut operands, mut given): (Vec<Part>, usize) = (Vec::new(), 0);
        while self.peek().1 != Token::Sign(")") || given > 0 {
            let operand = self.expression(OR)?;
            given += 1;
            match (function, operands.last().copied()) {
                (Function::Each(op), Some(before)) => operands = vec![self.apply(op, &[before, operand], at)?],
                _ => operands.push(operand),
            }
            if self.peek().1 != Token::Sign(",") {
                break;
            }
            self.take();
        }
        self.close(open)?;
        let fits = match function {
            Function::Of(op) => given == op.operands(),
            Function::Each(_) => given >= 2,
            Function::Hysteresis => given == 3,
        };
        if !fits {
            return Err(Wrong::new(at, format!("write {usage}; it has {given} in its brackets")));
        }
        if let (Function::Of(Op::Clamp) | Function::Hysteresis, [_, low, high]) = (function, &operands[..])
            && let (Some(low), Some(high)) = (low.number, high.number)
            && low > high
        {
            return Err(Wrong::new(at, format!("write {usage}; its low end {low} is above its high one {high}")));
        }
        match function {
            Function::Of(op) => self.apply(op, &operands, at),
            Function::Each(_) => Ok(operands[0]),
            Function::Hysteresis => {
                self.steps.push(Step::Hysteresis);
                Ok(Part { begin: operands[0].begin, number: None })
            }
        }
    }

    /// Expects the bracket that closes the one at `open`.
    fn close(&mut self, open: usize) -> Result<(), Wrong> {
        match self.take() {
            (_, Token::Sign(")")) => Ok(()),
            (_, Token::End) => Err(Wrong::new(open, "this ( is not closed")),
            (at, _) => Err(Wrong::new(at, "an operator, a comma or ) is wanted here")),
        }
    }

    fn push(&mut self, number: f64) -> Part {
        self.steps.push(Step::Number(number));
        Part { begin: self.steps.len() - 1, number: Some(number) }
    }

    /// Applies `op` to its operands, whose steps come last; computes the result at once if no input affects it.
    fn apply(&mut self, op: Op, operands: &[Part], at: usize) -> Result<Part, Wrong> {
        if let (Op::Divide | Op::Remainder, Some(Part { number: Some(0.0), .. })) = (op, operands.last()) {
            return Err(Wrong::new(at, "this divides by zero"));
        }
        let begin = operands[0].begin;
        let numbers: Option<Vec<f64>> = operands.iter().map(|operand| operand.number).collect();
        let Some(numbers) = numbers else {
            self.steps.push(Step::Apply(op));
            return Ok(Part { begin, number: None });
        };
        let number = op.apply(&numbers);
        if !number.is_finite() {
            return Err(Wrong::new(at, "this has no result: no finite number comes out"));
        }
        self.steps.truncate(begin);
        Ok(self.push(number))
    }
}

/// The binary operator that a token stands for, and its precedence.
fn infix(token: Token<'_>) -> Option<(Op, u8)> {
    let word = match token {
        Token::Sign(word) | Token::Name(word) => word,
        Token::Number(_) | Token::End => return None,
    };
    Some(match word {
        "or" => (Op::Or, OR),
        "and" => (Op::And, AND),
        "<" => (Op::Less, COMPARISON),
        "<=" => (Op::LessOrEqual, COMPARISON),
        ">" => (Op::Greater, COMPARISON),
        ">=" => (Op::GreaterOrEqual, COMPARISON),
        "==" => (Op::Equal, COMPARISON),
        "!=" => (Op::Unequal, COMPARISON),
        "+" => (Op::Add, SUM),
        "-" => (Op::Subtract, SUM),
        "*" => (Op::Multiply, PRODUCT),
        "/" => (Op::Divide, PRODUCT),
        "%" => (Op::Remainder, PRODUCT),
        "^" => (Op::Power, POWER),
        _ => return None,
    })
}
