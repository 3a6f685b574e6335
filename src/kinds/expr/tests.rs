use super::parse::{Names, parse};
use super::program::{Program, Step};
use super::tokens::Wrong;
use crate::kinds::tests::bench::{BAD, Bench, NOTHING, good};
use crate::task::{Quality, Reason};

const NAMES: [&str; 3] = ["a", "b", "speed"];

/// Value 1 of three, with value 0 at index 6.
const OF_THREE: Names<'_> = Names { inputs: &NAMES, values: &["err", "own", "after"], own: 1 };

fn steps(text: &str) -> Result<Vec<Step>, Wrong> {
    parse(text, Names { inputs: &NAMES, values: &[], own: 0 }, &mut [false; 3])
}

fn program(text: &str) -> Program {
    Program::new(&steps(text).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.message(text))))
}

fn wrong(text: &str) -> String {
    steps(text).map(|_| String::new()).unwrap_or_else(|wrong| wrong.message(text))
}

fn at(text: &str, inputs: [f64; 3]) -> f64 {
    program(text).run(&inputs)
}

#[test]
fn operators_bind_as_in_mathematics() {
    for (text, wanted) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 4 - 3", 3.0),
        ("24 / 4 / 2", 3.0),
        ("7 % 4 * 2", 6.0),
        ("-7 % 4", -3.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ^ -1 * 4", 2.0),
        ("--2", 2.0),
        ("1e-3 * 2.5E+3 + .5", 3.0),
        ("1 + 1 < 3", 1.0),
        ("1 < 2 and 2 < 1 or 3 > 2", 1.0),
        ("1 or 0 and 0", 1.0),
        ("not 1 == 2", 1.0),
        ("not not 3", 1.0),
        ("not 0 and 0", 0.0),
        ("2 <= 2 and 2 >= 2 and 2 != 3", 1.0),
        ("min(3, 1, 2) + max(3, 1, 2)", 4.0),
        ("clamp(7, 0, 5) + clamp(-7, 0, 5)", 5.0),
        ("if(2 > 1, 10, 20)", 10.0),
        ("abs(-2) + sqrt(9) + round(2.5) + floor(-0.5) + ceil(0.2)", 8.0),
        ("sign(-2) + 10 * sign(0) + 100 * sign(3)", 99.0),
        ("median(3, 1, 2) + 10 * median(4, 1, 3, 2) + 100 * vote(5, 7, 6)", 625.0 + 2.0),
        ("default(1, 2)", 1.0),
        ("exp(0) + ln(1) + log10(1000) + sin(0) + cos(0) + tan(0) + atan2(0, 1)", 5.0),
        ("cos(pi)", -1.0),
        ("a\n+ b *\tspeed", 13.0),
    ] {
        assert_eq!(at(text, [1.0, 3.0, 4.0]), wanted, "{text}");
    }
}

