//! The keys of the kind `sensor`, and how a section becomes a task. Pure: no device is opened.

use super::find::ByName;
use super::follow::can_be_replaced;
use super::locator::{FieldSelector, LineSelector, ValueLocator};
use super::number::Counts;
use super::open::{look, open};
use super::plan::ReadPlan;
use super::settings::{BufferSettings, SensorSettings, Source, ValueSettings};
use crate::config::{Blueprint, Key, Kind, NumberOrName, Rule, Section, Value, words};
use crate::kinds::device::{FIRST_VALUE, Missing};
use crate::time::Span;
use serde_json::json;
use std::collections::BTreeSet;

const ABOUT: &str = "Polls values from files of /proc or /sys, or from a hwmon or IIO device that it finds by name.";

/// The kind, for the registry.
pub(in crate::kinds) fn kind() -> Kind {
    let field = json!({"not": {"type": "string", "pattern": "[ \\t\\n:=]"}});
    Kind::new("sensor", ABOUT, KEYS, parse).also(json!({"properties": {
        "field": field,
        "value": {"items": {"properties": {"field": field}}},
        "channels": {"not": {"contains": {"const": "in_timestamp"}}},
    }}))
}

const PATH: Key = Key::new(
    "path",
    Value::Path,
    "The file to poll. It must allow reading at a position, as files of `/proc` and `/sys` do and pipes do not. It is \
     opened once, before the start, and read again at every tick.",
)
.required_unless(
    &["hwmon", "iio", "value"],
    "name the file to poll, such as \"/proc/loadavg\"; or a device, with hwmon or iio",
)
.excludes(&["hwmon", "iio"]);
const HWMON: Key = Key::new(
    "hwmon",
    Value::Name,
    "The hwmon device with this name in its file `name` (`\"lm75\"`), regardless of its number. Without `file` or \
     `value` all its `*_input` files are read, and `*_average` where there is no such file, each named by its label or its file.",
)
.excludes(&["iio"]);
const IIO: Key = Key::new(
    "iio",
    Value::Name,
    "The IIO device with this name in its file `name` or `label` (`\"mpu6050\"`), regardless of its number. Without `file` or \
     `value` all its channels are read, each raw value with its offset and scale, in the unit that the kernel's ABI gives.",
);
const WITH_DEVICE: Rule = Rule::with(&["hwmon", "iio"]);
const POLLED: Rule = Rule::when_off("buffered").advice("the values are the channels; remove it");
const BUFFER_ONLY: &[Rule] = &[Rule::when_on("buffered")];
/// Rules for the keys of a single value when they stand in the task's table.
const ONE_VALUE: [Rule; 3] = [
    POLLED,
    Rule::without(&["value"]).advice("write it in the tables of the values"),
    Rule::with(&["path", "file"])
        .message("has no effect without file; each value has its own by the files' names; remove it"),
];
const NO_COUNTER: Rule = Rule::when_off("per-second");
const DEVICE: Key = Key::new(
    "device",
    Value::Name,
    "Which of several devices with that name. These stay from boot to boot: its serial number, its PCI address \
     (`\"0000:01:00.0\"`), or a link to a drive (`\"/dev/disk/by-id/…\"`). These may change: the kernel's name of its parent \
     (`\"0-0048\"` on I²C bus 0, `\"nvme0\"`), or its own if it has none. `hertzd devices` and the error list them.",
)
.otherwise("the only one")
.rules(&[WITH_DEVICE]);
const FILE: Key =
    Key::new("file", Value::FileName, "The file of the device (`\"temp1_input\"`, `\"in_accel_x_raw\"`).")
        .otherwise("all that hold values")
        .rules(&[WITH_DEVICE, POLLED]);
