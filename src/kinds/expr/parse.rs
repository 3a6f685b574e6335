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
    /// Takes three or more operands, all at once.
    All(fn(usize) -> Step),
    /// Has a state.
    Stateful(Step),
    /// Takes the name of an input.
    Good,
    Age,
}

/// The functions: name, meaning, usage.
const FUNCTIONS: [(&str, Function, &str); 24] = [
    ("if", Function::Of(Op::If), "if(condition, value, other value)"),
    ("min", Function::Each(Op::Min), "min(a, b, ...)"),
    ("max", Function::Each(Op::Max), "max(a, b, ...)"),
    ("abs", Function::Of(Op::Abs), "abs(x)"),
    ("clamp", Function::Of(Op::Clamp), "clamp(x, low, high)"),
    ("hysteresis", Function::Stateful(Step::Hysteresis), "hysteresis(x, low, high)"),
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
    ("sign", Function::Of(Op::Sign), "sign(x)"),
    ("changed", Function::Stateful(Step::Changed), "changed(x)"),
    ("median", Function::All(Step::Median), "median(a, b, c, ...)"),
    ("vote", Function::All(Step::Vote), "vote(a, b, c, ...)"),
    ("default", Function::Of(Op::Default), "default(x, other value)"),
    ("good", Function::Good, "good(x), where x is the name of an input"),
    ("age", Function::Age, "age(x), where x is the name of an input"),
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

/// The names that an expression may use.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    /// The inputs. An expression loads input `i` from index `i` and its age from `inputs.len() + i`.
    pub(super) inputs: &'a [&'a str],
    /// The values of the task, in order. An expression loads the result of value `i` from `2 * inputs.len() + i`.
    pub(super) values: &'a [&'a str],
    /// The index of the value that the expression computes. It may use those before.
    pub(super) own: usize,
}