#[test]
fn what_is_not_finite_is_missing() {
    for (text, inputs) in [
        ("1 / a", [0.0; 3]),
        ("min(1 / a, 5)", [0.0; 3]),
        ("a % b", [1.0, 0.0, 0.0]),
        ("sqrt(a)", [-1.0; 3]),
        ("ln(a)", [0.0; 3]),
        ("a ^ b", [-1.0, 0.5, 0.0]),
        ("exp(a) - exp(a)", [1e3; 3]),
        ("a * 1e300 * 1e300 > 1", [1.0; 3]),
        ("clamp(a, b, speed)", [1.0, 2.0, 1.0]),
        ("if(1 / a, 1, 2)", [0.0; 3]),
        ("max(a, b)", [1.0, f64::NAN, 0.0]),
        ("a < b", [1.0, f64::NAN, 0.0]),
        ("a != b", [1.0, f64::NAN, 0.0]),
        ("not a", [f64::NAN; 3]),
        ("1 / a and 0", [0.0; 3]),
        ("hysteresis(a, 1, 2)", [f64::NAN; 3]),
        ("changed(a)", [f64::NAN; 3]),
        ("sign(a)", [f64::NAN; 3]),
        ("median(a, b, speed)", [1.0, f64::NAN, 2.0]),
        ("vote(a, b, speed)", [1.0, f64::NAN, f64::NAN]),
        ("vote(a, b, speed, a)", [f64::NAN, 1.0, 2.0]),
        ("default(a, b)", [f64::NAN, f64::NAN, 1.0]),
    ] {
        assert!(at(text, inputs).is_nan(), "{text} of {inputs:?}");
    }
    // Operands that do not matter may be missing.
    for (text, wanted) in [
        ("if(a != 0, 1 / a, 7)", 7.0),
        ("a != 0 and 1 / a > 2", 0.0),
        ("a == 0 or 1 / a > 2", 1.0),
        ("a * 3", 0.0),
        ("good(a) + 10 * good(b)", 1.0),
        ("default(a, b)", 0.0),
        ("default(b, 20)", 20.0),
        ("default(1 / a, 3)", 3.0),
        ("default(b + speed, default(b, a - 1))", -1.0),
        ("vote(b, a, 6)", 3.0),
        ("vote(b, a, 7, 6)", 6.0),
    ] {
        assert_eq!(at(text, [0.0, f64::NAN, f64::NAN]), wanted, "{text}");
    }
}

#[test]
fn without_a_result_the_reason_is_the_input_or_the_arithmetic() {
    let (missing, not_finite) = (f64::NAN.to_bits(), Reason::NotFinite.value().to_bits());
    for (text, wanted) in [
        ("b", missing),
        ("b + a", missing),
        ("1 / a + b", missing),
        ("b + 1 / a", missing),
        ("if(b, 1, 2)", missing),
        ("if(1 - a, b, 2)", missing),
        ("vote(a, b, b)", missing),
        ("median(1 / a, b, 2)", missing),
        ("default(b, 1 / a)", missing),
        ("hysteresis(b, 1, 2)", missing),
        ("1 / a", not_finite),
        ("sqrt(a - 1)", not_finite),
        ("1e300 * (speed * 1e300)", not_finite),
        ("2 * (1 / a) - 3", not_finite),
        ("if(1 / a, b, b)", not_finite),
        ("clamp(a, speed, 1)", not_finite),
        ("hysteresis(a, speed, 1)", not_finite),
        ("changed(1 / a)", not_finite),
        ("vote(a, 1 / a, ln(a))", not_finite),
        ("default(1 / a, ln(a))", not_finite),
    ] {
        assert_eq!(at(text, [0.0, f64::NAN, 2.0]).to_bits(), wanted, "{text}");
    }
}

#[test]
fn a_change_is_one_from_the_last_value_there_was() {
    let mut program = program("changed(a) + 10 * changed(b)");
    let missing = f64::NAN;
    for (a, b, wanted) in [
        (3.0, 1.0, 0.0),
        (3.0, 2.0, 10.0),
        (missing, 2.0, missing),
        (3.0, 2.0, 0.0),
        (missing, 3.0, missing),
        (4.0, 3.0, 1.0),
        (-0.0, 3.0, 1.0),
        (0.0, 3.0, 0.0),
    ] {
        let found = program.run(&[a, b, 0.0]);
        assert_eq!(found.to_bits(), wanted.to_bits(), "{a}, {b}: {found}");
    }
}

