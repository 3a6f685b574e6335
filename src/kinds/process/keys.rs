//! The keys of the kind `process`, and how a section becomes a task. Pure: it does not look for the program.

use super::settings::ProgramSettings;
use super::{COUNTS, columns, look, start};
use crate::config::{Blueprint, Key, Kind, Preview, Section, Value};
use crate::kinds::device::FIRST_VALUE;
use crate::site::Site;
use crate::task::{Column, Input};
use serde_json::json;
use std::collections::BTreeSet;

/// The most inputs and the most values of a task. Many frames of that size fit into a socket.
const MOST: usize = 512;

const COMMAND: Key = Key::new(
    "command",
    Value::Command,
    "The program and its arguments: `[\"python3\", \"client.py\"]`. It is looked for in the folders of `PATH`, unless it has a slash. No shell \
     reads it.",
)
.required("write the program and its arguments, such as [\"python3\", \"client.py\"]");
const INPUTS: Key = Key::new(
    "inputs",
    Value::Inputs,
    "What the program gets at each tick, each by the name that it has there: `{ speed = \"motor.speed\", gain = 2 }`.",
);
const VALUE: Key = Key::new(
    "value",
    Value::Tables(VALUE_KEYS),
    "The values that the program gives back, each in a table of its own; a frame has them in this order.",
)
.otherwise("it gives none back");
const NAME: Key =
    Key::new("name", Value::ValueName, "Name of the value in every output.").required("say what the value is called");
const UNIT: Key = Key::new("unit", Value::Text, "Unit of the value; empty for a plain number.").default("\"\"");
const CWD: Key = Key::new("cwd", Value::Path, "The folder that the program runs in.").otherwise("that of hertzd");
const ENV: Key = Key::new(
    "env",
    Value::Texts,
    "What the program finds in its environment beside, or in place of, what hertzd has in its own: `[\"NAME=VALUE\"]`.",
)
.otherwise("that of hertzd alone");
const MEMORY_LIMIT: Key = Key::new(
    "memory-limit",
    Value::Size { min: 8_000_000 },
    "Most address space that the program may have (RLIMIT_AS): beyond it, it gets no more memory. Each of its children has the same limit.",
)
.otherwise("no limit");
const CPU_LIMIT: Key = Key::new(
    "cpu-limit",
    Value::Positive,
    "Most processor time that the program may use, as a share of one CPU: `0.5`. Once it has used more, it is stopped (SIGSTOP) until it has \
     not. What children of it use is not counted.",
)
.otherwise("no limit");

const KEYS: &[Key] = &[COMMAND, INPUTS, VALUE, CWD, ENV, MEMORY_LIMIT, CPU_LIMIT];
const VALUE_KEYS: &[Key] = &[NAME, UNIT];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    let about =
        "Runs a program in any language, which gets every tick with its inputs and gives values back one tick later.";
    let name = json!({"not": {"enum": COUNTS}});
    Kind::new("process", about, KEYS, parse).also(json!({"properties": {
        "env": {"items": {"pattern": r"^[^=\x00]+=[^\x00]*$"}},
        "inputs": {"maxProperties": MOST},
        "value": {"maxItems": MOST, "items": {"properties": {"name": name}}},
    }}))
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let command = section.command(&COMMAND);
    let inputs = inputs(section);
    let values = values(section);
    let environment = environment(section);
    let (folder, memory, cpu) = (section.path(&CWD), section.size(&MEMORY_LIMIT), section.number(&CPU_LIMIT));
    let (names, inputs): (Vec<String>, Vec<Input>) = inputs?.into_iter().unzip();
    let period = section.period()?;
    let settings = ProgramSettings {
        task: section.name().trim_start_matches("task.").to_owned(),
        command: command?,
        folder,
        environment: environment?,
        memory,
        cpu,
        period,
        max_missed: section.max_missed(),
        inputs: names,
        values: values?,
    };
    let (seen, shadow) = (settings.clone(), section.is_shadow());
    let preview = move |_: &mut Site| {
        let warnings = if shadow { vec![] } else { look(&seen)? };
        Ok(Preview { columns: Some(columns(&seen)), warnings, ..Preview::default() })
    };
    let columns_of = columns(&settings);
    let blueprint = Blueprint::new(move |site| start(site, settings, inputs, shadow)).looking(preview);
    Some(blueprint.with_columns(columns_of).holding(period).first_value_within(FIRST_VALUE)) // answers are one tick old when they arrive
}

/// The program receives the quality of each input and decides itself what to do without a good one.
fn inputs(section: &mut Section<'_>) -> Option<Vec<(String, Input)>> {
    if !section.has(&INPUTS) {
        return Some(Vec::new());
    }
    let inputs = section.inputs(&INPUTS)?;
    if inputs.len() > MOST {
        section.problem(&INPUTS, format!("must be at most {MOST} inputs"));
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    for (name, _) in &inputs {
        if !(1..=64).contains(&name.len()) || !name.chars().all(plain) {
            section.problem(&INPUTS, format!("the name {name:?} must have 1 to 64 letters, digits, `-` and `_`"));
        }
    }
    Some(inputs.into_iter().map(|(name, input)| (name, input.spared())).collect())
}

fn values(section: &mut Section<'_>) -> Option<Vec<Column>> {
    let tables = section.tables(&VALUE);
    let (count, mut names) = (tables.len(), BTreeSet::new());
    let mut values = Vec::with_capacity(count);
    for mut table in tables {
        let (name, unit) = (table.text(&NAME), table.text(&UNIT));
        if let (Some(name), Some(unit)) = (name, unit) {
            if COUNTS.contains(&name.as_str()) {
                table.problem(&NAME, "every task of this kind has a value of this name; choose another");
            } else if !names.insert(name.clone()) {
                table.problem(&NAME, "another value of this task has this name");
            }
            values.push(Column { name, unit });
        }
        section.absorb(table);
    }
    if count > MOST {
        section.problem(&VALUE, format!("must be at most {MOST} values"));
    }
    let wrong = section.has(&VALUE) && count == 0;
    (!wrong && values.len() == count).then_some(values)
}

fn environment(section: &mut Section<'_>) -> Option<Vec<(String, String)>> {
    if !section.has(&ENV) {
        return Some(Vec::new());
    }
    let texts = section.texts(&ENV)?;
    let mut all = Vec::with_capacity(texts.len());
    for text in &texts {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
                all.push((name.to_owned(), value.to_owned()));
            }
            _ => section.problem(&ENV, format!("must be texts such as \"NAME=VALUE\", and {text:?} is none")),
        }
    }
    (all.len() == texts.len()).then_some(all)
}
