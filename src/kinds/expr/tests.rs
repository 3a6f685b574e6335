use super::parse::parse;
use super::program::Program;

const NAMES: [&str; 3] = ["a", "b", "speed"];

fn program(text: &str) -> Program {
    Program::new(
        &parse(text, &NAMES, &mut [false; 3]).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.message(text))),
    )
}

fn wrong(text: &str) -> String {
    parse(text, &NAMES, &mut [false; 3]).map(|_| String::new()).unwrap_or_else(|wrong| wrong.message(text))
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
    ] {
        assert!(at(text, inputs).is_nan(), "{text} of {inputs:?}");
    }
    // Operands that do not matter may be missing.
    for (text, wanted) in
        [("if(a != 0, 1 / a, 7)", 7.0), ("a != 0 and 1 / a > 2", 0.0), ("a == 0 or 1 / a > 2", 1.0), ("a * 3", 0.0)]
    {
        assert_eq!(at(text, [0.0, f64::NAN, f64::NAN]), wanted, "{text}");
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
        if let Ok(steps) = parse(&text, &NAMES, &mut [false; 3]) {
            Program::new(&steps).run(&[0.0, f64::NAN, -1.0]);
        }
    }
}

#[test]
fn parts_without_an_input_are_computed_beforehand() {
    let steps = |text| parse(text, &NAMES, &mut [false; 3]).unwrap().len();
    assert_eq!((steps("2 * (3 + 4) - min(1, 2, 3)"), steps("a + 2 * 3"), steps("2 * 3 + a")), (1, 3, 3));
    let mut taken = [false; 3];
    parse("speed * 2 + speed", &NAMES, &mut taken).unwrap();
    assert_eq!(taken, [false, false, true]);
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

/// An expression as a tree, evaluated along its branches, with `None` for missing values. It shares no code with the program.
enum Tree {
    Number(f64),
    Input(usize),
    Node { word: &'static str, branches: Vec<Self>, state: bool },
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
const CALLS: [(&str, usize); 11] = [
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
        let branches = (0..count).map(|_| Self::random(numbers, depth - 1)).collect();
        Self::Node { word, branches, state: false }
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

    fn value(&mut self, inputs: [Option<f64>; 3]) -> Option<f64> {
        let (word, branches, state) = match self {
            Self::Number(number) => return Some(*number),
            Self::Input(input) => return inputs[*input],
            Self::Node { word, branches, state } => (*word, branches, state),
        };
        let operands: Vec<_> = branches.iter_mut().map(|branch| branch.value(inputs)).collect();
        let is = |truth: bool| Some(if truth { 1.0 } else { 0.0 });
        let result = match word {
            "if" => {
                if operands[0]? != 0.0 {
                    operands[1]
                } else {
                    operands[2]
                }
            }
            "and" => {
                if operands[0]? == 0.0 {
                    Some(0.0)
                } else {
                    is(operands[1]? != 0.0)
                }
            }
            "or" => {
                if operands[0]? != 0.0 {
                    Some(1.0)
                } else {
                    is(operands[1]? != 0.0)
                }
            }
            "min" => Some(operands[0]?.min(operands[1]?)),
            "max" => operands.into_iter().try_fold(f64::NEG_INFINITY, |most, next| Some(next?.max(most))),
            "abs" => Some(operands[0]?.abs()),
            "sqrt" => Some(operands[0]?.sqrt()),
            "floor" => Some(operands[0]?.floor()),
            "negate" => Some(-operands[0]?),
            "not" => is(operands[0]? == 0.0),
            "clamp" if operands[1]? > operands[2]? => None,
            "clamp" => Some(operands[0]?.max(operands[1]?).min(operands[2]?)),
            "hysteresis" if operands[1]? > operands[2]? => None,
            "hysteresis" => {
                let x = operands[0]?;
                if x > operands[2]? {
                    *state = true;
                } else if x < operands[1]? {
                    *state = false;
                }
                is(*state)
            }
            _ => {
                let (a, b) = (operands[0]?, operands[1]?);
                match word {
                    "<" => is(a < b),
                    "<=" => is(a <= b),
                    ">" => is(a > b),
                    ">=" => is(a >= b),
                    "==" => is(a == b),
                    "!=" => is(a != b),
                    "+" => Some(a + b),
                    "-" => Some(a - b),
                    "*" => Some(a * b),
                    "/" => Some(a / b),
                    "%" => Some(a % b),
                    "^" => Some(a.powf(b)),
                    "atan2" => Some(a.atan2(b)),
                    _ => unreachable!("{word}"),
                }
            }
        };
        result.filter(|result| result.is_finite())
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Input(_) => false,
            Self::Node { word, branches, .. } => *word != "hysteresis" && branches.iter().all(Self::is_constant),
        }
    }

    /// Whether the parser must refuse it: a constant part has no value, or an operand can never work.
    fn is_refused(&mut self) -> bool {
        let fixed = |tree: &mut Self| if tree.is_constant() { tree.value([None; 3]) } else { None };
        let constant = self.is_constant();
        if constant && self.value([None; 3]).is_none() {
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
    for _ in 0..20_000 {
        let mut tree = Tree::random(&mut numbers, 4);
        let text = tree.text().0;
        let steps = match parse(&text, &NAMES, &mut [false; 3]) {
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
                Some(wanted) => {
                    assert_eq!(found, wanted, "{text} of {inputs:?}");
                    computed += 1;
                }
                None => {
                    assert!(found.is_nan(), "{text} of {inputs:?}: {found}");
                    missing += 1;
                }
            }
        }
    }
    assert!(refused > 500 && missing > 10_000 && computed > 10_000, "{refused}, {missing}, {computed}");
}