#[test]
fn an_expression_uses_earlier_values_only() {
    let parse = |text: &str| parse(text, OF_THREE, &mut [false; 3]);
    let mut program = Program::new(&parse("abs(err) > a").unwrap());
    assert_eq!([[3.0, -4.0], [3.0, 2.0]].map(|[a, err]| program.run(&[a, 0.0, 0.0, 0.0, 0.0, 0.0, err])), [1.0, 0.0]);
    for (text, wanted) in [
        (
            "own + 1",
            "at character 1, before \"own + 1\": own is this value itself, and only earlier ones can be used; for its previous \
             tick, add an input: { previous = \"TASK.own\", initial = 0 }",
        ),
        (
            "2 * after",
            "at character 5, before \"after\": after is a later value, and only earlier ones can be used; move it up",
        ),
        ("er", "at character 1, before \"er\": there is no input or earlier value er; did you mean err?"),
        ("zz", "at character 1, before \"zz\": there is no input or earlier value zz; there is a, b, speed, err"),
        ("err(1)", "at character 1, before \"err(1)\": err is a value and no function"),
        ("good(err)", "at character 1, before \"good(err)\": write good(x), where x is the name of an input"),
    ] {
        assert_eq!(parse(text).unwrap_err().message(text), wanted, "{text}");
    }
    // Of an input and an earlier value with one name, the input is meant.
    let both = Names { inputs: &NAMES, values: &["a", "own"], own: 1 };
    for text in ["a + 1", "good(a)", "age(a)"] {
        let mut uses = [false; 3];
        super::parse::parse(text, both, &mut uses).unwrap();
        assert_eq!(uses, [true, false, false], "{text}");
    }
}

#[test]
fn each_hysteresis_has_its_own_state() {
    let mut program = program("hysteresis(a, 2, 5) + 10 * hysteresis(a, b, speed)");
    let missing = f64::NAN;
    for (a, wanted) in [
        (3.0, 0.0),
        (5.0, 0.0),
        (5.1, 1.0),
        (8.0, 11.0),
        (5.0, 11.0),
        (2.0, 1.0),
        (missing, missing),
        (2.0, 1.0),
        (1.9, 0.0),
        (4.0, 0.0),
    ] {
        let found = program.run(&[a, 4.0, 7.0]);
        assert_eq!(found.to_bits(), wanted.to_bits(), "{a}: {found}");
    }
    // A branch that is not taken still updates its state.
    let mut program = self::program("if(b, hysteresis(a, 1, 2), -1)");
    let course = [[3.0, 0.0], [1.5, 1.0], [0.0, 0.0], [1.5, 1.0]];
    assert_eq!(course.map(|[a, b]| program.run(&[a, b, 0.0])), [-1.0, 1.0, -1.0, 0.0]);
}

