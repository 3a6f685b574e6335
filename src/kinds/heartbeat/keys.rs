//! The keys of the kind `heartbeat`, and how a section becomes a task.

use super::Heartbeat;
use crate::config::{Blueprint, Key, Kind, Section, Value};
use crate::kinds::output::{SWITCH_KEYS, Switch};
use crate::safety::LiveOutputs;
use crate::site::Site;
use serde_json::json;
use std::sync::Arc;

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
        return Some(Blueprint::built(Heartbeat::new(None, Arc::default(), Some(Box::default())).built()));
    }
    let (looked, its_task) = (switch.clone(), task.clone());
    let build = move |site: &mut Site| {
        let outputs = site.common::<LiveOutputs>();
        let wanted = names.map(|names| names.iter().map(|name| outputs.named(name)).collect());
        let (switched, beginning) = switch.open(site, &task)?;
        let built = Heartbeat::new(Some(switched), outputs, wanted).built();
        Ok(match beginning {
            Some(beginning) => built.beginning(|| beginning.write()),
            None => built,
        })
    };
    Some(Blueprint::new(build).looking(move |site| {
        let preview = looked.look(site, &its_task)?;
        Ok(crate::config::Preview { columns: Some(super::columns()), ..preview })
    }))
}
