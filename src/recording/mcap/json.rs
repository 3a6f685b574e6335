//! Values, samples and ticks as JSON objects, and their schemas.
//!
//! A value that must not be used is left out of its object: viewers do not accept `null` as a number, and JSON has no infinity. What is not
//! good is named under one more key, with its quality or the reason why it is bad. Pure.

use super::chunks::Schema;
use crate::channels::{Quality, Reason};
use crate::metrics::Cause;
use crate::recording::content::{RecordedTick, Why};
use crate::task::Column;
use serde_json::{Map, Value, json};
use std::io::Write;

/// The key of the qualities that are not good.
const QUALITY: &str = "@quality";

/// The keys of an object with one number per column.
#[derive(Debug)]
pub(super) struct Keys(Vec<String>);

impl Keys {
    pub(super) fn of(columns: &[Column]) -> Self {
        Self(columns.iter().map(|column| format!("{}:", json!(column.name))).collect())
    }

    /// Writes an object with these values.
    pub(super) fn write(&self, message: &mut Vec<u8>, values: impl Iterator<Item = f64>, qualities: &[Quality]) {
        message.push(b'{');
        let finite = self.0.iter().zip(values).filter(|(_, value)| value.is_finite());
        let mut comma = "";
        for (key, value) in finite {
            // Writing to a Vec cannot fail. `Debug` formats a finite number like JSON.
            let _ = write!(message, "{comma}{key}{value:?}");
            comma = ",";
        }
        let others = self.0.iter().zip(qualities).filter(|(_, quality)| **quality != Quality::Good);
        for (at, (key, quality)) in others.enumerate() {
            let word = quality.reason().map_or(quality.word(), Reason::word);
            let _ = match at {
                0 => write!(message, "{comma}\"{QUALITY}\":{{{key}\"{word}\""),
                _ => write!(message, ",{key}\"{word}\""),
            };
        }
        if qualities.iter().any(|quality| *quality != Quality::Good) {
            message.push(b'}');
        }
        message.push(b'}');
    }
}

/// The schema of objects with one number per column.
pub(super) fn schema(name: &str, title: &str, columns: &[Column]) -> Schema {
    let mut properties: Map<String, Value> = columns
        .iter()
        .map(|Column { name, unit }| {
            let property = match unit.as_str() {
                "" => json!({"type": "number"}),
                unit => json!({"type": "number", "description": format!("in {unit}"), "unit": unit}),
            };
            (name.clone(), property)
        })
        .collect();
    let about = "For each value that is not good: held, none, or the reason why it is bad.";
    let words = json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    properties.insert(QUALITY.to_owned(), words);
    object_schema(name, title, &properties, &[])
}

pub(super) fn tick_schema() -> Schema {
    let overrun = json!({"type": "boolean", "description": "Its response exceeded its deadline."});
    let sleep = [
        integer("woke_ns", "End of the worker's sleep - release, if this is the first tick after it."),
        integer("oversleep_ns", "End of that sleep - the instant asked for."),
        integer("skipped_before", "Of the skipped releases, those given up before it, if any."),
        text("cause_before", "Why those were given up."),
        text("by_before", "Who did it, where that is known."),
        integer("skipped_after", "Of the skipped releases, those given up when it had finished, if any."),
        text("cause_after", "Why those were given up."),
        text("by_after", "Who did it, where that is known."),
    ];
    tick_object("hertzd.Tick", "A tick of a task", ("overrun", overrun), sleep)
}

pub(super) fn overrun_schema() -> Schema {
    let cause = json!({"type": "string", "description": "What took the largest part of its response."});
    let by = [text("by", "Who did it, where that is known.")];
    tick_object("hertzd.Overrun", "A tick that ended after its deadline", ("cause", cause), by)
}

/// The schema of a tick: its numbers, one more required property, and the optional ones in `some`.
fn tick_object<const SOME: usize>(
    name: &str,
    title: &str,
    (more, property): (&str, Value),
    some: [(String, Value); SOME],
) -> Schema {
    let mut properties = Map::from_iter([
        integer("n", "Index of the tick."),
        integer("lateness_ns", "Started - release."),
        integer("run_ns", "Finished - started."),
        integer("response_ns", "Finished - release."),
        integer("skipped", "Releases given up before it and after it."),
        (more.to_owned(), property),
    ]);
    properties.extend(some);
    object_schema(name, title, &properties, &["n", "lateness_ns", "run_ns", "response_ns", "skipped", more])
}

/// Writes a tick.
pub(super) fn tick(message: &mut Vec<u8>, tick: &RecordedTick) {
    let (numbers, overrun) = (numbers(tick), tick.overrun().is_some());
    let _ = write!(message, "{{{numbers},\"overrun\":{overrun}");
    if let Some(oversleep) = tick.oversleep {
        let (woke, oversleep) = (tick.woke.nanos(), oversleep.nanos());
        let _ = write!(message, ",\"woke_ns\":{woke},\"oversleep_ns\":{oversleep}");
    }
    if let Some(missed) = &tick.missed {
        for (why, when) in [(&missed.before, "before"), (&missed.after, "after")] {
            let Some(why) = why else { continue };
            let _ = write!(message, ",\"skipped_{when}\":{}", why.count);
            cause(message, why, &format!("_{when}"));
        }
    }
    message.push(b'}');
}

/// Writes an overrun message, if the tick was an overrun.
pub(super) fn overrun(message: &mut Vec<u8>, tick: &RecordedTick) {
    if let Some(why) = tick.overrun() {
        let _ = write!(message, "{{{}", numbers(tick));
        cause(message, why, "");
        message.push(b'}');
    }
}

/// Writes a cause and its culprit, under keys with this ending.
fn cause(message: &mut Vec<u8>, why: &Why, ending: &str) {
    let _ = write!(message, ",\"cause{ending}\":\"{}\"", why.cause.map_or("unknown", Cause::word));
    if let Some(by) = &why.by {
        let _ = write!(message, ",\"by{ending}\":{}", json!(by));
    }
}

fn numbers(tick: &RecordedTick) -> String {
    let (lateness, response) = (tick.lateness.nanos(), tick.response.nanos());
    let (n, run, skipped) = (tick.n, response - lateness, tick.skipped);
    format!("\"n\":{n},\"lateness_ns\":{lateness},\"run_ns\":{run},\"response_ns\":{response},\"skipped\":{skipped}")
}

fn integer(name: &str, about: &str) -> (String, Value) {
    (name.to_owned(), json!({"type": "integer", "description": about}))
}

fn text(name: &str, about: &str) -> (String, Value) {
    (name.to_owned(), json!({"type": "string", "description": about}))
}

fn object_schema(name: &str, title: &str, properties: &Map<String, Value>, required: &[&str]) -> Schema {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": properties,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Schema { name: name.to_owned(), data: schema.to_string().into_bytes() }
}