#[test]
fn an_error_says_where_and_what_is_wanted() {
    for (text, wanted) in [
        ("", "at its end: a number, an input, a function or ( is wanted here"),
        ("a +", "at its end: a number, an input, a function or ( is wanted here"),
        ("a + * b", "at character 5, before \"* b\": a number, an input, a function or ( is wanted here"),
        ("a and or b", "at character 7, before \"or b\": a number, an input, a function or ( is wanted here"),
        ("2 a", "at character 3, before \"a\": an operator is wanted here, such as + or <"),
        ("(a + b", "at character 1, before \"(a + b\": this ( is not closed"),
        ("(a b)", "at character 4, before \"b)\": an operator, a comma or ) is wanted here"),
        ("a + b)", "at character 6, before \")\": there is no ( for this )"),
        ("speeed * 2", "at character 1, before \"speeed * 2\": there is no input speeed; did you mean speed?"),
        ("2 * x", "at character 5, before \"x\": there is no input x; there is a, b, speed"),
        ("torque", "at character 1, before \"torque\": there is no input torque; there is a, b, speed"),
        ("maxx(a, b)", "at character 1, before \"maxx(a, b)\": there is no function maxx; did you mean max?"),
        ("speed(2)", "at character 1, before \"speed(2)\": speed is an input and no function"),
        ("abs + 1", "at character 1, before \"abs + 1\": abs is a function: abs(x)"),
        ("clamp(a, 1)", "at character 1, before \"clamp(a, 1)\": write clamp(x, low, high); it has 2 in its brackets"),
        ("1 + min(a)", "at character 5, before \"min(a)\": write min(a, b, ...); it has 1 in its brackets"),
        ("max()", "at character 1, before \"max()\": write max(a, b, ...); it has 0 in its brackets"),
        (
            "median(a, b)",
            "at character 1, before \"median(a, b)\": write median(a, b, c, ...); it has 2 in its brackets",
        ),
        ("vote(a)", "at character 1, before \"vote(a)\": write vote(a, b, c, ...); it has 1 in its brackets"),
        (
            "default(a)",
            "at character 1, before \"default(a)\": write default(x, other value); it has 1 in its brackets",
        ),
        ("changed()", "at character 1, before \"changed()\": write changed(x); it has 0 in its brackets"),
        ("good(a", "at character 5, before \"(a\": this ( is not closed"),
        ("good(3)", "at character 1, before \"good(3)\": write good(x), where x is the name of an input"),
        ("age(a + b)", "at character 1, before \"age(a + b)\": write age(x), where x is the name of an input"),
        ("age", "at character 1, before \"age\": age is a function: age(x), where x is the name of an input"),
        ("abs(a,)", "at character 7, before \")\": a number, an input, a function or ( is wanted here"),
        ("a = b", "at character 3, before \"= b\": write == to compare"),
        ("a && b", "at character 3, before \"&& b\": write and"),
        ("a ** b", "at character 3, before \"** b\": powers are written x ^ y"),
        ("!a", "at character 1, before \"!a\": write not"),
        ("1 < a < 2", "at character 7, before \"< 2\": comparisons are not chained; write a < b and b < c"),
        ("1 + not a", "at character 5, before \"not a\": write not with what it is about in brackets: (not x)"),
        ("a / 0", "at character 3, before \"/ 0\": this divides by zero"),
        ("a + sqrt(-1)", "at character 5, before \"sqrt(-1)\": this has no result: no finite number comes out"),
        ("1e999", "at character 1, before \"1e999\": 1e999 is not a number"),
        (
            "hysteresis(a, 5, 2)",
            "at character 1, before \"hysteresis(a, 5,...\": write hysteresis(x, low, high); its low end 5 is above its high one 2",
        ),
        ("a + µ", "at character 5, before \"µ\": 'µ' has no meaning here"),
        ("µ", "at character 1, before \"µ\": 'µ' has no meaning here"),
    ] {
        assert_eq!(wrong(text), wanted, "{text}");
    }
}

#[test]
fn a_text_of_any_length_and_depth_is_read_or_refused() {
    let long = "a + ".repeat(100_000) + "1";
    assert_eq!(at(&long, [1.0; 3]), 100_001.0);
    assert_eq!(at(&format!("max({}b)", "a, ".repeat(10_000)), [1.0, 2.0, 0.0]), 2.0);
    for (open, close) in [("(", ")"), ("-", ""), ("abs(", ")"), ("2 ^ ", ""), ("not ", "")] {
        let nested = |levels| open.repeat(levels) + "a" + &close.repeat(levels);
        assert_eq!(wrong(&nested(50)), "", "{open}");
        assert!(wrong(&nested(100_000)).contains("nested more than 100 levels deep"), "{open}");
    }
    // No text causes a panic.
    let mut numbers = Numbers(1);
    let words = ["a", "b", "1", "1e", ".", "+", "-", "(", ")", ",", "<", "=", "if", "not", "min", "and", " ", "µ", "0"];
    for _ in 0..20_000 {
        let text: String = (0..numbers.below(12)).map(|_| words[numbers.below(words.len())]).collect();
        if let Ok(steps) = steps(&text) {
            Program::new(&steps).run(&[0.0, f64::NAN, -1.0]);
        }
    }
}

#[test]
fn parts_without_an_input_are_computed_beforehand() {
    let steps = |text| steps(text).unwrap().len();
    assert_eq!((steps("2 * (3 + 4) - min(1, 2, 3)"), steps("a + 2 * 3"), steps("2 * 3 + a")), (1, 3, 3));
    assert_eq!((steps("median(3, 1, 2) + vote(1, 2, 3) + sign(-2)"), steps("changed(1)")), (1, 2));
}

/// Pseudo-random numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn value(&mut self) -> Option<f64> {
        [None, Some(0.0), Some(1.0), Some(-1.0), Some(2.5), Some(-3.25), Some(1e200)][self.below(7)]
    }
}

