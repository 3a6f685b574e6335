//! The keys of the kind `heartbeat`, and how a section becomes a task.

use super::Heartbeat;
use crate::config::{Blueprint, Key, Kind, Section, Value};
use crate::kinds::output::{SWITCH_KEYS, Switch};
use crate::safety::output;
use crate::task::Task;
use serde_json::json;
use std::path::Path;

const OUTPUTS: Key = Key::new(
    "outputs",
    Value::Texts,
    "The tasks that have to be live, of the kind `output`, or `can` with `send`: `[\"heater\", \"fan\"]`.",
)
.otherwise("all that there are");

const KEYS: &[Key] = &[OUTPUTS, SWITCH_KEYS[0], SWITCH_KEYS[1], SWITCH_KEYS[2], SWITCH_KEYS[3]];

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    let about = "Switches a line at each tick while outputs are live, for a watchdog in hardware.";
    Kind::new("heartbeat", about, KEYS, parse).also(json!({
        "if": {"required": ["line"], "properties": {"line": {"type": "integer"}}},
        "then": {"required": ["chip"]},
    }))
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let names = section.acting_tasks(&OUTPUTS);
    let (switch, task) = (Switch::of(section)?, section.name().to_owned());
    if section.is_shadow() {
        return Some(Blueprint::built(Heartbeat::new(None, Some(Box::default()))));
    }
    let (looked, its_task) = (switch.clone(), task.clone());
    let build = move || {
        let names = names.map(|names| names.iter().map(|name| output(name)).collect());
        let switched = switch.open(&task, Path::new("/sys"))?;
        Ok(Box::new(Heartbeat::new(Some(switched), names)) as Box<dyn Task>)
    };
    Some(Blueprint::new(build).looking(move || {
        let preview = looked.look(&its_task, Path::new("/sys"))?;
        Ok(crate::config::Preview { columns: Some(super::columns()), ..preview })
    }))
}