const LINE: Key = Key::new(
    "line",
    Value::NumberOrName { min: 1, max: 100_000 },
    "The line that the number is in: its number, or the text that it starts with (`\"MemAvailable:\"`). The text must end \
     where a field ends, so `\"cpu1\"` does not find `cpu10`.",
)
.default("1");
const FIELD: Key = Key::new(
    "field",
    Value::NumberOrName { min: 1, max: 1_000 },
    "The field of the line: its number, or its name before an equals sign (`\"avg10\"` for `avg10=0.25`). Fields are \
     separated by spaces and colons. In a line found by its text, fields count from the end of that text.",
)
.default("1");
const SCALE: Key = Key::new(
    "scale",
    Value::Factor,
    "What the number is multiplied by. A file of hwmon or IIO has scale and unit by its name, unless one of the two is \
     written; the other is then `1` or empty.",
)
.otherwise("`1`, or by the file's name");
const OFFSET: Key = Key::new("offset", Value::Number, "What is added after that, in the unit of the value.")
    .otherwise("`0`")
    .rules(&[NO_COUNTER]);
const PER_SECOND: Key = Key::new(
    "per-second",
    Value::Bool,
    "Whether the number is a counter and the value its rate per second since the last reading, times `scale`, over wraps \
     at 32 and 64 bits. No value at the first tick and after a reset.",
)
.default("false");
const COUNTS: [(&str, Counts); 2] = [("up", Counts::Up), ("both", Counts::Both)];
const COUNTER: Key = Key::new(
    "counter",
    Value::Choice(&words(&COUNTS)),
    "`\"up\"`: a smaller number than before is a reset, and there is no value. `\"both\"`: the counter may run backwards, as that of a shaft, and \
     its rate is then negative.",
)
.default("\"up\"")
.rules(&[Rule::when_on("per-second")]);
const NAME: Key = Key::new(
    "name",
    Value::ValueName,
    "Name of the value in every output: by default `temp1` for `temp1_input`, `accel_x` for `in_accel_x_raw`.",
)
.otherwise("`\"value\"`, or by the file's name");
const UNIT: Key = Key::new("unit", Value::Text, "Unit of the value after scaling; empty for a plain number.")
    .otherwise("`\"\"`, or by the file's name");
const VALUE: Key = Key::new(
    "value",
    Value::Tables(VALUE_KEYS),
    "Several values in one tick, each in a table of its own. A file that several values come from is read once a tick.",
)
.otherwise("one, by the keys above")
.rules(&[POLLED]);
const MISSING: Key = Missing::KEY
    .rules(&[Rule::with(&["path", "file", "value", "channels"]).for_word("wait").message(
    "needs to know the values beforehand; write file, or a table for each under [[task.NAME.value]], or channels if \
     buffered = true",
)]);
/// The default of `max-file-age`, if ten periods are no longer.
const USUAL_AGE: Span = Span::from_seconds(60);
const MAX_FILE_AGE: Key = Key::new(
    "max-file-age",
    Value::DurationOrOff,
    "How long ago a regular file may have been written: an older one has no value, since the program that writes it may have ended. `\"off\"` is \
     for a file that a person edits. Files in `/proc` and `/sys` have no age.",
)
.otherwise("60 s, or ten periods if that is longer")
.rules(&[Rule::without(&["hwmon", "iio"])]);
const BUFFERED: Key = Key::new(
    "buffered",
    Value::Bool,
    "Whether to take all samples that the IIO device has buffered since the last tick, instead of one reading per tick. \
     Reported are the mean of each channel, and `samples`, `overflows` and `gaps` since the start.",
)
.default("false")
.rules(&[Rule::with(&["iio"])]);
const TRIGGER: Key = Key::new("trigger", Value::Name, "The trigger that starts each sample, by its name.")
    .otherwise("the one that is set, else the device's own")
    .rules(BUFFER_ONLY);