/// Why there is no value: an input has none, or the arithmetic has no finite result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lack {
    Missing,
    NotFinite,
}

/// An expression as a tree, evaluated along its branches. It shares no code with the program.
enum Tree {
    Number(f64),
    Input(usize),
    Node { word: &'static str, branches: Vec<Self>, state: Option<f64> },
}

const INFIX: [(&str, u8); 14] = [
    ("or", 1),
    ("and", 2),
    ("<", 4),
    ("<=", 4),
    (">", 4),
    (">=", 4),
    ("==", 4),
    ("!=", 4),
    ("+", 5),
    ("-", 5),
    ("*", 6),
    ("/", 6),
    ("%", 6),
    ("^", 8),
];
const CALLS: [(&str, usize); 18] = [
    ("if", 3),
    ("clamp", 3),
    ("hysteresis", 3),
    ("min", 2),
    ("max", 4),
    ("abs", 1),
    ("sqrt", 1),
    ("floor", 1),
    ("negate", 1),
    ("not", 1),
    ("atan2", 2),
    ("sign", 1),
    ("good", 1),
    ("changed", 1),
    ("default", 2),
    ("median", 3),
    ("median", 4),
    ("vote", 5),
];

impl Tree {
    fn random(numbers: &mut Numbers, depth: usize) -> Self {
        let kind = if depth == 0 { numbers.below(3) } else { numbers.below(9) };
        let (word, count) = match kind {
            0 => return Self::Number([0.0, 1.0, 2.0, 0.5, 3.0][numbers.below(5)]),
            1 | 2 => return Self::Input(numbers.below(3)),
            3..=5 => (INFIX[numbers.below(INFIX.len())].0, 2),
            _ => CALLS[numbers.below(CALLS.len())],
        };
        let depth = if word == "good" { None } else { Some(depth - 1) };
        let branch = |numbers: &mut _| depth.map_or(Self::Input(1), |depth| Self::random(numbers, depth));
        let branches = (0..count).map(|_| branch(numbers)).collect();
        Self::Node { word, branches, state: None }
    }

    /// Its text, with no more brackets than needed, and its precedence.
    fn text(&self) -> (String, u8) {
        let Self::Node { word, branches, .. } = self else {
            return match self {
                Self::Input(input) => (NAMES[*input].into(), 9),
                Self::Number(number) => (number.to_string(), 9),
                Self::Node { .. } => unreachable!(),
            };
        };
        let bracketed = |branch: &Self, least: u8| {
            let (text, tightness) = branch.text();
            if tightness < least { format!("({text})") } else { text }
        };
        match INFIX.iter().find(|(sign, _)| sign == word) {
            Some((sign, tightness)) => {
                // An operand of the same precedence needs no brackets on the left; for powers, on the right; for comparisons, it always
                // does.
                let (left, right) = match tightness {
                    8 => (9, 7),
                    4 => (5, 5),
                    _ => (*tightness, tightness + 1),
                };
                let text = format!("{} {sign} {}", bracketed(&branches[0], left), bracketed(&branches[1], right));
                (text, *tightness)
            }
            None if *word == "negate" => (format!("-{}", bracketed(&branches[0], 7)), 7),
            None if *word == "not" => (format!("not {}", bracketed(&branches[0], 4)), 3),
            None => {
                let branches: Vec<_> = branches.iter().map(|branch| branch.text().0).collect();
                (format!("{word}({})", branches.join(",")), 9)
            }
        }
    }

