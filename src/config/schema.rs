//! The key tables as a JSON Schema, for editors that complete and check TOML as you type. Pure.
//!
//! It covers everything `hertzd check` rejects that a schema can express. `tests/agreement.rs` lists the rest.

use super::key::{Absent, Key, Needs, Rule, Value as Wanted};
use super::keys::{NAME_PATTERN, TASK_KEYS, TASK_SIMULATE_KEYS, WORKER_KEYS, WORKER_SIMULATE_KEYS};
use super::kinds::{Kind, Kinds};
use super::limits::OWN_COLUMNS;
use super::value::{DURATION_UNITS, RATE_UNITS, SIZE_UNITS};
use crate::time::Span;
use serde_json::{Map, Value, json};

/// The keys of a kind's tasks whose section has a certain text at one key.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// The kind.
    pub(crate) kind: &'static str,
    /// The key that selects the variant.
    pub(crate) key: &'static str,
    /// The text at that key.
    pub(crate) text: String,
    /// All of the kind's keys in this variant.
    pub(crate) keys: Vec<Key>,
    /// Rules that the keys cannot express, as a schema.
    pub(crate) also: Value,
}

/// The schema (draft 2020-12) of a configuration with these kinds.
#[cfg(test)]
pub(crate) fn schema(kinds: &Kinds) -> Value {
    schema_with(kinds, &[])
}

/// The schema (draft 2020-12) of a configuration with these kinds. `variants` supply the keys of kinds whose keys are not known beforehand.
pub(crate) fn schema_with(kinds: &Kinds, variants: &[Variant]) -> Value {
    let named = |definition: &str| {
        json!({"type": "object", "propertyNames": {"pattern": NAME_PATTERN},
               "additionalProperties": {"$ref": format!("#/$defs/{definition}")}})
    };
    let mut tasks = named("task");
    tasks["minProperties"] = json!(1);
    let mut worker = table(WORKER_KEYS, kinds);
    worker["properties"]["simulate"] = simulate(WORKER_SIMULATE_KEYS, kinds);
    worker["additionalProperties"] = json!(false);
    let mut task = table(TASK_KEYS, kinds);
    task["properties"]["simulate"] = simulate(TASK_SIMULATE_KEYS, kinds);
    let of_variants = variants.iter().map(|variant| of_variant(variant, kinds));
    let of_kinds = kinds.iter().map(|kind| of_kind(kind, kinds)).chain(of_variants);
    task["allOf"] = task["allOf"].as_array().into_iter().flatten().cloned().chain(of_kinds).collect();
    let value_name = json!({"type": "string", "pattern": VALUE_NAME_PATTERN});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hertzd configuration",
        "type": "object",
        "required": ["task"],
        "additionalProperties": false,
        "properties": {"worker": named("worker"), "task": tasks},
        "$defs": {
            "duration": {"type": "string", "pattern": duration_pattern(DECIMAL)},
            "duration-above-zero": {"type": "string", "pattern": duration_pattern(ABOVE_ZERO)},
            "rate": {"anyOf": [
                {"type": "number", "minimum": 1.0 / 86_400.0, "maximum": 1_000_000},
                {"type": "string", "pattern": rate_pattern()},
            ]},
            "input": {"anyOf": [
                {"type": "number"},
                value_name.clone(),
                {"type": "object", "required": ["previous", "initial"], "additionalProperties": false,
                 "properties": {"previous": value_name, "initial": {"type": "number"}}},
            ]},
            "range": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number"}},
            "worker": worker,
            "task": task,
        },
    })
}

/// The schema of a task of this kind: its own keys and the common ones. Other keys are allowed only if the kind is open.
fn of_kind(kind: &Kind, kinds: &Kinds) -> Value {
    let mut then = beside_common(&kind.keys, kinds, kind.is_open());
    then["description"] = json!(kind.about);
    if let (Some(rules), Some(also)) = (then["allOf"].as_array_mut(), &kind.also) {
        rules.push(also.clone());
    }
    json!({"if": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]}, "then": then})
}