const CHANNELS: Key = Key::new(
    "channels",
    Value::Texts,
    "The channels, as the kernel names their files (`[\"in_accel_x\"]`). The time of each sample is captured as well, if \
     the device has it.",
)
.otherwise("all that can be captured")
.rules(BUFFER_ONLY);
const BUFFER_LENGTH: Key = Key::new(
    "buffer-length",
    Value::Integer { min: 2, max: 1_048_576 },
    "Samples that the kernel keeps until the next tick takes them, rounded up to a power of two. Samples that come when it \
     is full are lost.",
)
.default("1024")
.rules(BUFFER_ONLY);
const SAMPLING_FREQUENCY: Key = Key::new(
    "sampling-frequency",
    Value::Positive,
    "Samples per second. Set on the trigger or, if that has no such setting, on the device.",
)
.otherwise("as it is set")
.rules(BUFFER_ONLY);

const KEYS: &[Key] = &[
    PATH,
    HWMON,
    IIO,
    DEVICE,
    FILE,
    LINE.rules(&ONE_VALUE),
    FIELD.rules(&ONE_VALUE),
    SCALE.rules(&ONE_VALUE),
    OFFSET.rules(&[ONE_VALUE[0], ONE_VALUE[1], ONE_VALUE[2], NO_COUNTER]),
    PER_SECOND.rules(&ONE_VALUE),
    COUNTER.rules(&[ONE_VALUE[0], ONE_VALUE[1], ONE_VALUE[2], Rule::when_on("per-second")]),
    NAME.rules(&ONE_VALUE),
    UNIT.rules(&ONE_VALUE),
    VALUE,
    MAX_FILE_AGE,
    MISSING,
    BUFFERED,
    TRIGGER,
    CHANNELS,
    BUFFER_LENGTH,
    SAMPLING_FREQUENCY,
];

const VALUE_KEYS: &[Key] = &[
    Key::new("path", Value::Path, "The file that the number is in.")
        .required_unless(&["../path"], "name the file that the number is in")
        .rules(&[Rule::without(&["../hwmon", "../iio"]).advice("write file")]),
    Key::new("file", Value::FileName, "The file of the device.")
        .required_unless(&["../file"], "name the file that the number is in")
        .rules(&[Rule::with(&["../hwmon", "../iio"]).advice("write path")]),
    LINE,
    FIELD,
    SCALE,
    OFFSET,
    PER_SECOND,
    COUNTER,
    NAME.required_unless(&["../hwmon", "../iio"], "say what the value is called"),
    UNIT,
];

/// Characters that a field's name cannot contain.
const ENDS_A_NAME: &[char] = &[' ', '\t', '\n', ':', '='];

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let source = match (source(section)?, section.boolean(&BUFFERED)) {
        (Source::Iio(wanted), Some(true)) => return buffered(section, wanted),
        (source, _) => source,
    };
    let of_a_device = source != Source::Files;
    let listed = section.has(&VALUE);
    let values = match listed {
        true => listed_values(section, of_a_device)?,
        false if of_a_device && !section.has(&FILE) => Vec::new(),
        false => vec![value(section, of_a_device)?],
    };
    let is_usual_age = !section.has(&MAX_FILE_AGE);
    let usual = || Some(Span::from_nanos(section.period()?.nanos().saturating_mul(10)).max(USUAL_AGE));
    let max_file_age = match source {
        Source::Files if is_usual_age => usual(),
        Source::Files => section.duration_or_off(&MAX_FILE_AGE)?,
        _ => None,
    };
    if source == Source::Files && !is_usual_age && values.iter().all(|value| !can_be_replaced(&value.file)) {
        section.problem(
            &MAX_FILE_AGE,
            "has no effect on files in /proc and /sys, which the kernel makes when they are read; remove it",
        );
    }
    let task = section.name().to_owned();
    let missing = Missing::of(section);
    Some(blueprint(SensorSettings { source, values, listed, missing, max_file_age, is_usual_age }, task))
}

fn blueprint(settings: SensorSettings, task: String) -> Blueprint {
    let (looked, of, written) = (settings.clone(), task.clone(), settings.clone());
    let unit = move |value: &str| ReadPlan::unit(&written, value);
    Blueprint::new(move |site| open(site, settings, &task))
        .looking(move |site| look(site, looked, &of))
        .with_units(unit)
        .first_value_within(FIRST_VALUE)
}

