//! Turns a plugin's description of its keys into configuration keys with their rules. Pure.

use crate::config::{Absent, Key, TASK_KEYS, Value, duration_written, refuse_value_name};
use crate::sys::plugin::{Described, DescribedKey, KeyKind, kept};
use crate::time::Span;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

/// The keys that a plugin describes, in its order.
///
/// # Errors
/// The part of the description that is not allowed.
pub(super) fn keys(described: &Described, taken: &[Key]) -> Result<Vec<Key>, String> {
    let is_one_line = |text: &str| !text.chars().any(char::is_control);
    if !is_one_line(described.name) {
        return Err(format!("its name {:?} has a line break or another control character", described.name));
    }
    let units = described.keys.iter().map(|key| key.unit).chain(described.values.iter().map(|(_, unit)| *unit));
    if let Some(unit) = units.into_iter().find(|unit| !is_one_line(unit)) {
        return Err(format!("its unit {unit:?} has a line break or another control character"));
    }
    let mut names = BTreeSet::new();
    for (name, _) in &described.values {
        if let Some(why) = refuse_value_name(name) {
            return Err(format!("its value {name:?}: the name {why}"));
        }
        if !names.insert(*name) {
            return Err(format!("it has two values called {name:?}"));
        }
    }
    let (mut names, mut keys) = (BTreeSet::new(), Vec::with_capacity(described.keys.len()));
    for key in &described.keys {
        let name = key.name;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_plain) || name.len() > 64 {
            return Err(format!(
                "its key {name:?}: a name has up to 64 small letters, digits and \"-\", and a letter first"
            ));
        }
        if name == "simulate" || TASK_KEYS.iter().chain(taken).any(|common| common.name == name) {
            return Err(format!("its key {name:?} is called as one that every plugin task has; it needs another name"));
        }
        if !names.insert(name) {
            return Err(format!("it has two keys called {name:?}"));
        }
        if let KeyKind::Choice(words) = key.kind {
            let mut seen = BTreeSet::new();
            if let Some(twice) = words.iter().find(|word| !seen.insert(**word)) {
                return Err(format!("its key {name} has the word {twice:?} twice"));
            }
            if words.contains(&"") {
                return Err(format!("its key {name} has an empty word"));
            }
        }
        keys.push(of(key)?);
    }
    Ok(keys)
}

fn of(key: &DescribedKey) -> Result<Key, String> {
    let [low, high] = key.range;
    if key.kind == KeyKind::Integer && low.ceil() > high.floor() || key.kind == KeyKind::Duration && high < 0.0 {
        let what = if key.kind == KeyKind::Integer { "whole number" } else { "duration" };
        return Err(format!("the range of its key {}, {} to {}, holds no {what}", key.name, limit(low), limit(high)));
    }
    if let Some(preset) = key.preset.filter(|_| key.required) {
        return Err(format!("its key {} is required, and has the preset {preset:?}: it can be one of both", key.name));
    }
    let value = match key.kind {
        KeyKind::Number => Value::Number,
        KeyKind::Integer => Value::Integer { min: whole(key.range[0].ceil()), max: whole(key.range[1].floor()) },
        KeyKind::Bool => Value::Bool,
        KeyKind::Text => Value::Text,
        KeyKind::Choice(words) => Value::Choice(words),
        KeyKind::Duration => {
            let [min, max] = durations(key.range);
            Value::Duration { min, max }
        }
        KeyKind::Input => Value::Input,
    };
    let absent = match (key.preset, key.kind) {
        (None, _) if key.required => Absent::Refused { unless: &[], hint: kept(&hint(key, &value)) },
        (None, _) => Absent::Nothing,
        (Some(preset), KeyKind::Text | KeyKind::Choice(_) | KeyKind::Duration) => {
            Absent::Value(kept(&Json::from(preset).to_string()))
        }
        (Some(preset), KeyKind::Input) if !preset.parse().is_ok_and(f64::is_finite) => {
            return Err(format!(
                "its key {} has the preset {preset:?}; that of an input must be a finite number",
                key.name
            ));
        }
        (Some(preset), _) => Absent::Value(preset),
    };
    Ok(Key { absent, ..Key::new(key.name, value, kept(&about(key))) })
}

/// The whole number, or the nearest one that fits.
#[expect(clippy::cast_possible_truncation, reason = "saturates, which is what is wanted of an infinite limit")]
fn whole(limit: f64) -> i64 {
    limit as i64
}

/// The shortest and the longest duration; no duration is below 0.
fn durations(range: [f64; 2]) -> [Span; 2] {
    range.map(|limit| Span::from_nanos(whole(limit).max(0)))
}

fn hint(key: &DescribedKey, value: &Value) -> String {
    match key.kind {
        KeyKind::Input => "name what it takes, such as \"TASK.VALUE\"".into(),
        _ => match value {
            Value::Integer { min: i64::MIN, max: i64::MAX } => "its plugin wants it: integer".into(),
            Value::Integer { min: i64::MIN, max } => format!("its plugin wants it: integer up to {max}"),
            _ => format!("its plugin wants it: {}", value.shape()),
        },
    }
}

/// What the key does, its unit, and the range of a number or a duration.
fn about(key: &DescribedKey) -> String {
    let unit = if key.unit.is_empty() { String::new() } else { format!("In {}.", key.unit) };
    // The schema also states the ranges of numbers. It cannot state those of durations, which are strings there.
    let range = match key.kind {
        KeyKind::Number => range(key.range).map_or_else(String::new, |range| format!("The number must be {range}.")),
        KeyKind::Duration => {
            let [low, high] = durations(key.range);
            match (low > Span::ZERO, high < Span::MAX) {
                (true, true) => {
                    format!("It must be from {} to {}.", duration_written(low), duration_written(high))
                }
                (true, false) => format!("It must be at least {}.", duration_written(low)),
                (false, true) => format!("It must be at most {}.", duration_written(high)),
                (false, false) => String::new(),
            }
        }
        _ => String::new(),
    };
    [key.help.trim(), &unit, &range].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `from 0 to 1`; `None` if any number is allowed.
fn range([low, high]: [f64; 2]) -> Option<String> {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => Some(format!("from {} to {}", limit(low), limit(high))),
        (true, false) => Some(format!("at least {}", limit(low))),
        (false, true) => Some(format!("at most {}", limit(high))),
        (false, false) => None,
    }
}

/// `0.5`, `1e300`: without long runs of zeros.
fn limit(limit: f64) -> String {
    match limit.abs() {
        0.0 | 1e-5..1e15 => limit.to_string(),
        _ => format!("{limit:e}"),
    }
}

/// The reason why a number is refused; `None` if it is accepted.
pub(super) fn refusal(key: &DescribedKey, number: f64) -> Option<String> {
    let [low, high] = key.range;
    let inside = (low..=high).contains(&number);
    range(key.range).filter(|_| !inside).map(|range| format!("must be {range}"))
}

/// What a JSON schema states in addition to the keys: the ranges of numbers.
pub(super) fn ranges(described: &Described) -> Json {
    let mut properties = Map::new();
    for key in described.keys.iter().filter(|key| key.kind == KeyKind::Number) {
        let mut limits = Map::new();
        for (name, limit) in [("minimum", key.range[0]), ("maximum", key.range[1])] {
            if limit.is_finite() {
                limits.insert(name.into(), json!(limit));
            }
        }
        if !limits.is_empty() {
            properties.insert(key.name.into(), Json::Object(limits));
        }
    }
    json!({"properties": properties})
}