/// The same, for the tasks of this variant.
fn of_variant(variant: &Variant, kinds: &Kinds) -> Value {
    let Variant { kind, key, text, keys, also } = variant;
    let concerned = json!({"properties": {"kind": {"const": kind}, *key: {"const": text}}, "required": ["kind", key]});
    json!({"if": concerned, "then": {"allOf": [beside_common(keys, kinds, false), also]}})
}

/// A table with these keys and the common ones; further keys are allowed only if it is `open`.
fn beside_common(keys: &[Key], kinds: &Kinds, open: bool) -> Value {
    let mut whole = table(keys, kinds);
    whole["additionalProperties"] = json!(open);
    for name in TASK_KEYS.iter().map(|key| key.name).chain(["simulate"]) {
        whole["properties"][name] = json!(true);
    }
    whole
}

fn simulate(keys: &[Key], kinds: &Kinds) -> Value {
    let mut simulate = table(keys, kinds);
    simulate["additionalProperties"] = json!(false);
    simulate["description"] = json!("Read by `hertzd simulate` only.");
    simulate
}

/// A table with these keys and their rules.
fn table(keys: &[Key], kinds: &Kinds) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key, kinds))).collect();
    let inner = keys.iter().flat_map(|list| match list.value {
        Wanted::Tables(inner) => inner.iter().flat_map(|key| rules(key, inner, Some(list.name))).collect(),
        _ => Vec::new(),
    });
    let rules: Vec<Value> = keys.iter().flat_map(|key| rules(key, keys, None)).chain(inner).collect();
    let mut table = json!({"type": "object", "properties": properties});
    if !rules.is_empty() {
        table["allOf"] = json!(rules); // a schema must not contain an empty list
    }
    table
}

/// What else must hold if this key is present, or absent. For a key of the tables in the list `inside`: only the rules about the enclosing
/// table. Otherwise: all other rules.
fn rules(key: &Key, keys: &[Key], inside: Option<&str>) -> Vec<Value> {
    let about_outer = |others: &[&str]| others.iter().any(|other| other.starts_with("../"));
    let of_rule = |rule: &Rule| match rule.needs {
        Needs::With(others) | Needs::Without(others) => about_outer(others),
        _ => false,
    };
    let outer = inside.is_some();
    let is_there = match inside {
        None => there(key.name),
        // At least one table of the list has the key.
        Some(list) => json!({"required": [list], "properties": {list: {"contains": there(key.name)}}}),
    };
    let excluded = key.excludes.iter().filter(|_| !outer);
    let mut all: Vec<Value> = excluded.map(|other| json!({"not": {"required": [key.name, other]}})).collect();
    for rule in key.rules.iter().filter(|rule| of_rule(rule) == outer) {
        let concerned = match rule.word {
            Some(word) => has_word(key.name, &[word], false),
            None if key.value == Wanted::Bool => is_on(key.name),
            None => is_there.clone(),
        };
        all.push(json!({"if": concerned, "then": needs(rule, keys)}));
    }
    if let Absent::Refused { unless, .. } = key.absent {
        let is_outer = about_outer(unless) || key.rules.iter().any(of_rule);
        let conditions: Vec<Value> = key.rules.iter().map(|rule| needs(rule, keys)).collect();
        let has_it = match inside {
            None => there(key.name),
            Some(list) => json!({"properties": {list: {"items": there(key.name)}}}),
        };
        let enough: Vec<Value> = unless.iter().map(|other| there(other)).chain([has_it]).collect();
        if is_outer == outer {
            let enough = if let [one] = &enough[..] { one.clone() } else { json!({"anyOf": enough}) };
            all.push(if conditions.is_empty() { enough } else { json!({"if": {"allOf": conditions}, "then": enough}) });
        }
    }
    all
}

/// The condition of a rule. A key of the outer table is named as it is there.
fn needs(rule: &Rule, keys: &[Key]) -> Value {
    let any = |others: &[&str]| match others {
        [one] => there(one),
        others => json!({"anyOf": others.iter().map(|other| there(other)).collect::<Vec<_>>()}),
    };
    let by_default = |name: &str, words: &[&str]| {
        let key = keys.iter().find(|key| key.name == name);
        key.and_then(|key| key.default_word()).is_some_and(|default| words.contains(&default))
    };
    match rule.needs {
        Needs::With(others) => any(others),
        Needs::Without(others) => json!({"not": any(others)}),
        Needs::Is(name, words) => has_word(name, words, by_default(name, words)),
        Needs::IsNot(name, words) => json!({"not": has_word(name, words, by_default(name, words))}),
        Needs::On(name) => is_on(name),
        Needs::Off(name) => json!({"not": is_on(name)}),
    }
}

