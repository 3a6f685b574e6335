//! The JSON schema accepts and rejects the same as `check`. The cases are the fixtures, every configuration in `config`, and every key of
//! every table with some fifty values each. The Python package `jsonschema-rs` does the validation.

use super::cases;
use crate::config::key::Needs;
use crate::config::{
    Config, Facts, Key, Kinds, Rule, TASK_KEYS, TASK_SIMULATE_KEYS, Value as Accepts, WORKER_KEYS,
    WORKER_SIMULATE_KEYS, schema,
};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Rules that only `check` enforces: a part of the message, and why a schema cannot express the rule.
const ONLY_CHECK: &[(&str, &str)] = &[
    ("this hertzd was built without MCAP", "a fact of the build"),
    ("this machine has CPUs", "a fact of the machine"),
    ("known workers:", "refers to the names of other tables"),
    ("no task runs on it", "refers to the names of other tables"),
    ("there is no task", "refers to the names of other tables"),
    ("is of kind ", "refers to the kinds of other tables"),
    ("at character ", "reads an expression"),
    ("at its end: ", "reads an expression"),
    ("is used by no value", "compares names with those in expressions"),
    ("below half the rate of the task", "compares two quantities with units"),
    ("must last at most", "adds quantities with units"),
    ("closes a cycle", "follows values through several tables"),
    ("cannot be a value of the tick before", "is a rule of some keys that take values, which have one type"),
    ("takes no value of another task", "depends on the values of other keys"),
    ("the task takes no \"", "depends on the values of other keys"),
    ("the lower end first", "compares two numbers"),
    ("all gains are zero", "compares the values of several keys"),
    ("has another sign than", "compares the values of several keys"),
    ("has no effect where kp is 0", "compares the values of several keys"),
    ("needs tracking-time", "compares the values of several keys"),
    ("must be below half the rate", "compares two quantities with units"),
    ("leaves no frequency to pass", "compares two quantities with units"),
    ("must be odd for a median", "depends on another key, and on whether a number is odd"),
    ("what the target takes", "computes with the values of other keys"),
    ("after scale and offset", "computes with the values of other keys"),
    ("records there too", "compares two tasks"),
    ("records to the same file", "compares two tasks"),
    ("another value of this task has this name", "compares one key of several tables"),
    ("two values would be called", "compares names that are derived from others"),
    ("the value name", "compares names that are derived from others"),
    ("one name for each of the", "compares the lengths of two lists"),
    ("must be longer than the task's period", "compares two quantities with units"),
    ("must be below one period", "compares two quantities with units"),
    ("must be at most the deadline", "compares two quantities with units"),
    ("to the shortest period", "compares two quantities with units"),
    ("of a CPU at the rates of its tasks", "compares two quantities with units"),
    ("its tails can take", "compares two quantities with units"),
    ("must hold four periods of the task", "compares two quantities with units"),
    ("must be at least a tick in 2.5 s", "compares two quantities with units"),
    ("must be at most 16 MB", "multiplies several keys"),
    ("must be a frame of at most", "multiplies the numbers in a text"),
    ("must be at least", "a range of quantities with units"),
    ("must be at most", "a range of quantities with units"),
    ("must be from", "a range of quantities with units"),
    ("must be above 0 (at least one tick in 24 hours)", "a range of quantities with units"),
    ("must be a whole number of hertz", "a range of quantities with units"),
    ("must be whole", "needs arithmetic on a quantity with units"),
    ("must be a whole number of bytes", "needs arithmetic on a quantity with units"),
    ("must be a fraction of numbers below", "needs arithmetic on a fraction"),
    ("the type's", "needs arithmetic on two keys"),
    ("a WAV file cannot be larger", "a range of quantities with units that depends on another key's ending"),
    ("for CSV without record-max-size", "depends on the ending of another key"),
    ("the output would swing ever wider", "the lower limit of a number"),
    ("or two for a plant of second order", "the most that a list of durations holds"),
    ("a plant needs ticks on a fixed grid", "depends on a key of the table around another"),
    ("invalid type", "serde knows the fields of a user's kind, but not their types"),
    ("missing field", "serde knows the fields of a user's kind, but not which are required"),
];

