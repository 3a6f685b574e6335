//! The kinds that come with hertzd: their keys, and how a section becomes a task.

use super::load::{Fault, FaultKind, Load, LoadSettings, Mode};
use super::sensor::{Line, Sensor, SensorSettings};
use super::{Blueprint, Kind, Kinds, Task};
use crate::config::{Key, Section, Value};
use crate::sys::clock::KernelClock;
use crate::time::Span;
use std::num::NonZeroU64;

const SENSOR_KEYS: &[Key] = &[
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

const FAULTS: &[(&str, FaultKind)] = &[
    ("long-run", FaultKind::LongRun),
    ("page-faults", FaultKind::PageFaults),
    ("sleep", FaultKind::Sleep),
    ("error", FaultKind::Error),
    ("panic", FaultKind::Panic),
    ("hang", FaultKind::Hang),
];

const LOAD_KEYS: &[Key] = &[
    Key {
        name: "run",
        value: Value::Durations,
        default: "\"0s\"",
        about: "How long a tick takes; of a list, one tick after the other, cycled.",
    },
    Key {
        name: "mode",
        value: Value::Choice(&["burn", "sleep"]),
        default: "\"burn\"",
        about: "How that time is spent: on the processor, or asleep as a task does that waits for a device.",
    },
    Key {
        name: "fault",
        value: Value::Choice(&["long-run", "page-faults", "sleep", "error", "panic", "hang"]),
        default: "",
        about: "What goes wrong now and then: a long run, fresh pages touched, a blocking sleep, an error returned, a \
                panic, a tick that never returns.",
    },
    Key {
        name: "fault-every",
        value: Value::Integer { min: 1, max: i64::MAX },
        default: "1000",
        about: "It goes wrong in the last of every so many releases: with 100 first in tick 99. Only with fault.",
    },
    Key {
        name: "fault-run",
        value: Value::Duration,
        default: "\"5ms\" for long-run and sleep, otherwise none",
        about: "How long the faulting tick takes, in place of run; under \"sleep\", how long it sleeps. Only with fault, \
                and not with \"hang\".",
    },
];

impl Kinds {
    /// The kinds that come with hertzd, as far as its features were chosen when it was built.
    pub fn builtin() -> Self {
        let kinds = Self::empty()
            .add(Kind::new("sensor", "Polls a number from a file of /proc or /sys.", SENSOR_KEYS, sensor))
            .add(Kind::new(
                "load",
                "Burns or sleeps a scripted time, and misbehaves on request; for trials and tests.",
                LOAD_KEYS,
                load,
            ));
        // One line each, with the feature it hangs on.
        #[cfg(feature = "video")]
        let kinds = kinds.add(super::video::kind());
        #[cfg(not(feature = "video"))]
        let kinds = kinds.leaving_out("video", "build it with `--features video`, which is on by default");
        #[cfg(not(feature = "audio"))]
        let kinds = kinds.leaving_out(
            "audio",
            "build it with `cargo build --release --features audio`, which needs libasound2-dev and pkg-config",
        );
        kinds
    }
}

fn sensor(section: &mut Section<'_>) -> Option<Blueprint> {
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

fn load(section: &mut Section<'_>) -> Option<Blueprint> {
    let run = section.durations("run").unwrap_or_default();
    let mode = section.choice("mode", &[("burn", Mode::Burn), ("sleep", Mode::Sleep)]).unwrap_or_default();
    let kind = section.choice("fault", FAULTS);
    for key in ["fault-every", "fault-run"] {
        if section.has(key) && !section.has("fault") {
            section.problem(key, "has no effect without fault; remove it, or say what goes wrong");
        }
    }
    if section.has("fault-run") && kind == Some(FaultKind::Hang) {
        section.problem("fault-run", "has no effect with fault = \"hang\", which never returns; remove it");
    }
    let every = section.integer("fault-every", 1..=i64::MAX).unwrap_or(1_000);
    let every = NonZeroU64::new(every.unsigned_abs()).unwrap_or(NonZeroU64::MIN);
    let asked = section.duration("fault-run");
    let fault = kind.map(|kind| {
        let usual = match kind {
            FaultKind::LongRun | FaultKind::Sleep => Span::from_millis(5),
            _ => Span::ZERO,
        };
        Fault { kind, every, run: asked.unwrap_or(usual) }
    });
    let known = run.clone();
    let settings = LoadSettings { run, mode, fault };
    let build = move || Ok(Box::new(Load::new(settings, KernelClock::monotonic())) as Box<dyn Task>);
    Some(Blueprint::new(build).taking(known))
}