    fn value(&mut self, inputs: [Option<f64>; 3]) -> Result<f64, Lack> {
        let (word, branches, state) = match self {
            Self::Number(number) => return Ok(*number),
            Self::Input(input) => return inputs[*input].ok_or(Lack::Missing),
            Self::Node { word, branches, state } => (*word, branches, state),
        };
        let operands: Vec<_> = branches.iter_mut().map(|branch| branch.value(inputs)).collect();
        let is = |truth: bool| if truth { 1.0 } else { 0.0 };
        let mut there: Vec<f64> = operands.iter().filter_map(|operand| operand.ok()).collect();
        // The functions that may do without an operand.
        match (word, &operands[..]) {
            ("if", [condition, yes, no]) => return if (*condition)? == 0.0 { *no } else { *yes },
            ("and", [Ok(0.0), _]) => return Ok(0.0),
            ("or", [Ok(left), _]) if *left != 0.0 => return Ok(1.0),
            ("good", [operand]) => return Ok(is(operand.is_ok())),
            ("default", _) if !there.is_empty() => return Ok(there[0]),
            ("vote", all) if 2 * there.len() > all.len() => (),
            (_, all) if all.contains(&Err(Lack::Missing)) => return Err(Lack::Missing),
            (_, all) if there.len() < all.len() => return Err(Lack::NotFinite),
            _ => (),
        }
        let x = there[0];
        let result = match (word, &there[..]) {
            ("min", _) => there.into_iter().reduce(f64::min).unwrap(),
            ("max", _) => there.into_iter().reduce(f64::max).unwrap(),
            ("abs", _) => x.abs(),
            ("sqrt", _) => x.sqrt(),
            ("floor", _) => x.floor(),
            ("negate", _) => -x,
            ("not", _) => is(x == 0.0),
            ("sign", _) => is(x > 0.0) - is(x < 0.0),
            ("changed", _) => is(state.replace(x).is_some_and(|last| last != x)),
            ("median" | "vote", _) => {
                there.sort_by(f64::total_cmp);
                let (low, high) = (there[(there.len() - 1) / 2], there[there.len() / 2]);
                low.midpoint(high)
            }
            ("clamp" | "hysteresis", [_, low, high]) if low > high => f64::NAN,
            ("clamp", [_, low, high]) => x.max(*low).min(*high),
            ("hysteresis", [_, low, high]) => {
                if x > *high {
                    *state = Some(1.0);
                } else if x < *low {
                    *state = None;
                }
                state.unwrap_or(0.0)
            }
            (_, &[a, b]) => match word {
                "<" => is(a < b),
                "<=" => is(a <= b),
                ">" => is(a > b),
                ">=" => is(a >= b),
                "==" => is(a == b),
                "!=" => is(a != b),
                "and" => is(a != 0.0 && b != 0.0),
                "or" => is(a != 0.0 || b != 0.0),
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                "%" => a % b,
                "^" => a.powf(b),
                "atan2" => a.atan2(b),
                _ => unreachable!("{word}"),
            },
            _ => unreachable!("{word}"),
        };
        if result.is_finite() { Ok(result) } else { Err(Lack::NotFinite) }
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Input(_) => false,
            Self::Node { word, branches, .. } => {
                !matches!(*word, "hysteresis" | "changed") && branches.iter().all(Self::is_constant)
            }
        }
    }

    /// Whether the parser must refuse it: a constant part has no value, or an operand can never work.
    fn is_refused(&mut self) -> bool {
        let fixed = |tree: &mut Self| if tree.is_constant() { tree.value([None; 3]).ok() } else { None };
        let constant = self.is_constant();
        if constant && self.value([None; 3]).is_err() {
            return true;
        }
        let Self::Node { word, branches, .. } = self else { return false };
        if branches.iter_mut().any(Self::is_refused) {
            return true;
        }
        let ends = branches.iter_mut().rev().take(2).map(fixed).collect::<Vec<_>>();
        match (*word, &ends[..]) {
            ("/" | "%", [Some(0.0), ..]) => true,
            ("clamp" | "hysteresis", [Some(high), Some(low)]) => low > high,
            _ => false,
        }
    }
}

