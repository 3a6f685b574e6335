//! The keys of the kind `expr`, and how a section becomes a task. Pure.

use super::Expr;
use super::parse::{Names, parse, reserved};
use super::program::{Program, Step};
use super::tokens::is_name;
use crate::config::{Blueprint, Key, Kind, Preview, Rule, Section, Value};
use crate::site::Site;
use crate::task::{Column, Input};
use serde_json::json;

const INPUTS: Key = Key::new(
    "inputs",
    Value::Inputs,
    "What the expressions take, each by the name that they have for it: `{ speed = \"motor.speed\", gain = 2 }`.",
)
.required("name what the expressions take, such as { speed = \"motor.speed\" }");
const EXPRESSION: Key =
    Key::new("expression", Value::Name, "What is computed at each tick, such as `\"max(left, right) - 2 * offset\"`.");
/// Rules for the keys of a single value in the task's own table.
const ONE_VALUE: &[Rule] = &[Rule::without(&["value"]).advice("write it in the tables of the values")];
const NAME: Key = Key::new("name", Value::ValueName, "Name of the value in every output.");
const UNIT: Key = Key::new("unit", Value::Text, "Unit of the value; empty for a plain number.").default("\"\"");
const VALUE: Key =
    Key::new("value", Value::Tables(VALUE_KEYS), "Several values in one tick, each in a table of its own.")
        .otherwise("one, by the keys above");

const KEYS: &[Key] = &[
    INPUTS,
    EXPRESSION.required_unless(&["value"], "say what to compute, such as \"2 * speed\"").rules(ONE_VALUE),
    NAME.default("\"out\"").rules(ONE_VALUE),
    UNIT.rules(ONE_VALUE),
    VALUE,
];

const VALUE_KEYS: &[Key] = &[
    NAME.required("say what the value is called"),
    UNIT,
    EXPRESSION.required("say what to compute, such as \"2 * speed\""),
];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    let names = json!({"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "not": {"enum": reserved().collect::<Vec<_>>()}});
    Kind::new(
        "expr",
        "Computes values from those of other tasks: arithmetic, comparisons, limits, hysteresis.",
        KEYS,
        section_to_task,
    )
    .also(json!({"properties": {"inputs": {"propertyNames": names}}}))
}

/// A value with its compiled expression.
struct Computed {
    column: Column,
    steps: Vec<Step>,
}

fn section_to_task(section: &mut Section<'_>) -> Option<Blueprint> {
    let inputs = section.inputs(&INPUTS);
    let inputs: Vec<(String, Input)> = inputs?;
    let names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let mut uses = vec![false; names.len()];
    let named = refuse_names(section, &names);
    let values = match section.has(&VALUE) {
        true => several(section, &names, &mut uses),
        false => {
            let name = section.text(&NAME.default("\"out\""));
            let values = name.as_deref();
            one(section, name.clone(), Names { inputs: &names, values: values.as_slice(), own: 0 }, &mut uses)
                .map(|value| vec![value])
        }
    };
    let values = values.filter(|_| named)?;
    for (name, _) in names.iter().zip(&uses).filter(|(_, used)| !**used) {
        section.problem(&INPUTS, format!("{name} is used by no value; remove it"));
    }
    let columns: Vec<Column> = values.iter().map(|value| value.column.clone()).collect();
    // Each value is bad only if an input that decides it is.
    let inputs: Vec<Input> = inputs.into_iter().map(|(_, input)| input.spared()).collect();
    let build = move |_: &mut Site| {
        let program = |Computed { column, steps }: Computed| (column, Program::new(&steps));
        Ok(Expr::new(inputs, values.into_iter().map(program).collect()).into())
    };
    Some(
        Blueprint::new(build)
            .looking(move |_| Ok(Preview { columns: Some(columns), ..Preview::default() }))
            .computing(),
    )
}

fn refuse_names(section: &mut Section<'_>, names: &[&str]) -> bool {
    let mut good = true;
    for name in names {
        let why = match reserved().any(|word| word == *name) {
            true => "means something else in an expression",
            false if is_name(name) => continue,
            false => "cannot be named in an expression: write letters, digits and _, and no digit first",
        };
        section.problem(&INPUTS, format!("the name {name:?} {why}"));
        good = false;
    }
    good
}

fn several(section: &mut Section<'_>, inputs: &[&str], uses: &mut [bool]) -> Option<Vec<Computed>> {
    let mut tables = section.tables(&VALUE);
    let written: Vec<_> = tables.iter_mut().map(|table| table.text(&NAME.default("\"out\""))).collect();
    let names: Vec<&str> = written.iter().map(|name| name.as_deref().unwrap_or_default()).collect();
    let (count, mut values) = (tables.len(), Vec::with_capacity(tables.len()));
    for (own, mut table) in tables.into_iter().enumerate() {
        if let Some(value) = one(&mut table, written[own].clone(), Names { inputs, values: &names, own }, uses) {
            if names[..own].contains(&names[own]) {
                table.problem(&NAME, "another value of this task has this name");
            }
            values.push(value);
        }
        section.absorb(table);
    }
    (count > 0 && values.len() == count).then_some(values)
}

/// Reads the keys of one value but for its name, from the task's table or a table of its own.
fn one(section: &mut Section<'_>, name: Option<String>, names: Names<'_>, uses: &mut [bool]) -> Option<Computed> {
    let unit = section.text(&UNIT);
    let text = section.text(&EXPRESSION)?;
    match parse(&text, names, uses) {
        Ok(steps) => Some(Computed { column: Column { name: name?, unit: unit? }, steps }),
        Err(wrong) => {
            section.problem(&EXPRESSION, wrong.message(&text));
            None
        }
    }
}
