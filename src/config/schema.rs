//! The key tables as a JSON Schema, for editors that complete and check TOML while it is written. Pure.
//!
//! An editor knows less than `hertzd check`: rules between keys and facts of the machine are not in the schema.

use super::keys::{
    Key, NAME_PATTERN, TASK_KEYS, TASK_SIMULATE_KEYS, Value as Wanted, WORKER_KEYS, WORKER_SIMULATE_KEYS,
};
use super::kinds::{Kind, Kinds};
use super::value::{DURATION_UNITS, RATE_UNITS, SIZE_UNITS};
use serde_json::{Map, Value, json};

/// The schema (draft 2020-12) of a configuration with these kinds.
pub fn schema(kinds: &Kinds) -> Value {
    let named = |definition: &str| {
        json!({"type": "object", "propertyNames": {"pattern": NAME_PATTERN},
               "additionalProperties": {"$ref": format!("#/$defs/{definition}")}})
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hertzd configuration",
        "type": "object",
        "required": ["task"],
        "additionalProperties": false,
        "properties": {"worker": named("worker"), "task": with(named("task"), "minProperties", json!(1))},
        "$defs": {
            "duration": {"type": "string", "pattern": duration_pattern()},
            "worker": {
                "type": "object",
                "additionalProperties": false,
                "not": {"required": ["cpu", "cpus"]},
                "properties": properties(WORKER_KEYS, WORKER_SIMULATE_KEYS, kinds),
            },
            "task": {
                "type": "object",
                "required": ["kind"],
                "oneOf": [{"required": ["rate"]}, {"required": ["period"]}],
                "properties": properties(TASK_KEYS, TASK_SIMULATE_KEYS, kinds),
                "allOf": kinds.iter().map(|kind| of_kind(kind, kinds)).collect::<Vec<_>>(),
            },
        },
    })
}

/// What holds for a task of this kind: its keys, and no others beside the common ones.
fn of_kind(kind: &Kind, kinds: &Kinds) -> Value {
    let mut keys: Map<String, Value> = TASK_KEYS.iter().map(|key| (key.name.to_owned(), json!(true))).collect();
    keys.insert("simulate".to_owned(), json!(true));
    keys.extend(kind.keys.iter().map(|key| (key.name.to_owned(), property(key, kinds))));
    json!({
        "if": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]},
        "then": {"description": kind.about, "properties": keys, "additionalProperties": kind.is_open()},
    })
}

fn properties(keys: &[Key], simulate: &[Key], kinds: &Kinds) -> Value {
    let table = |keys: &[Key]| {
        keys.iter().map(|key| (key.name.to_owned(), property(key, kinds))).collect::<Map<String, Value>>()
    };
    let mut properties = table(keys);
    let inner = json!({"type": "object", "additionalProperties": false, "properties": table(simulate),
                       "description": "Read by `hertzd simulate` only."});
    properties.insert("simulate".to_owned(), inner);
    Value::Object(properties)
}

fn property(key: &Key, kinds: &Kinds) -> Value {
    let about = match key.default {
        "" => key.about.to_owned(),
        default => format!("{}\n\nDefault: {default}", key.about).trim_start().to_owned(),
    };
    match (wanted(key.value, kinds), about.as_str()) {
        (schema, "") => schema,
        (schema, about) => with(schema, "description", json!(about)),
    }
}

fn wanted(value: Wanted, kinds: &Kinds) -> Value {
    let duration = json!({"$ref": "#/$defs/duration"});
    match value {
        Wanted::Duration => duration,
        Wanted::Durations => {
            json!({"anyOf": [duration, {"type": "array", "minItems": 1, "items": duration}]})
        }
        Wanted::Rate => json!({"anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000},
            {"type": "string", "pattern": rate_pattern()},
        ]}),
        Wanted::Integer { min, max: i64::MAX } => json!({"type": "integer", "minimum": min}),
        Wanted::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Wanted::IntegerOrText { min, max } => {
            json!({"anyOf": [{"type": "integer", "minimum": min, "maximum": max}, {"type": "string", "minLength": 1}]})
        }
        Wanted::Number => json!({"type": "number"}),
        Wanted::Text => json!({"type": "string"}),
        Wanted::Texts => json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}}),
        Wanted::Path => json!({"type": "string", "minLength": 1}),
        Wanted::Percent => json!({"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"}),
        Wanted::Size => json!({"type": "string", "pattern": size_pattern()}),
        Wanted::Bool => json!({"type": "boolean"}),
        Wanted::Choice(words) => json!({"enum": words}),
        Wanted::Cpu => json!({"type": "integer", "minimum": 0}),
        Wanted::Cpus => {
            json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "integer", "minimum": 0}})
        }
        Wanted::Spin => json!({"anyOf": [{"enum": ["off", "auto"]}, duration]}),
        Wanted::Kind => json!({"enum": kinds.names().collect::<Vec<_>>()}),
        Wanted::Tables(keys) => {
            let keys: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key, kinds))).collect();
            let table = json!({"type": "object", "additionalProperties": false, "properties": keys});
            json!({"type": "array", "minItems": 1, "items": table})
        }
        Wanted::Any => json!({}),
    }
}

fn size_pattern() -> String {
    let units: Vec<_> = SIZE_UNITS.iter().map(|(unit, _)| *unit).collect();
    format!(r"^\s*[0-9]+(\.[0-9]+)?\s*({})\s*$", units.join("|"))
}

fn duration_pattern() -> String {
    // The second letter for micro (Greek) is read as well as the first.
    format!(r"^\s*[0-9]+(\.[0-9]+)?\s*({}|μs)\s*$", DURATION_UNITS.join("|"))
}

fn rate_pattern() -> String {
    let number = r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?";
    let units: Vec<_> = RATE_UNITS.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    format!(r"^\s*\+?{number}(\s*/\s*\+?{number})?\s*({})?\s*$", units.join("|"))
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_described() {
        let kinds = Kinds::empty().add(Kind::new("a", "About a.", vec![], |_| None));
        let schema = schema(&kinds);
        for (table, keys) in [("worker", WORKER_KEYS), ("task", TASK_KEYS)] {
            let properties = schema["$defs"][table]["properties"].as_object().unwrap();
            assert_eq!(properties.len(), keys.len() + 1, "the keys and simulate");
            for key in keys {
                let about = properties[key.name]["description"].as_str().unwrap();
                assert!(about.starts_with(key.about) && about.ends_with(key.default), "{table}.{}", key.name);
            }
        }
        assert_eq!(schema["$defs"]["task"]["properties"]["kind"]["enum"], json!(["a"]));
        assert_eq!(schema["$defs"]["task"]["allOf"][0]["then"]["additionalProperties"], json!(false));
    }
}