#[test]
fn programs_compute_what_trees_do() {
    let (mut numbers, mut refused, mut missing, mut computed) = (Numbers(7), 0, 0, 0);
    for _ in 0..40_000 {
        let mut tree = Tree::random(&mut numbers, 4);
        let text = tree.text().0;
        let steps = match steps(&text) {
            Ok(steps) => steps,
            Err(wrong) => {
                assert!(tree.is_refused(), "{text}: {}", wrong.message(&text));
                refused += 1;
                continue;
            }
        };
        assert!(!tree.is_refused(), "{text}");
        let mut program = Program::new(&steps);
        for _ in 0..8 {
            let inputs = [(); 3].map(|()| numbers.value());
            let found = program.run(&inputs.map(|input| input.unwrap_or(f64::NAN)));
            match tree.value(inputs) {
                Ok(wanted) => {
                    assert_eq!(found, wanted, "{text} of {inputs:?}");
                    computed += 1;
                }
                Err(lack) => {
                    let wanted = if lack == Lack::Missing { f64::NAN } else { Reason::NotFinite.value() };
                    assert_eq!(found.to_bits(), wanted.to_bits(), "{text} of {inputs:?}: {found}");
                    missing += 1;
                }
            }
        }
    }
    assert!(refused > 500 && missing > 10_000 && computed > 10_000, "{refused}, {missing}, {computed}");
}

#[test]
fn a_task_sees_that_an_input_is_bad_without_going_bad_with_it() {
    let section = "inputs = { x = \"s.a\", y = \"s.b\", z = \"s.c\", k = 2 }\n\
        [[task.t.value]]\nname = \"good\"\nexpression = \"good(x)\"\n\
        [[task.t.value]]\nname = \"age\"\nexpression = \"age(x) + age(k)\"\n\
        [[task.t.value]]\nname = \"default\"\nexpression = \"default(x, 20)\"\n\
        [[task.t.value]]\nname = \"voted\"\nexpression = \"vote(x, y, z)\"\n\
        [[task.t.value]]\nname = \"high\"\nexpression = \"voted > 5 * good(k)\"\n\
        [[task.t.value]]\nname = \"inverse\"\nexpression = \"1 / (default(x, 0) * good(x))\"\n";
    use Quality::{Bad, Good, Held};
    let (inherited, not_finite) = (Bad(Reason::Inherited), Bad(Reason::NotFinite));
    let none = f64::NAN;
    let check = |found: Vec<(f64, Quality)>, wanted: [(f64, Quality); 6], at: &str| {
        assert!(
            found.iter().zip(&wanted).all(|(a, b)| a.1 == b.1 && (a.0 == b.0 || (a.0.is_nan() && b.0.is_nan()))),
            "{at}: {found:?}"
        );
    };
    let mut bench = Bench::new("expr", section, 0);
    let wanted = |first: [(f64, Quality); 3], rest: [(f64, Quality); 3]| {
        [first[0], first[1], first[2], rest[0], rest[1], rest[2]]
    };
    let before = [(0.0, Good), (none, Quality::None), (20.0, Good)];
    check(
        bench.tick(&[None, good(4.0), good(6.0)]),
        wanted(before, [(5.0, Good), (0.0, Good), (none, not_finite)]),
        "none came",
    );
    let all = [(1.0, Good), (0.0, Good), (8.0, Good)];
    check(
        bench.tick(&[good(8.0), good(4.0), good(6.0)]),
        wanted(all, [(6.0, Good), (1.0, Good), (0.125, Good)]),
        "all good",
    );
    // What is bad or has nothing new is as old as the last good value.
    let bad = |age| [(0.0, Good), (age, Good), (20.0, Good)];
    check(
        bench.tick(&[BAD, good(4.0), good(7.0)]),
        wanted(bad(1.0), [(5.5, Good), (1.0, Good), (none, not_finite)]),
        "x bad",
    );
    check(
        bench.tick(&[NOTHING, good(4.0), BAD]),
        wanted(bad(2.0), [(none, inherited), (none, inherited), (none, not_finite)]),
        "x new",
    );
    check(
        bench.tick(&[good(9.0), BAD, BAD]),
        wanted([(1.0, Good), (0.0, Good), (9.0, Good)], [(none, inherited), (none, inherited), (1.0 / 9.0, Good)]),
        "x only",
    );
    for age in [1.0, 2.0, 3.0] {
        let x = [(1.0, Good), (age, Good), (9.0, Good)];
        check(bench.tick(&[None, good(3.0), BAD]), wanted(x, [(6.0, Good), (1.0, Good), (1.0 / 9.0, Good)]), "x ages");
    }
    check(
        bench.tick(&[None, good(3.0), good(4.0)]),
        wanted(bad(4.0), [(3.5, Good), (0.0, Good), (none, not_finite)]),
        "x stale",
    );
    // Held values count as values, and make the task's values held.
    let mut bench = Bench::new("expr", section, 1);
    bench.tick(&[good(8.0), good(4.0), good(6.0)]);
    let held = [(1.0, Held), (1.0, Held), (8.0, Held)];
    check(bench.tick(&[BAD, good(4.0), good(6.0)]), wanted(held, [(6.0, Held), (1.0, Held), (0.125, Held)]), "x held");
    check(
        bench.tick(&[BAD, good(4.0), good(6.0)]),
        wanted(bad(2.0), [(5.0, Good), (0.0, Good), (none, not_finite)]),
        "x no longer held",
    );
}

