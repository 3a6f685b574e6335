//! `hertzd schema`: the configuration's JSON schema.

use super::{Stop, print};
use crate::config;
use crate::config::Kinds;
use crate::program;
use serde_json::Value;

pub(super) fn schema(kinds: &Kinds) -> Result<(), Stop> {
    let text =
        serde_json::to_string_pretty(&said(config::schema(kinds))).map_err(|error| Stop::Fault(error.to_string()))?;
    print(&(text + "\n"))
}

/// What it says to people, by the name of the program.
fn said(schema: Value) -> Value {
    match schema {
        Value::Object(map) => {
            let each = |(key, value): (String, Value)| match (&*key, value) {
                ("title" | "description", Value::String(text)) => (key, program::owned(text).into()),
                (_, value) => (key, said(value)),
            };
            Value::Object(map.into_iter().map(each).collect())
        }
        Value::Array(list) => list.into_iter().map(said).collect(),
        other => other,
    }
}
