//! The keys of the kind `sensor`, and how a section becomes a task. Pure: no device is looked for.

use super::find::ByName;
use super::locator::{FieldSelector, LineSelector, ValueLocator};
use super::open::open;
use super::settings::{BufferSettings, SensorSettings, Source, ValueSettings};
use crate::config::{Blueprint, Kind};
use crate::config::{Key, Section, Value};
use crate::kinds::device::Missing;
use std::collections::BTreeSet;

const ABOUT: &str = "Polls values from files of /proc or /sys, or from a hwmon or IIO device that it finds by name.";

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("sensor", ABOUT, KEYS, parse)
}

const LINE: Key = Key {
    name: "line",
    value: Value::IntegerOrText { min: 1, max: 100_000 },
    default: "1",
    about: "The line the number is in: its number from 1, or the text it starts with (\"MemAvailable:\").",
};
const FIELD: Key = Key {
    name: "field",
    value: Value::IntegerOrText { min: 1, max: 1_000 },
    default: "1",
    about: "The field of the line: its number from 1, or its name in \"avg10=0.25\" (\"avg10\"). Fields are separated by \
            spaces and colons. In a line found by its text, fields count from the end of that text.",
};
const PER_SECOND: Key = Key {
    name: "per-second",
    value: Value::Bool,
    default: "false",
    about: "Whether the number is a counter and the value its rate per second since the last reading, over wraps at 32 \
            and 64 bits. No value at the first tick and after a reset.",
};
const SCALE: Key = Key {
    name: "scale",
    value: Value::Number,
    default: "1, or by the file's name",
    about: "What the number is multiplied by; not zero. Where neither scale nor unit is written, a file of hwmon or IIO \
            has both by its name: temp1_input is in °C.",
};
const OFFSET: Key =
    Key { name: "offset", value: Value::Number, default: "0", about: "What is added after that, in the value's unit." };
const UNIT: Key = Key {
    name: "unit",
    value: Value::Text,
    default: "\"\", or by the file's name",
    about: "Unit of the value after scaling; empty for a plain number.",
};

const KEYS: &[Key] = &[
    Key {
        name: "path",
        value: Value::Path,
        default: "",
        about: "The file to poll, of /proc or /sys. It is opened once, before the start, and read again at every tick. \
                Exactly one of path, hwmon and iio, unless each value has a path.",
    },
    Key {
        name: "hwmon",
        value: Value::Text,
        default: "",
        about: "The hwmon device whose file name says this (\"lm75\"), whatever its number. Without file or value, all its \
                *_input files are read, named by their labels.",
    },
    Key {
        name: "iio",
        value: Value::Text,
        default: "",
        about: "The IIO device whose file name or label says this (\"mpu6050\"), whatever its number. Without file or \
                value, all its channels are read, in the units of the kernel's ABI.",
    },
    Key {
        name: "device",
        value: Value::Text,
        default: "the only one",
        about: "Which of several devices with that name: the kernel's name of what it belongs to (\"0-0048\"). Only with \
                hwmon or iio.",
    },
    Key {
        name: "file",
        value: Value::Text,
        default: "all that hold values",
        about: "The file of the device (\"temp1_input\"). Only with hwmon or iio.",
    },
    LINE,
    FIELD,
    SCALE,
    OFFSET,
    PER_SECOND,
    Key {
        name: "name",
        value: Value::Text,
        default: "\"value\", or by the file's name",
        about: "Name of the value, in every output.",
    },
    UNIT,
    Key {
        name: "value",
        value: Value::Tables(VALUE_KEYS),
        default: "one, by the keys above",
        about: "Several values in one tick. A file that several come from is read once. Values of one table are written \
                under [[task.NAME.value]].",
    },
    Key {
        // As it is said of every kind, and then what holds for sensors alone.
        about: "What to do where the device is not there at the start: refuse to start, or start and look for it. One \
                that goes later is always looked for. \"wait\" needs to know the values: by path, file, value or channels.",
        ..Missing::KEY
    },
    Key {
        name: "buffered",
        value: Value::Bool,
        default: "false",
        about: "Whether to take all samples that the IIO device puts into its buffer, instead of one reading per tick. \
                Only with iio.",
    },
    Key {
        name: "trigger",
        value: Value::Text,
        default: "the one that is set, else the device's own",
        about: "The trigger that asks for samples, by its name. Only with buffered.",
    },
    Key {
        name: "channels",
        value: Value::Texts,
        default: "all that can be captured",
        about: "The channels to capture, as the kernel names their files ([\"in_accel_x\"]). Only with buffered.",
    },
    Key {
        name: "buffer-length",
        value: Value::Integer { min: *LENGTH.start(), max: *LENGTH.end() },
        default: "1024",
        about: "Samples that the kernel keeps until the next tick takes them, rounded up to a power of two; what comes when \
                it is full is lost. Only with buffered.",
    },
    Key {
        name: "sampling-frequency",
        value: Value::Number,
        default: "as it is set",
        about: "Samples per second; above zero. Set on the trigger or, where that has none, on the device. Only with \
                buffered.",
    },
];