#[test]
fn one_bad_input_makes_only_the_values_bad_that_it_decides() {
    let mut bench = Bench::new(
        "expr",
        "inputs = { x = \"s.a\", y = \"s.b\" }\n\
        [[task.t.value]]\nname = \"sum\"\nexpression = \"default(x, 1) + y\"\n\
        [[task.t.value]]\nname = \"ok\"\nexpression = \"good(x) and good(y)\"\n",
        0,
    );
    let inherited = Quality::Bad(Reason::Inherited);
    assert_eq!(bench.tick(&[BAD, good(2.0)]), [(3.0, Quality::Good), (0.0, Quality::Good)]);
    let [(sum, of_sum), ok] = bench.tick(&[good(1.0), BAD])[..] else { panic!() };
    assert!(sum.is_nan() && of_sum == inherited && ok == (0.0, Quality::Good), "{sum} {of_sum:?} {ok:?}");
    let [(sum, of_sum), ok] = bench.tick(&[good(1.0), NOTHING])[..] else { panic!() };
    assert!(sum.is_nan() && of_sum == Quality::None && ok == (0.0, Quality::Good), "{sum} {of_sum:?} {ok:?}");
    assert_eq!(bench.tick(&[good(1.0), good(2.0)]), [(3.0, Quality::Good), (1.0, Quality::Good)]);
}

#[test]
fn each_value_is_worth_what_decides_it() {
    let section = "inputs = { x = \"s.a\", y = \"s.b\" }\n\
        [[task.t.value]]\nname = \"own\"\nexpression = \"x\"\n\
        [[task.t.value]]\nname = \"despite\"\nexpression = \"default(y, 0) + x\"\n\
        [[task.t.value]]\nname = \"both\"\nexpression = \"y + x\"\n\
        [[task.t.value]]\nname = \"later\"\nexpression = \"2 * despite\"\n";
    use Quality::{Bad, Good, None};
    let inherited = Bad(Reason::Inherited);
    let mut bench = Bench::new("expr", section, 0);
    let mut worth = |rows: [Option<(f64, Quality)>; 2]| {
        bench.tick(&rows).into_iter().map(|(_, quality)| quality).collect::<Vec<_>>()
    };
    assert_eq!(worth([good(1.0), good(2.0)]), [Good; 4]);
    assert_eq!(worth([NOTHING, BAD]), [None, None, inherited, None]);
    assert_eq!(worth([NOTHING, good(2.0)]), [None; 4]);
    assert_eq!(worth([BAD, NOTHING]), [inherited; 4]);
    // A held input makes the other one no worse.
    let mut bench = Bench::new("expr", section, 9);
    let mut worth = |rows: [Option<(f64, Quality)>; 2]| {
        bench.tick(&rows).into_iter().map(|(_, quality)| quality).collect::<Vec<_>>()
    };
    assert_eq!(worth([NOTHING, good(2.0)]), [None; 4]);
    assert_eq!(worth([NOTHING, BAD]), [None; 4]);
}
