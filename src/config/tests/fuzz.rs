//! Reading a configuration never panics, no matter its text, and every problem points to a position in that text.

use crate::config::{Blueprint, BuildError, Kind, Kinds};
use crate::config::{Config, Facts, Section, Value};
use crate::config::{Key, TASK_KEYS, WORKER_KEYS};
use proptest::collection::vec;
use proptest::prelude::*;

const VALID: &str = r#"
[worker.main]
cpus = [0, 1]
policy = "rr"
priority = 80
spin = "auto"
spin-cpu-max = "5%"
clock = "tai"
simulate.oversleep = ["60us", "0s"]

[worker.edf]
policy = "deadline"
runtime = "1ms"

[task.imu]
kind = "any"
worker = "main"
rate = "30000/1001 Hz"
phase = "250us"
overrun = "catch-up"
max-catch-up = 4
budget = "1.5ms"
record = "größe/µ.csv" # a letter of two bytes
number = -1.5e3
text = """
on two lines"""

[task.log]
kind = "any"
worker = "edf"
period = "2.5ms"
overrun = "credit"
max-debt = "1s"
[task.log.simulate]
run = ["18ms", "3 ms"]
"#;

/// Tokens of TOML and of a configuration, both valid and invalid.
const TOKENS: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\"",
    "'",
    "\"\"\"",
    "#",
    " ",
    "\t",
    "\\",
    "\\u00",
    "true",
    "nan",
    "inf",
    "-inf",
    "0",
    "-0",
    "1e300",
    "1e-300",
    "0x7fffffffffffffff",
    "99999999999999999999",
    "1_0",
    "1979-05-27T07:32:00Z",
    "07:32",
    "µ",
    "日",
    "\u{feff}",
    "\u{0}",
    "\u{1b}",
    "\u{202e}",
    "\"1e300 Hz\"",
    "\"1/0\"",
    "\"18446744073709551615s\"",
    "\"584942417355h\"",
    "\"0.0000000000000000001s\"",
    "\"250us\"",
    "\"9%\"",
    "\"off\"",
    "task",
    "worker",
    "[task.a]\n",
    "[task.imu.simulate]\n",
    "[worker.b]\n",
    "kind = \"any\"\n",
    "rate = 1\n",
    "simulate",
];

fn kinds() -> Kinds {
    const KEYS: &[Key] = &[
        Key::new("number", Value::Number, ""),
        Key::new("text", Value::Text, ""),
        Key::new("list", Value::Durations, ""),
        Key::new("integer", Value::Integer { min: -5, max: i64::MAX }, ""),
    ];
    Kinds::empty().add(Kind::new("any", "", KEYS, |section: &mut Section<'_>| {
        let (_, _, _) = (section.number(&KEYS[0]), section.text(&KEYS[1]), section.durations(&KEYS[2]));
        let (_, _) = (section.integer::<i64>(&KEYS[3]), section.path(&KEYS[1]));
        Some(Blueprint::new(|_| Err(BuildError { key: "kind", message: "only read".to_owned() })))
    }))
}

fn read(bytes: &[u8]) -> Result<(), TestCaseError> {
    let facts = Facts { online_cpus: vec![0, 1], cpu_set_size: 1024 };
    match Config::parse(bytes, "fuzz.toml", &kinds(), &facts) {
        Ok(config) => {
            prop_assert!(!config.workers.is_empty() && !config.tasks.is_empty());
            prop_assert!(config.tasks.iter().all(|task| task.worker < config.workers.len()));
            prop_assert!(config.tasks.iter().all(|task| task.phase < task.rate.period()));
            prop_assert!(config.tasks.iter().all(|task| task.budget.is_none_or(|budget| budget <= task.deadline)));
        }
        Err(problems) => {
            prop_assert!(problems.iter().next().is_some());
            for problem in problems.iter() {
                let span = problem.span.clone().unwrap_or_default();
                prop_assert!(problems.text().get(span).is_some(), "{problem:?}");
                prop_assert!(!problem.message.chars().any(char::is_control), "{problem:?}");
            }
            prop_assert!(problems.to_string().ends_with("nothing was started"));
            prop_assert!(!problems.render(true).is_empty());
        }
    }
    Ok(())
}

/// One change: the position, the length to replace, and the new bytes.
fn change() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    let token = prop::sample::select(TOKENS).prop_map(|token| token.as_bytes().to_vec());
    let piece = (0..VALID.len(), 0..40_usize)
        .prop_map(|(at, length)| VALID.as_bytes()[at..(at + length).min(VALID.len())].to_vec());
    let text = prop_oneof![4 => token, 2 => piece, 1 => vec(any::<u8>(), 0..4), 1 => Just(Vec::new())];
    (0..VALID.len() + 40, prop_oneof![Just(0), Just(1), 0..30_usize], text)
}

fn key_line() -> impl Strategy<Value = String> {
    let names: Vec<&str> = WORKER_KEYS.iter().chain(TASK_KEYS).map(|key| key.name).collect();
    (prop::sample::select(names), prop::sample::select(TOKENS)).prop_map(|(name, value)| format!("{name} = {value}\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_text_with_random_changes(changes in vec(change(), 1..5)) {
        let mut bytes = VALID.as_bytes().to_vec();
        for (at, length, text) in changes {
            let at = at.min(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, text);
        }
        read(&bytes)?;
    }

    #[test]
    fn random_tokens(tokens in vec(prop::sample::select(TOKENS), 0..40)) {
        read(tokens.concat().as_bytes())?;
    }

    #[test]
    fn random_keys_with_random_values(
        worker in vec(key_line(), 0..6),
        task in vec(key_line(), 0..8),
    ) {
        read(format!("[worker.w]\n{}[task.t]\nkind = \"any\"\n{}", worker.concat(), task.concat()).as_bytes())?;
    }

    #[test]
    fn random_texts_as_values(text in "[-+0-9a-zA-Z./%_ µμe]{0,24}", key in key_line()) {
        let name = key.split(' ').next().unwrap_or_default();
        read(format!("[worker.w]\nspin = \"{text}\"\n[task.t]\nkind = \"any\"\n{name} = \"{text}\"\n").as_bytes())?;
    }

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..200)) {
        read(&bytes)?;
    }
}

#[test]
fn the_unchanged_text_is_valid() {
    let facts = Facts { online_cpus: vec![0, 1], cpu_set_size: 1024 };
    Config::parse(VALID, "fuzz.toml", &kinds(), &facts).unwrap_or_else(|problems| panic!("{problems}"));
}

#[test]
fn deep_nesting_and_long_keys_terminate() {
    for text in ["a = ".to_owned() + &"[".repeat(100_000), "a.".repeat(50_000), "[".repeat(100_000), "{".repeat(9_999)]
    {
        read(text.as_bytes()).unwrap();
    }
}
