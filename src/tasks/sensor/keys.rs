//! The keys of the kind `sensor`, and how a section becomes a task. Pure.

use super::{Line, Sensor, SensorSettings};
use crate::config::{Key, Section, Value};
use crate::tasks::{Blueprint, Kind, Task};

/// The kind, for the registry.
pub(in crate::tasks) fn kind() -> Kind {
    Kind::new("sensor", "Polls a number from a file of /proc or /sys.", KEYS, parse)
}

const KEYS: &[Key] = &[
    Key {
        name: "path",
        value: Value::Path,
        default: "",
        about: "The file to poll, of /proc or /sys. It is opened once, before the start, and read again at every tick. \
                Required.",
    },
    Key {
        name: "line",
        value: Value::IntegerOrText { min: 1, max: 100_000 },
        default: "1",
        about: "The line the number is in: its number from 1, or the text it starts with (\"MemAvailable:\").",
    },
    Key {
        name: "field",
        value: Value::Integer { min: 1, max: 1_000 },
        default: "1",
        about: "The field of the line, from 1; fields are separated by spaces and colons. In a line found by its text, \
                the fields after that text are counted.",
    },
    Key { name: "scale", value: Value::Number, default: "1", about: "What the number is multiplied by; not zero." },
    Key { name: "offset", value: Value::Number, default: "0", about: "What is added after that." },
    Key { name: "name", value: Value::Text, default: "\"value\"", about: "Name of the value, in every output." },
    Key {
        name: "unit",
        value: Value::Text,
        default: "\"\"",
        about: "Unit of the value after scaling; empty for a plain number.",
    },
];

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    section.require("path", "the file to poll, such as \"/proc/loadavg\"");
    let line = match section.is_text("line") {
        true => section.text("line").map(Line::Text),
        false => section.integer("line", 1..=100_000).and_then(|line| usize::try_from(line).ok()).map(Line::Number),
    };
    if matches!(&line, Some(Line::Text(text)) if text.trim().is_empty()) {
        section.problem("line", "must be a number from 1, or the text that the line starts with");
    }
    let scale = section.number("scale");
    if scale == Some(0.0) {
        section.problem("scale", "must not be zero");
    }
    let name = section.text("name");
    if name.as_deref() == Some("") {
        section.problem("name", "must not be empty");
    }
    let default = SensorSettings::default();
    let settings = SensorSettings {
        path: section.path("path")?,
        line: line.unwrap_or(default.line),
        field: section.integer("field", 1..=1_000).and_then(|n| usize::try_from(n).ok()).unwrap_or(default.field),
        scale: scale.unwrap_or(default.scale),
        offset: section.number("offset").unwrap_or(default.offset),
        name: name.unwrap_or(default.name),
        unit: section.text("unit").unwrap_or(default.unit),
    };
    Some(Blueprint::new(move || Ok(Box::new(Sensor::open(settings)?) as Box<dyn Task>)))
}