const VALIDATOR: &str = "
import json, sys
from jsonschema_rs import Draft202012Validator as V
schema, instances = json.load(sys.stdin)
v = V(schema)
print(json.dumps([next((e.message[:300] for e in v.iter_errors(i)), None) for i in instances]))
";

/// The schema's error for each instance; `None` if the package is not installed.
fn refusals(schema: &Value, instances: &[Value]) -> Option<Vec<Option<String>>> {
    let mut python = Command::new("python3");
    python.args(["-c", VALIDATOR]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let installed = Command::new("python3").args(["-c", "import jsonschema_rs"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        crate::sys::emulation::say_skipped("python3 has no package jsonschema-rs");
        return None;
    }
    let mut child = python.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    serde_json::to_writer(&mut input, &json!([schema, instances])).unwrap();
    input.flush().unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Validates each configuration both ways and asserts that the verdicts agree, except for known reasons. Returns how many both rejected.
fn compare(configurations: &[String]) -> Option<usize> {
    let (kinds, facts) = (Kinds::builtin(), Facts { online_cpus: (0..8).collect(), cpu_set_size: 1024 });
    // Skips text that is not TOML, and values that JSON cannot hold (numbers of more than 64 bits, NaN, infinity).
    let as_json = |text: &String| toml::from_str::<Value>(text).ok().filter(|_| !text.contains("nan"));
    let all: Vec<_> = configurations.iter().filter_map(|text| Some((text, as_json(text)?))).collect();
    let instances: Vec<_> = all.iter().map(|(_, instance)| instance.clone()).collect();
    let verdicts = refusals(&schema(&kinds), &instances)?;
    let (mut refused, mut differing) = (0, Vec::new());
    for ((text, _), refusal) in all.iter().zip(verdicts) {
        let checked = Config::parse(text, "case.toml", &kinds, &facts);
        match (checked, refusal) {
            (Ok(_), None) => (),
            (Err(_), Some(_)) => refused += 1,
            (Ok(_), Some(refusal)) => differing.push(format!("{text}\nonly the schema refuses it: {refusal}\n")),
            (Err(problems), None) => {
                let excused = |message: &str| {
                    is_whole_float(message) || ONLY_CHECK.iter().any(|(part, _)| message.contains(part))
                };
                if let Some(problem) = problems.iter().find(|problem| !excused(&problem.message)) {
                    differing.push(format!("{text}\nonly check refuses it: {}\n", problem.message));
                }
            }
        }
    }
    let shown: Vec<_> = differing.iter().take(25).map(String::as_str).collect();
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), shown.join("\n"));
    Some(refused)
}

/// Whether the message is about a value such as `1.0`, which counts as an integer in JSON.
fn is_whole_float(message: &str) -> bool {
    let found = message.split_once(" = ").and_then(|(_, rest)| rest.split_once(';'));
    let float = found.and_then(|(found, _)| found.parse::<f64>().ok().filter(|_| found.contains(['.', 'e'])));
    float.is_some_and(|float| float.fract() == 0.0)
}

#[test]
fn fixtures_and_examples() {
    let kinds = Kinds::builtin();
    let folders = ["accepted", "refused"];
    let of =
        |folder: &'static str| cases::topics(folder).into_iter().flat_map(move |topic| cases::read(folder, &topic));
    // The cases use kinds defined by the tests; `load` can replace them.
    let of_load = |toml: String| toml.replace("\"count\"", "\"load\"").replace("step =", "fault-every =");
    let mut texts: Vec<_> = folders.into_iter().flat_map(of).map(|case| of_load(case.toml)).collect();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    texts.retain(|text| !kinds.left_out().any(|kind| text.contains(&format!("kind = \"{kind}\""))));
    let Some(refused) = compare(&texts) else { return };
    assert!(refused > 80, "only {refused} refused by both");
}

#[test]
fn the_schema_accepts_valid_values() {
    let (kinds, facts) = (Kinds::builtin(), Facts { online_cpus: vec![0, 1], cpu_set_size: 1024 });
    for case in cases::topics("accepted").iter().flat_map(|topic| cases::read("accepted", topic)) {
        let left_out = kinds.left_out().any(|kind| case.toml.contains(&format!("kind = \"{kind}\"")));
        if left_out || !cfg!(feature = "mcap") && case.toml.contains(".mcap") {
            crate::sys::emulation::say_skipped(&format!("{}, which this build was made without", case.name));
            continue;
        }
        Config::parse(&case.toml, &case.name, &kinds, &facts).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

/// Values of every type, at and beyond the ends of ranges.
const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3",
    "33",
    "64",
    "65",
    "99",
    "100",
    "119",
    "120",
    "256",
    "1000",
    "1024",
    "1025",
    "100000",
    "1000000",
    "1000001",
    "4294967295",
    "4294967296",
    "0.0",
    "0.5",
    "-0.5",
    "1.0",
    "29.97",
    "1e-9",
    "1e300",
    "true",
    "false",
    "''",
    "' '",
    "'0'",
    "'x'",
    "'a/b'",
    "'.'",
    "'5'",
    "'5us'",
    "'0us'",
    "'0.0 s'",
    "' 5 ms '",
    "'1h'",
    "'-5us'",
    "'5 parsecs'",
    "'60 Hz'",
    "'0 Hz'",
    "'30000/1001'",
    "'1/0'",
    "'1e3'",
    "'5%'",
    "'0%'",
    "'.0%'",
    "'50.0 %'",
    "'51%'",
    "'5.%'",
    "'100 MB'",
    "'0 B'",
    "'1 PB'",
    "'off'",
    "'auto'",
    "'main'",
    "'x.csv'",
    "'x.flac'",
    "'tick'",
    "'YUYV'",
    "'YUYV2'",
    "'640x480'",
    "'0x480'",
    "'640x65537'",
    "[]",
    "[0]",
    "[1, 0]",
    "[0, 0]",
    "[-1]",
    "['x']",
    "['x', 'x']",
    "['']",
    "['1ms', '0s']",
    "['1ms', 2]",
    "[[1, 2]]",
    "[[]]",
    "[[256]]",
    "[0.5]",
    "{}",
    "{ run = '1ms' }",
    "1979-05-27",
];

#[test]
fn every_key_with_values_of_every_type() {
    let kinds = Kinds::builtin();
    let mut texts = Vec::new();
    let worker = |line: &str| format!("[worker.main]\n{line}[task.a]\nkind = 'load'\nrate = 10\n");
    each(WORKER_KEYS, &[], &mut |lines| texts.push(worker(lines)));
    each(WORKER_SIMULATE_KEYS, &[], &mut |lines| texts.push(worker(&format!("simulate = {{ {} }}\n", lines.trim()))));
    let task = |lines: &str| format!("[task.a]\nkind = 'load'\n{}{lines}", with_rate(lines));
    each(&TASK_KEYS[1..], &[], &mut |lines| texts.push(task(lines)));
    each(TASK_SIMULATE_KEYS, &[], &mut |lines| texts.push(task(&format!("simulate = {{ {} }}\n", lines.trim()))));
    for kind in kinds.iter() {
        let required = |keys: &[Key]| {
            let required = keys.iter().filter(|key| key.default_text().starts_with("required"));
            // Only keys that the sample values of the other keys make necessary.
            let called_for = |rule: &Rule| match rule.needs {
                Needs::With(_) => false,
                Needs::Is(name, words) => {
                    keys.iter().any(|key| key.name == name && words.contains(&sample(&key.value).trim_matches('\'')))
                }
                _ => true,
            };
            let required = required.filter(|key| key.rules.iter().all(called_for));
            required.map(|key| (key.name, sample(&key.value))).collect::<Vec<_>>()
        };
        let head = format!("[task.a]\nkind = '{}'\nrate = 10\n", kind.name);
        let outer = required(&kind.keys);
        each(&kind.keys, &outer, &mut |lines| texts.push(head.clone() + lines));
        for key in kind.keys.iter() {
            let Accepts::Tables(inner) = key.value else { continue };
            let outer: Vec<_> = outer.iter().filter(|(name, _)| !inner.iter().any(|key| key.name == *name)).collect();
            let outer: String = outer.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
            let table = format!("{head}{outer}[[task.a.{}]]\n", key.name);
            each(inner, &required(inner), &mut |lines| texts.push(format!("{table}{lines}")));
        }
    }
    let Some(refused) = compare(&texts) else { return };
    assert!(refused > 1_000, "only {refused} of {} refused by both", texts.len());
}

/// Every key of the table with every value, together with the table's required keys: alone, and with the keys that its rules require.
fn each(keys: &[Key], required: &[(&str, String)], to: &mut dyn FnMut(&str)) {
    for key in keys {
        let beside = |others: &[(&str, String)]| {
            let others =
                required.iter().filter(|(name, _)| !others.iter().any(|(other, _)| other == name)).chain(others);
            let others = others.filter(|(name, _)| *name != key.name);
            others.map(|(name, value)| format!("{name} = {value}\n")).collect::<String>()
        };
        let needed: Vec<_> = key.rules.iter().filter_map(|rule| needed(rule, keys)).collect();
        for value in VALUES.iter().map(|value| (*value).to_owned()).chain(ends(key)) {
            to(&format!("{}{} = {value}\n", beside(&[]), key.name));
            if !needed.is_empty() {
                to(&format!("{}{} = {value}\n", beside(&needed), key.name));
            }
        }
    }
}

/// The ends of a key's range and values just outside; for a choice, its words and one unknown word.
fn ends(key: &Key) -> Vec<String> {
    match key.value {
        Accepts::Integer { min, max } | Accepts::NumberOrName { min, max } | Accepts::Integers { min, max, .. } => {
            [min - 1, min, max, max.saturating_add(1)].map(|end| end.to_string()).to_vec()
        }
        Accepts::Choice(words) => words.iter().copied().chain(["x"]).map(|word| format!("'{word}'")).collect(),
        _ => Vec::new(),
    }
}

/// A line that a rule requires.
fn needed<'a>(rule: &Rule, keys: &'a [Key]) -> Option<(&'a str, String)> {
    let (name, value) = match rule.needs {
        Needs::With(others) => (others[0], None),
        Needs::Is(other, words) => (other, Some(format!("'{}'", words[0]))),
        Needs::On(other) => (other, Some("true".to_owned())),
        _ => return None,
    };
    let key = keys.iter().find(|key| key.name == name)?;
    Some((key.name, value.unwrap_or_else(|| sample(&key.value))))
}

/// A value that a key accepts.
fn sample(value: &Accepts) -> String {
    match value {
        Accepts::Integer { min, .. } | Accepts::NumberOrName { min, .. } | Accepts::Integers { min, .. } => {
            min.to_string()
        }
        Accepts::NumbersOrNames { .. } | Accepts::Texts | Accepts::Command => "['x']".to_owned(),
        Accepts::Choice(words) => format!("'{}'", words[0]),
        Accepts::Path => "'x.csv'".to_owned(),
        Accepts::Rate | Accepts::Input => "1".to_owned(),
        Accepts::Format { .. } => "'640x480'".to_owned(),
        Accepts::Inputs => "{ x = 1 }".to_owned(),
        _ => "'x'".to_owned(),
    }
}

/// A rate, unless `lines` sets one.
fn with_rate(lines: &str) -> &'static str {
    if lines.contains("rate = ") || lines.contains("period = ") { "" } else { "rate = 10\n" }
}