fn there(name: &str) -> Value {
    json!({"required": [name.trim_start_matches("../")]})
}

fn is_on(name: &str) -> Value {
    json!({"required": [name], "properties": {name: {"const": true}}})
}

fn has_word(name: &str, words: &[&str], by_default: bool) -> Value {
    let properties = json!({name: {"enum": words}});
    if by_default { json!({"properties": properties}) } else { json!({"required": [name], "properties": properties}) }
}

fn property(key: &Key, kinds: &Kinds) -> Value {
    let mut schema = wanted(&key.value, kinds);
    if !key.text().is_empty() {
        schema["description"] = json!(key.text_and_default("\n\n"));
    }
    schema
}

fn wanted(value: &Wanted, kinds: &Kinds) -> Value {
    let integer = |min: i64, max: i64| match max {
        i64::MAX => json!({"type": "integer", "minimum": min}),
        _ => json!({"type": "integer", "minimum": min, "maximum": max}),
    };
    // Neither empty nor containing a NUL byte.
    let name = json!({"type": "string", "pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"});
    let duration = json!({"$ref": "#/$defs/duration"});
    match *value {
        Wanted::Duration { min: Span::ZERO, .. } => duration,
        Wanted::Duration { .. } => json!({"$ref": "#/$defs/duration-above-zero"}),
        Wanted::Durations => json!({"anyOf": [duration, {"type": "array", "minItems": 1, "items": duration}]}),
        Wanted::DurationOrOff => json!({"anyOf": [{"$ref": "#/$defs/duration-above-zero"}, {"const": "off"}]}),
        Wanted::Rate => json!({"$ref": "#/$defs/rate"}),
        Wanted::Hertz => json!({"anyOf": [
            {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            {"type": "string", "pattern": rate_pattern()},
        ]}),
        Wanted::Integer { min, max } => integer(min, max),
        Wanted::Integers { min, max, most } => {
            let (one, items) = (integer(min, max), integer(min, max));
            json!({"anyOf": [one, {"type": "array", "minItems": 1, "maxItems": most, "uniqueItems": true, "items": items}]})
        }
        Wanted::NumberOrName { min, max } => json!({"anyOf": [integer(min, max), name]}),
        Wanted::NumberOr(words) => json!({"anyOf": [{"type": "number"}, {"enum": words}]}),
        Wanted::NumbersOrNames { min, max, most } => {
            json!({"type": "array", "minItems": 1, "maxItems": most, "uniqueItems": true,
                   "items": {"anyOf": [integer(min, max), name]}})
        }
        Wanted::Number => json!({"type": "number"}),
        Wanted::Factor => json!({"type": "number", "not": {"const": 0}}),
        Wanted::Positive => json!({"type": "number", "exclusiveMinimum": 0}),
        Wanted::Input => json!({"$ref": "#/$defs/input"}),
        Wanted::Inputs => json!({"type": "object", "minProperties": 1, "propertyNames": {"pattern": NAME_PATTERN},
                                 "additionalProperties": {"$ref": "#/$defs/input"}}),
        Wanted::Range => json!({"$ref": "#/$defs/range"}),
        Wanted::Ranges => json!({"anyOf": [{"$ref": "#/$defs/range"},
            {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/range"}}]}),
        Wanted::DurationsByValue => json!({"anyOf": [{"$ref": "#/$defs/duration-above-zero"},
            {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/duration-above-zero"}}]}),
        Wanted::Text => json!({"type": "string"}),
        Wanted::Name | Wanted::Path => name,
        Wanted::PathEnding(endings) => {
            let either = |c: char| format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase());
            let endings: Vec<String> = endings.iter().map(|ending| ending.chars().map(either).collect()).collect();
            json!({"type": "string", "pattern": format!(r"^[^\x00]*[^/\x00]\.({})$", endings.join("|"))})
        }
        Wanted::FileName => json!({"type": "string", "pattern": r"^[^/\x00]*[^/\s\x00][^/\x00]*$",
                                   "not": {"enum": [".", ".."]}}),
        Wanted::ValueName => {
            json!({"type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f]+[^\x00-\x1f\x7f-\x9f]*$",
                                    "not": {"enum": OWN_COLUMNS}})
        }
        Wanted::Texts => json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}}),
        Wanted::Command => json!({"type": "array", "minItems": 1, "prefixItems": [name],
                                  "items": {"type": "string", "pattern": r"^[^\x00]*$"}}),
        Wanted::Format { pattern, .. } => json!({"type": "string", "pattern": pattern}),
        Wanted::Bytes { most } => json!({"type": "array", "items":
            {"type": "array", "minItems": 1, "maxItems": most, "items": integer(0, 0xff)}}),
        Wanted::Percent { zero, max } => json!({"type": "string", "pattern": percent_pattern(zero, max)}),
        Wanted::Size { .. } => json!({"type": "string", "pattern": size_pattern()}),
        Wanted::Bool => json!({"type": "boolean"}),
        Wanted::Choice(words) => json!({"enum": words}),
        Wanted::Cpu => json!({"type": "integer", "minimum": 0}),
        Wanted::Cpus => {
            json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "integer", "minimum": 0}})
        }
        Wanted::Spin => json!({"anyOf": [{"enum": ["off", "auto"]}, {"$ref": "#/$defs/duration-above-zero"}]}),
        Wanted::SpinTarget => json!({"type": "string", "pattern": spin_target_pattern()}),
        Wanted::Kind => json!({"enum": kinds.names().collect::<Vec<_>>()}),
        Wanted::Table(keys) => {
            let mut inner = table(keys, kinds);
            inner["additionalProperties"] = json!(false);
            inner
        }
        Wanted::Tables(keys) => {
            let mut item = table(keys, kinds);
            item["additionalProperties"] = json!(false);
            json!({"type": "array", "minItems": 1, "items": item})
        }
        Wanted::Any => json!({}),
    }
}

/// `TASK.VALUE`: the value's name may contain dots, the task's name cannot.
const VALUE_NAME_PATTERN: &str = r"^[A-Za-z0-9_-]{1,64}\.[^\x00-\x1f\x7f-\x9f]+$";

const DECIMAL: &str = r"[0-9]+(\.[0-9]+)?";
const ABOVE_ZERO: &str = r"(0*[1-9][0-9]*(\.[0-9]+)?|0+\.0*[1-9][0-9]*)";

fn units<'a>(units: impl Iterator<Item = &'a str>) -> String {
    units.filter(|unit| !unit.is_empty()).collect::<Vec<_>>().join("|")
}

fn size_pattern() -> String {
    format!(r"^\s*{ABOVE_ZERO}\s*({})\s*$", units(SIZE_UNITS.iter().map(|(unit, _)| *unit)))
}

fn duration_pattern(number: &str) -> String {
    // Both Unicode letters for micro are accepted: the micro sign and the Greek mu.
    format!(r"^\s*{number}\s*({}|μs)\s*$", units(DURATION_UNITS.iter().copied()))
}

fn spin_target_pattern() -> String {
    let units = units(DURATION_UNITS.iter().copied());
    format!(r"^\s*p[5-9][0-9](\.[0-9])?\s*<\s*{ABOVE_ZERO}\s*({units}|μs)\s*$")
}

fn rate_pattern() -> String {
    let number = format!(r"\+?{ABOVE_ZERO}([eE][+-]?[0-9]+)?");
    format!(r"^\s*{number}(\s*/\s*{number})?\s*({})?\s*$", units(RATE_UNITS.iter().map(|(unit, _)| *unit)))
}

/// A percentage from above zero (from zero if `zero`) up to `max`, a multiple of ten.
fn percent_pattern(zero: bool, max: u8) -> String {
    let tens = max / 10;
    let below = format!(r"0*([1-{}][0-9]|[1-9])(\.[0-9]*)?|0*\.0*[1-9][0-9]*|0+\.0*[1-9][0-9]*", tens - 1);
    let zero = if zero { r"|0+\.?0*|\.0+" } else { "" };
    format!(r"^\s*({below}|0*{max}(\.0*)?{zero})\s*%\s*$")
}