fn buffered(section: &mut Section<'_>, wanted: ByName) -> Option<Blueprint> {
    let trigger = section.text(&TRIGGER);
    let channels = section.texts(&CHANNELS);
    if channels.iter().flatten().any(|channel| channel == "in_timestamp") {
        section.problem(&CHANNELS, "the time of each sample is captured in any case; leave \"in_timestamp\" out");
    }
    let (length, sampling_frequency) = (section.integer(&BUFFER_LENGTH), section.number(&SAMPLING_FREQUENCY));
    let settings =
        BufferSettings { trigger, channels: channels.unwrap_or_default(), length: length?, sampling_frequency };
    let source = Source::Buffer(wanted, settings);
    let task = section.name().to_owned();
    let (values, missing) = (Vec::new(), Missing::of(section));
    let settings = SensorSettings { source, values, listed: false, missing, max_file_age: None, is_usual_age: false };
    // The oldest sample of a tick came right after the tick before.
    Some(blueprint(settings, task).holding(section.period()?))
}

fn source(section: &mut Section<'_>) -> Option<Source> {
    let device = section.text(&DEVICE);
    let source: fn(ByName) -> Source = if section.has(&HWMON) { Source::Hwmon } else { Source::Iio };
    match section.has(&HWMON) || section.has(&IIO) {
        true => {
            section.text(if section.has(&HWMON) { &HWMON } else { &IIO }).map(|name| source(ByName { name, device }))
        }
        false => Some(Source::Files),
    }
}

fn listed_values(section: &mut Section<'_>, of_a_device: bool) -> Option<Vec<ValueSettings>> {
    let key = if of_a_device { FILE } else { PATH };
    let common = section.path(&key);
    let tables = section.tables(&VALUE);
    let (count, mut names) = (tables.len(), BTreeSet::new());
    let mut values = Vec::with_capacity(count);
    for mut table in tables {
        if let Some(mut value) = value(&mut table, of_a_device) {
            if !table.has(&key)
                && let Some(common) = &common
            {
                value.file.clone_from(common);
            }
            if value.name.as_ref().is_some_and(|name| !names.insert(name.clone())) {
                table.problem(&NAME, "another value of this task has this name");
            }
            values.push(value);
        }
        section.absorb(table);
    }
    (count > 0 && values.len() == count).then_some(values)
}

/// Reads the keys of one value. The file is empty if it is not given.
fn value(section: &mut Section<'_>, of_a_device: bool) -> Option<ValueSettings> {
    let key = if of_a_device { FILE } else { PATH };
    let file = section.path(&key);
    let line = section.number_or_name(&LINE).and_then(|line| match line {
        NumberOrName::Number(line) => usize::try_from(line).ok().map(LineSelector::Number),
        NumberOrName::Name(text) => Some(LineSelector::Prefix(text)),
    });
    let field = section.number_or_name(&FIELD).and_then(|field| match field {
        NumberOrName::Number(field) => usize::try_from(field).ok().map(FieldSelector::Number),
        NumberOrName::Name(name) => Some(FieldSelector::Name(name)),
    });
    if matches!(&field, Some(FieldSelector::Name(name)) if name.contains(ENDS_A_NAME)) {
        section.problem(&FIELD, "must be a number from 1, or the name before an equals sign (\"avg10\")");
    }
    let (scale, offset) = (section.number(&SCALE), section.number(&OFFSET));
    let (per_second, counter) = (section.boolean(&PER_SECOND), section.choice(&COUNTER, &COUNTS));
    let (name, unit) = (section.text(&NAME), section.text(&UNIT));
    if file.is_none() && section.has(&key) {
        return None; // already reported
    }
    let (locator, per_second) =
        (ValueLocator { line: line?, field: field? }, counter.filter(|_| per_second == Some(true)));
    Some(ValueSettings { file: file.unwrap_or_default(), locator, scale, offset, per_second, name, unit })
}
