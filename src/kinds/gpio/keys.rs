//! The keys of the kind `gpio`, and how a section becomes a task.

use super::chip::{Line, Wanted};
use super::{Gpio, columns};
use crate::config::{Blueprint, Key, Kind, Section, Value, refuse_value_name};
use crate::kinds::device::{Label, Missing};
use crate::task::Task;
use crate::time::Span;
use gpiocdev::line::{Bias, EdgeDetection};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// Most lines of one request, and most edges held; the kernel's limits.
const MOST_LINES: usize = 64;
const MOST_EDGES: i64 = 1_024;

const KEYS: &[Key] = &[
    Key {
        name: "chip",
        value: Value::Text,
        default: "the one that has all these lines",
        about: "The chip: its name (\"gpiochip0\"), its label, which stays the same when numbers change, or its node. May \
                be left out when every line is given by its name.",
    },
    Key {
        name: "lines",
        value: Value::Any,
        default: "",
        about: "The lines, 1 to 64 of one chip: a list of offsets and names ([3, \"button\"]). Required.",
    },
    Key {
        name: "names",
        value: Value::Texts,
        default: "the lines' own names; \"line3\" for an offset",
        about: "Names of the values, one for each line: a list of texts.",
    },
    Key {
        name: "edges",
        value: Value::Choice(&["both", "rising", "falling", "none"]),
        default: "\"both\"",
        about: "Which edges are counted and recorded; \"none\": only levels, which every chip can do.",
    },
    Key {
        name: "bias",
        value: Value::Choice(&["as-is", "pull-up", "pull-down", "disabled"]),
        default: "\"as-is\"",
        about: "The resistor at the lines, where the chip has one.",
    },
    Key {
        name: "active-low",
        value: Value::Bool,
        default: "false",
        about: "Whether low counts as 1, and a falling edge as rising.",
    },
    Key {
        name: "debounce",
        value: Value::Duration,
        default: "none",
        about: "How long a line must be stable before its new level counts; whole microseconds, at most an hour.",
    },
    Key {
        name: "event-buffer",
        value: Value::Integer { min: 1, max: MOST_EDGES },
        default: "1024",
        about: "How many edges the kernel holds between two ticks; when there are more the oldest are lost, and counted. \
                Not with edges = \"none\".",
    },
    Missing::KEY,
];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("gpio", "Reads levels of GPIO lines, and every edge since the last tick.", KEYS, parse)
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OffsetOrName;
        impl Visitor<'_> for OffsetOrName {
            type Value = Line;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an offset or a name")
            }
            fn visit_i64<E: Error>(self, offset: i64) -> Result<Line, E> {
                u32::try_from(offset)
                    .map(Line::Offset)
                    .map_err(|_| E::custom("an offset is at least 0, and of 32 bits"))
            }
            fn visit_u64<E: Error>(self, offset: u64) -> Result<Line, E> {
                u32::try_from(offset)
                    .map(Line::Offset)
                    .map_err(|_| E::custom("an offset is at least 0, and of 32 bits"))
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Line, E> {
                match name {
                    "" => Err(E::custom("a name must not be empty")),
                    name => Ok(Line::Name(name.into())),
                }
            }
        }
        deserializer.deserialize_any(OffsetOrName)
    }
}

#[derive(serde::Deserialize)]
struct Lines {
    lines: Vec<Line>,
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let chip = section.text("chip");
    if chip.as_deref() == Some("") {
        section.problem("chip", "must not be empty");
    }
    let lines = lines(section);
    let edges = [
        ("both", Some(EdgeDetection::BothEdges)),
        ("rising", Some(EdgeDetection::RisingEdge)),
        ("falling", Some(EdgeDetection::FallingEdge)),
        ("none", None),
    ];
    let edges = section.choice("edges", &edges).unwrap_or(Some(EdgeDetection::BothEdges));
    let bias = [
        ("as-is", None),
        ("pull-up", Some(Bias::PullUp)),
        ("pull-down", Some(Bias::PullDown)),
        ("disabled", Some(Bias::Disabled)),
    ];
    let bias = section.choice("bias", &bias).unwrap_or_default();
    let debounce = section.duration("debounce");
    if debounce.is_some_and(|span| span.nanos() % 1_000 != 0 || span > Span::from_seconds(3_600)) {
        section.problem("debounce", "must be whole microseconds, at most an hour");
    }
    if edges.is_none() && section.has("event-buffer") {
        section.problem("event-buffer", "has no effect with edges = \"none\"; remove it");
    }
    let room = section.integer("event-buffer", 1..=MOST_EDGES).and_then(|room| u32::try_from(room).ok());
    let active_low = section.boolean("active-low").unwrap_or_default();
    let missing = Missing::of(section);
    let lines = lines?;
    if chip.is_none()
        && !section.has("chip")
        && let Some(offset) = lines.iter().find(|line| matches!(line, Line::Offset(_)))
    {
        section.problem("chip", format_args!("missing; say whose line {offset} is meant"));
    }
    let names = names(section, &lines, edges.is_some())?;
    let room = room.unwrap_or(u32::try_from(MOST_EDGES).unwrap_or(0));
    let wanted = Wanted { chip, lines, edges, bias, active_low, debounce, room };
    let label = Label::new("GPIO lines", section.place());
    Some(Blueprint::new(move || Ok(Box::new(Gpio::open(label, names, wanted, missing)?) as Box<dyn Task>)))
}

fn lines(section: &mut Section<'_>) -> Option<Vec<Line>> {
    if !section.require("lines", "the lines to read, such as [3, \"button\"]") {
        return None;
    }
    let lines = section.deserialize::<Lines>(|key| key == "lines")?.lines;
    if !(1..=MOST_LINES).contains(&lines.len()) {
        section.problem("lines", format_args!("must hold 1 to {MOST_LINES} lines"));
        return None;
    }
    if let Some(twice) = (1..lines.len()).find(|&index| lines[..index].contains(&lines[index])) {
        section.problem("lines", format_args!("names line {} twice", lines[twice]));
        return None;
    }
    Some(lines)
}

/// The name of each line's value.
fn names(section: &mut Section<'_>, lines: &[Line], edges: bool) -> Option<Vec<String>> {
    let own = |line: &Line| match line {
        Line::Offset(offset) => format!("line{offset}"),
        Line::Name(name) => name.clone(),
    };
    let names = match section.has("names") {
        true => section.texts("names")?,
        false => lines.iter().map(own).collect(),
    };
    if names.len() != lines.len() {
        section.problem("names", format_args!("must hold one name for each of the {} lines", lines.len()));
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
        section.problem(if section.has("names") { "names" } else { "lines" }, problem);
        return None;
    }
    Some(names)
}
