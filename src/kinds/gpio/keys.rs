//! The keys of the kind `gpio`, and how a section becomes a task.

use super::settings::{GpioSettings, LineId};
use super::{Gpio, columns};
use crate::config::{Blueprint, Key, Kind, NumberOrName, Rule, Section, Value, refuse_value_name, words};
use crate::kinds::device::{FIRST_VALUE, Missing};
use crate::site::{Label, Site};
use crate::time::Span;
use gpiocdev::line::{Bias, EdgeDetection};
use serde_json::json;

/// The kernel's limits of one request.
const MOST_LINES: usize = 64;
const MOST_EDGES: i64 = 1_024;

const EDGE_CHOICES: [(&str, Option<EdgeDetection>); 4] = [
    ("both", Some(EdgeDetection::BothEdges)),
    ("rising", Some(EdgeDetection::RisingEdge)),
    ("falling", Some(EdgeDetection::FallingEdge)),
    ("none", None),
];
const BIASES: [(&str, Option<Bias>); 4] = [
    ("as-is", None),
    ("pull-up", Some(Bias::PullUp)),
    ("pull-down", Some(Bias::PullDown)),
    ("disabled", Some(Bias::Disabled)),
];

const CHIP: Key = Key::new(
    "chip",
    Value::Name,
    "The chip: its name (`\"gpiochip0\"`), its label, which stays the same when numbers change, or its device file. Where \
     several have one label: the PCI address, the serial number or the platform name of the device that it belongs to. Can be left out when every line is given by its name.",
)
.otherwise("the one that has all these lines");
const LINES: Key = Key::new(
    "lines",
    Value::NumbersOrNames { min: 0, max: u32::MAX as i64, most: MOST_LINES },
    "The lines of one chip, each by its offset or its name: `[3, \"button\"]`.",
)
.required("list the lines to read, such as [3, \"button\"]");
const NAMES: Key = Key::new("names", Value::Texts, "Names of the values, one for each line.")
    .otherwise("the lines' own names; `line3` for offset 3");
const EDGES: Key = Key::new(
    "edges",
    Value::Choice(&words(&EDGE_CHOICES)),
    "Which edges are counted and recorded. With `\"none\"` only levels are read, which every chip supports.",
)
.default("\"both\"");
const BIAS: Key = Key::new("bias", Value::Choice(&words(&BIASES)), "The resistor at the lines, if the chip has one.")
    .default("\"as-is\"");
const ACTIVE_LOW: Key =
    Key::new("active-low", Value::Bool, "Whether low counts as 1, and a falling edge as rising.").default("false");
const DEBOUNCE: Key = Key::new(
    "debounce",
    Value::Duration { min: Span::from_nanos(1), max: Span::from_seconds(3_600) },
    "How long a line must be stable before its new level counts, in whole microseconds.",
);
const EVENT_BUFFER: Key = Key::new(
    "event-buffer",
    Value::Integer { min: 1, max: MOST_EDGES },
    "How many edges the kernel holds between two ticks. When there are more, the oldest are lost and counted.",
)
.default("1024")
.rules(&[Rule::unless("edges", &["none"])]);

const KEYS: &[Key] = &[CHIP, LINES, NAMES, EDGES, BIAS, ACTIVE_LOW, DEBOUNCE, EVENT_BUFFER, Missing::KEY];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("gpio", "Reads the levels of GPIO lines, and every edge since the last tick.", KEYS, parse).also(json!({
        "if": {"required": ["lines"], "properties": {"lines": {"contains": {"type": "integer"}}}},
        "then": {"required": ["chip"]},
    }))
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let chip = section.text(&CHIP);
    let lines = lines(section);
    let edges = section.choice(&EDGES, &EDGE_CHOICES);
    let bias = section.choice(&BIAS, &BIASES);
    let debounce = section.duration(&DEBOUNCE);
    if debounce.is_some_and(|span| span.nanos() % 1_000 != 0) {
        section.problem(&DEBOUNCE, "must be whole microseconds");
    }
    let room = section.integer(&EVENT_BUFFER);
    let active_low = section.boolean(&ACTIVE_LOW);
    let missing = Missing::of(section);
    let lines = lines?;
    if !section.has(&CHIP)
        && let Some(offset) = lines.iter().find(|line| matches!(line, LineId::Offset(_)))
    {
        section.problem(&CHIP, format_args!("missing; name the chip that has line {offset}"));
    }
    let edges = edges?;
    let names = names(section, &lines, edges.is_some())?;
    let wanted = GpioSettings { chip, lines, edges, bias: bias?, active_low: active_low?, debounce, room: room? };
    let label = Label::new("GPIO lines", section.name());
    let looked = (label.clone(), names.clone(), wanted.clone());
    let build = move |site: &mut Site| Ok(Gpio::open(site, label, names, wanted, missing)?.into());
    let look = move |site: &mut Site| Gpio::look(site, &looked.0, &looked.1, &looked.2, missing);
    Some(Blueprint::new(build).looking(look).first_value_within(FIRST_VALUE))
}

fn lines(section: &mut Section<'_>) -> Option<Vec<LineId>> {
    let line = |line: NumberOrName| match line {
        NumberOrName::Number(offset) => u32::try_from(offset).ok().map(LineId::Offset),
        NumberOrName::Name(name) => Some(LineId::Name(name)),
    };
    section.numbers_or_names(&LINES)?.into_iter().map(line).collect()
}

/// The name of each line's value.
fn names(section: &mut Section<'_>, lines: &[LineId], edges: bool) -> Option<Vec<String>> {
    let own = |line: &LineId| match line {
        LineId::Offset(offset) => format!("line{offset}"),
        LineId::Name(name) => name.clone(),
    };
    let names = match section.has(&NAMES) {
        true => section.texts(&NAMES)?,
        false => lines.iter().map(own).collect(),
    };
    if names.len() != lines.len() {
        section.problem(&NAMES, format_args!("must hold one name for each of the {} lines", lines.len()));
        return None;
    }
    let columns = columns(&names, edges);
    for (index, column) in columns.iter().enumerate() {
        let problem = match refuse_value_name(column) {
            Some(problem) => format!("the value name {column:?} {problem}"),
            None if columns[..index].contains(column) => {
                format!("two values would be called {column:?}; give the lines other names with names")
            }
            None => continue,
        };
        section.problem(if section.has(&NAMES) { &NAMES } else { &LINES }, problem);
        return None;
    }
    Some(names)
}