const LENGTH: std::ops::RangeInclusive<i64> = 2..=1_048_576;

const VALUE_KEYS: &[Key] = &[
    Key {
        name: "path",
        value: Value::Path,
        default: "the task's",
        about: "The file the number is in. Not with hwmon or iio.",
    },
    Key {
        name: "file",
        value: Value::Text,
        default: "the task's",
        about: "The file of the device. Only with hwmon or iio.",
    },
    LINE,
    FIELD,
    SCALE,
    OFFSET,
    PER_SECOND,
    Key {
        name: "name",
        value: Value::Text,
        default: "by the file's name",
        about: "Name of the value, unique in the task. Required with path.",
    },
    UNIT,
];

/// Keys of one value, which stand in the task's table or in one of the value's own.
const OF_A_VALUE: &[&str] = &["line", "field", "scale", "offset", "per-second", "name", "unit"];

/// What cannot be in the name of a field.
const ENDS_A_NAME: &[char] = &[' ', '\t', '\n', ':', '='];

/// Keys of a buffer.
const OF_A_BUFFER: &[&str] = &["trigger", "channels", "buffer-length", "sampling-frequency"];

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let source = match (source(section)?, section.boolean("buffered").unwrap_or(false)) {
        (Source::Iio(wanted), true) => return buffered(section, wanted),
        (source, asked) => {
            section.refuse_idle("buffered", asked, "without iio");
            source
        }
    };
    for key in OF_A_BUFFER {
        section.refuse_idle(key, true, "without buffered = true");
    }
    let of_a_device = source != Source::Files;
    if section.has("file") && !of_a_device {
        section.refuse_idle("file", true, "without hwmon or iio");
    }
    section.refuse_idle("device", !of_a_device, "without hwmon or iio");
    let listed = section.has("value");
    let values = match listed {
        true => listed_values(section, of_a_device)?,
        false if of_a_device && !section.has("file") => {
            for key in OF_A_VALUE {
                section.refuse_idle(key, true, "without file; each value has its own by the files' names");
            }
            Vec::new()
        }
        false => vec![value(section, of_a_device)?],
    };
    let missing = missing(section, !values.is_empty(), "file, or a table for each under [[task.NAME.value]]");
    let task = section.place().to_owned();
    let settings = SensorSettings { source, values, listed, missing };
    Some(Blueprint::new(move || open(settings, &task)))
}

fn buffered(section: &mut Section<'_>, wanted: ByName) -> Option<Blueprint> {
    for key in OF_A_VALUE.iter().chain(&["file", "value"]) {
        section.refuse_idle(key, true, "with buffered = true; the values are the channels");
    }
    let trigger = section.text("trigger");
    let channels = section.texts("channels");
    if channels.iter().flatten().any(|channel| channel == "in_timestamp") {
        section.problem("channels", "the time of each sample is captured in any case; leave \"in_timestamp\" out");
    }
    let length = section.integer("buffer-length", LENGTH).and_then(|length| u32::try_from(length).ok());
    let sampling_frequency = section.number("sampling-frequency");
    if sampling_frequency.is_some_and(|frequency| frequency <= 0.0) {
        section.problem("sampling-frequency", "must be above zero");
    }
    let missing = missing(section, channels.is_some(), "channels");
    let settings = BufferSettings {
        trigger,
        channels: channels.unwrap_or_default(),
        length: length.unwrap_or(1_024),
        sampling_frequency,
    };
    let source = Source::Buffer(wanted, settings);
    let task = section.place().to_owned();
    let settings = SensorSettings { source, values: Vec::new(), listed: false, missing };
    Some(Blueprint::new(move || open(settings, &task)))
}

fn missing(section: &mut Section<'_>, are_known: bool, wanted: &str) -> Missing {
    let missing = Missing::of(section);
    if missing == Missing::Wait && !are_known {
        section.problem("missing", format!("needs to know the values beforehand; write {wanted}"));
    }
    missing
}