/// The steps of an expression. Each input that it uses is marked in `uses`.
///
/// # Errors
/// The first error in the text.
pub(super) fn parse(text: &str, names: Names<'_>, uses: &mut [bool]) -> Result<Vec<Step>, Wrong> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, next: 0, names, uses, steps: Vec::new(), depth: 0 };
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
    names: Names<'a>,
    uses: &'a mut [bool],
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
            left = self.apply(Step::Apply(op), &[left, right], at)?;
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
                self.apply(Step::Apply(Op::Not), &[operand], at)
            }
            Token::Sign("-") => {
                let operand = self.expression(SIGN)?;
                self.apply(Step::Apply(Op::Negate), &[operand], at)
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

    /// An input, an earlier value, or a function call.
    fn named(&mut self, at: usize, name: &'a str) -> Result<Part, Wrong> {
        let called = self.peek().1 == Token::Sign("(");
        match FUNCTIONS.iter().find(|(known, ..)| *known == name) {
            Some((_, Function::Good, usage)) if called => {
                let input = self.name_of_input(at, usage)?;
                let loaded = self.load(input);
                self.apply(Step::Apply(Op::Good), &[loaded], at)
            }
            Some((_, Function::Age, usage)) if called => {
                let input = self.name_of_input(at, usage)?;
                Ok(self.load(self.names.inputs.len() + input))
            }
            Some((_, function, usage)) if called => self.call(at, *function, usage),
            Some((_, _, usage)) => Err(Wrong::new(at, format!("{name} is a function: {usage}"))),
            None => self.input_or_value(at, name, called),
        }
    }

    fn input_or_value(&mut self, at: usize, name: &str, called: bool) -> Result<Part, Wrong> {
        let Names { inputs, values, own } = self.names;
        let input = inputs.iter().position(|input| *input == name);
        let value = values.iter().position(|value| *value == name);
        match (input, value) {
            (Some(_), _) if called => Err(Wrong::new(at, format!("{name} is an input and no function"))),
            (None, Some(_)) if called => Err(Wrong::new(at, format!("{name} is a value and no function"))),
            (Some(input), _) => {
                self.uses[input] = true;
                Ok(self.load(input))
            }
            (None, Some(value)) if value < own => Ok(self.load(2 * inputs.len() + value)),
            (None, Some(value)) if value == own => Err(Wrong::new(
                at,
                format!(
                    "{name} is this value itself, and only earlier ones can be used; for its previous tick, add an input: \
                     {{ previous = \"TASK.{name}\", initial = 0 }}"
                ),
            )),
            (None, Some(_)) => {
                Err(Wrong::new(at, format!("{name} is a later value, and only earlier ones can be used; move it up")))
            }
            (None, None) => {
                let known: Vec<&str> = match called {
                    true => FUNCTIONS.iter().map(|(name, ..)| *name).collect(),
                    false => inputs.iter().chain(&values[..own]).copied().collect(),
                };
                let what = match (called, own) {
                    (true, _) => "function",
                    (false, 0) => "input",
                    (false, _) => "input or earlier value",
                };
                let near = suggestion(name, known.iter().copied());
                let more = match near.filter(|near| near.len() > 1) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("there is {}", known.join(", ")),
                };
                Err(Wrong::new(at, format!("there is no {what} {name}; {more}")))
            }
        }
    }

    /// Parses the operand of the function at `at`: an input's name in brackets.
    fn name_of_input(&mut self, at: usize, usage: &str) -> Result<usize, Wrong> {
        let (open, _) = self.take();
        let (_, token) = self.take();
        let Token::Name(name) = token else { return Err(Wrong::new(at, format!("write {usage}"))) };
        let input = self.names.inputs.iter().position(|input| *input == name);
        let Some(input) = input.filter(|_| matches!(self.peek().1, Token::Sign(")") | Token::End)) else {
            return Err(Wrong::new(at, format!("write {usage}")));
        };
        self.close(open)?;
        self.uses[input] = true;
        Ok(input)
    }

    fn load(&mut self, index: usize) -> Part {
        self.steps.push(Step::Load(index));
        Part { begin: self.steps.len() - 1, number: None }
    }

    fn call(&mut self, at: usize, function: Function, usage: &str) -> Result<Part, Wrong> {
        let (open, _) = self.take();
        let (mut operands, mut given): (Vec<Part>, usize) = (Vec::new(), 0);
        while self.peek().1 != Token::Sign(")") || given > 0 {
            let operand = self.expression(OR)?;
            given += 1;
            match (function, operands.last().copied()) {
                (Function::Each(op), Some(before)) => {
                    operands = vec![self.apply(Step::Apply(op), &[before, operand], at)?];
                }
                _ => operands.push(operand),
            }
            if self.peek().1 != Token::Sign(",") {
                break;
            }
            self.take();
        }
        self.close(open)?;
        let (fits, step) = match function {
            Function::Of(op) => (given == op.operands(), Some(Step::Apply(op))),
            Function::Each(_) => (given >= 2, None), // applied already
            Function::All(step) => (given >= 3, Some(step(given))),
            Function::Stateful(step) => (given == step.operands(), Some(step)),
            Function::Good | Function::Age => (false, None),
        };
        if !fits {
            return Err(Wrong::new(at, format!("write {usage}; it has {given} in its brackets")));
        }
        if let (Some(Step::Apply(Op::Clamp) | Step::Hysteresis), [_, low, high]) = (step, &operands[..])
            && let (Some(low), Some(high)) = (low.number, high.number)
            && low > high
        {
            return Err(Wrong::new(at, format!("write {usage}; its low end {low} is above its high one {high}")));
        }
        step.map_or(Ok(operands[0]), |step| self.apply(step, &operands, at))
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

    /// Applies `step` to its operands, whose steps come last; computes the result at once if no input and no state affects it.
    fn apply(&mut self, step: Step, operands: &[Part], at: usize) -> Result<Part, Wrong> {
        let last = operands.last().and_then(|operand| operand.number);
        if matches!((step, last), (Step::Apply(Op::Divide | Op::Remainder), Some(0.0))) {
            return Err(Wrong::new(at, "this divides by zero"));
        }
        let begin = operands[0].begin;
        let is_pure = !matches!(step, Step::Hysteresis | Step::Changed);
        let numbers: Option<Vec<f64>> = operands.iter().map(|operand| operand.number.filter(|_| is_pure)).collect();
        let Some(mut numbers) = numbers else {
            self.steps.push(step);
            return Ok(Part { begin, number: None });
        };
        let number = step.apply(&mut numbers);
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