fn source(section: &mut Section<'_>) -> Option<Source> {
    let mut clash = false;
    for (one, other) in [("path", "hwmon"), ("path", "iio"), ("hwmon", "iio")] {
        clash |= section.refuse_both(one, other);
    }
    if clash {
        return None;
    }
    let device = section.text("device");
    for (key, made) in [("hwmon", Source::Hwmon as fn(ByName) -> Source), ("iio", Source::Iio)] {
        if section.has(key) {
            let name = section.text(key)?;
            if name.is_empty() {
                section.problem(key, "must not be empty");
            }
            return Some(made(ByName { name, device }));
        }
    }
    if !section.has("value") {
        section.require("path", "the file to poll, such as \"/proc/loadavg\"; or hwmon or iio, with a device's name");
    }
    Some(Source::Files)
}

fn listed_values(section: &mut Section<'_>, of_a_device: bool) -> Option<Vec<ValueSettings>> {
    for key in OF_A_VALUE {
        section.refuse_idle(key, true, "beside value; write it in the tables of the values");
    }
    let key = if of_a_device { "file" } else { "path" };
    let (common_path, common_file) = (section.path("path"), section.text("file"));
    let common = common_path.or(common_file.map(Into::into));
    let tables = section.tables("value", VALUE_KEYS);
    let (count, mut names) = (tables.len(), BTreeSet::new());
    let mut values = Vec::with_capacity(count);
    for mut table in tables {
        table.refuse_idle("path", of_a_device, "beside hwmon or iio, which say where; write file");
        table.refuse_idle("file", !of_a_device, "without hwmon or iio; write path");
        if common.is_none() {
            table.require(key, "the file the number is in");
        }
        if !of_a_device {
            table.require("name", "what the value is called");
        }
        if let Some(mut value) = value(&mut table, of_a_device) {
            if !table.has(key)
                && let Some(common) = &common
            {
                value.file.clone_from(common);
            }
            if value.name.as_ref().is_some_and(|name| !names.insert(name.clone())) {
                table.problem("name", "another value of this task has this name");
            }
            values.push(value);
        }
        section.absorb(table);
    }
    (count > 0 && values.len() == count).then_some(values)
}

/// The keys of one value; the file is empty when it is not written.
fn value(section: &mut Section<'_>, of_a_device: bool) -> Option<ValueSettings> {
    let line = match section.is_text("line") {
        true => section.text("line").map(LineSelector::Prefix),
        false => {
            section.integer("line", 1..=100_000).and_then(|line| usize::try_from(line).ok()).map(LineSelector::Number)
        }
    };
    if matches!(&line, Some(LineSelector::Prefix(text)) if text.trim().is_empty()) {
        section.problem("line", "must be a number from 1, or the text that the line starts with");
    }
    let scale = section.number("scale");
    if scale == Some(0.0) {
        section.problem("scale", "must not be zero");
    }
    let name = section.value_name("name");
    let file = match of_a_device {
        true => section.text("file").map(Into::into),
        false => section.path("path"),
    };
    let is_plain = |file: &str| !file.is_empty() && !file.contains(['/', '\0']) && file != "." && file != "..";
    if of_a_device && file.as_ref().is_some_and(|file: &std::path::PathBuf| !file.to_str().is_some_and(is_plain)) {
        section.problem("file", "must be the name of a file in the device's folder, such as \"temp1_input\"");
    }
    let default = ValueLocator::default();
    let field = match section.is_text("field") {
        true => section.text("field").map(FieldSelector::Name),
        false => section.integer("field", 1..=1_000).and_then(|n| usize::try_from(n).ok()).map(FieldSelector::Number),
    };
    if matches!(&field, Some(FieldSelector::Name(name)) if name.is_empty() || name.contains(ENDS_A_NAME)) {
        section.problem("field", "must be a number from 1, or the name before an equals sign (\"avg10\")");
    }
    let per_second = section.boolean("per-second").unwrap_or_default();
    section.refuse_idle("offset", per_second, "with per-second = true");
    let locator = ValueLocator { line: line.unwrap_or(default.line), field: field.unwrap_or(default.field) };
    let (offset, unit) = (section.number("offset"), section.text("unit"));
    let key = if of_a_device { "file" } else { "path" };
    match file {
        None if section.has(key) => None, // noted
        file => Some(ValueSettings { file: file.unwrap_or_default(), locator, scale, offset, per_second, name, unit }),
    }
}
