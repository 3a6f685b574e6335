//! The keys of the kind `i2c`, and how a section becomes a task.

use super::bus::Bus;
use super::value::{Form, Number, Register};
use super::{I2c, Settings};
use crate::config::{Blueprint, Kind};
use crate::config::{Key, Section, Value};
use crate::kinds::device::{Label, Missing};
use crate::task::Task;
use serde::Deserialize;
use std::collections::BTreeSet;

const FORMS: [&str; Form::ALL.len()] = {
    let mut names = [""; Form::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Form::ALL[index].0;
        index += 1;
    }
    names
};

const REGISTER: Key = Key {
    name: "register",
    value: Value::Integer { min: 0, max: 0xff },
    default: "",
    about: "The register the value begins in, 0x00 to 0xff. Required.",
};
const TYPE: Key = Key {
    name: "type",
    value: Value::Choice(&FORMS),
    default: "",
    about: "How the number lies in its bytes: unsigned, signed or floating, its bits, and the high (be) or the low byte \
            (le) first. Required.",
};
const BITS: Key = Key {
    name: "bits",
    value: Value::Integer { min: 1, max: 64 },
    default: "all above shift",
    about: "How many bits count; of a signed number the highest of them is the sign. Not for floating types.",
};
const SHIFT: Key = Key {
    name: "shift",
    value: Value::Integer { min: 0, max: 63 },
    default: "0",
    about: "How many bits at the low end do not count: 5 for a number of 11 bits at the left of 16. Not for floating types.",
};
const SCALE: Key =
    Key { name: "scale", value: Value::Number, default: "1", about: "What the number is multiplied by; not zero." };
const OFFSET: Key = Key { name: "offset", value: Value::Number, default: "0", about: "What is added after that." };
const NAME: Key =
    Key { name: "name", value: Value::Text, default: "\"value\"", about: "Name of the value, in every output." };
const UNIT: Key = Key {
    name: "unit",
    value: Value::Text,
    default: "\"\"",
    about: "Unit of the value after scaling; empty for a plain number.",
};

const KEYS: &[Key] = &[
    Key {
        name: "bus",
        value: Value::IntegerOrText { min: 0, max: u32::MAX as i64 },
        default: "",
        about: "The bus: its number, its node (\"/dev/i2c-1\"), or the name of its adapter as `hertzd devices` shows it, \
                which stays the same when numbers change. Required.",
    },
    Key {
        name: "address",
        value: Value::Integer { min: 0x03, max: 0x77 },
        default: "",
        about: "The chip's address in 7 bits, 0x03 to 0x77. Required.",
    },
    Key {
        name: "force-address",
        value: Value::Bool,
        default: "false",
        about: "Whether to take the address though a driver of the kernel has it. The two then disturb each other where \
                reading changes something.",
    },
    Key {
        name: "auto-increment",
        value: Value::Bool,
        default: "false",
        about: "Whether the chip goes on to its next register after each byte, as most motion sensors do: then \
                neighbouring registers are read as one piece, all of one sample.",
    },
    Key {
        name: "init",
        value: Value::Any,
        default: "",
        about: "What is written each time the chip has been opened, in order: a list of lists of 1 to 33 bytes, the first \
                of each the register ([[0x6b, 0x00]]).",
    },
    REGISTER,
    TYPE,
    BITS,
    SHIFT,
    SCALE,
    OFFSET,
    NAME,
    UNIT,
    Key {
        name: "value",
        value: Value::Tables(VALUE_KEYS),
        default: "one, by the keys above",
        about: "Several values in one tick. Those of one table are written under [[task.NAME.value]].",
    },
    Missing::KEY,
];

const VALUE_KEYS: &[Key] = &[
    REGISTER,
    TYPE,
    BITS,
    SHIFT,
    SCALE,
    OFFSET,
    Key { name: "name", value: Value::Text, default: "", about: "Name of the value, unique in the task. Required." },
    UNIT,
];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("i2c", "Reads registers of a chip on an I²C bus.", KEYS, parse)
}

#[derive(Deserialize)]
struct Init {
    #[serde(default)]
    init: Vec<Vec<u8>>,
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    section.require("bus", "the bus's number, such as 1, its node, or its adapter's name");
    section.require("address", "the chip's address, such as 0x48");
    let bus = match section.is_text("bus") {
        true => section.text("bus").map(Bus::of),
        false => section.integer("bus", 0..=u32::MAX.into()).and_then(|bus| u32::try_from(bus).ok()).map(Bus::Number),
    };
    if matches!(&bus, Some(Bus::Name(name)) if name.is_empty()) {
        section.problem("bus", "must not be empty");
    }
    let address = section.integer("address", 0x03..=0x77).and_then(|address| u8::try_from(address).ok());
    let init = section.deserialize::<Init>(|key| key == "init").map(|read| read.init).unwrap_or_default();
    if init.iter().any(|bytes| !(1..=33).contains(&bytes.len())) {
        section.problem("init", "must hold lists of 1 to 33 bytes, the first of each the register");
    }
    let force = section.boolean("force-address").unwrap_or_default();
    let auto_increment = section.boolean("auto-increment").unwrap_or_default();
    let missing = Missing::of(section);
    let values = if section.has("value") { values(section) } else { value(section).map(|value| vec![value]) };
    let (bus, address, values) = (bus?, address?, values?);
    let label = Label::new(format!("chip {address:#04x} on {bus}"), section.place());
    let settings = Settings { bus, address, force, auto_increment, init, values };
    Some(Blueprint::new(move || Ok(Box::new(I2c::open(label, settings, missing)?) as Box<dyn Task>)))
}

/// The values that the tables of a section describe.
fn values(section: &mut Section<'_>) -> Option<Vec<Register>> {
    for key in VALUE_KEYS {
        section.refuse_idle(key.name, true, "beside value; write it in the tables of the values");
    }
    let tables = section.tables("value", VALUE_KEYS);
    let (count, mut names) = (tables.len(), BTreeSet::new());
    let mut values = Vec::with_capacity(count);
    for mut table in tables {
        table.require("name", "what the value is called");
        if let Some(value) = value(&mut table) {
            if table.has("name") && !names.insert(value.name.clone()) {
                table.problem("name", "another value of this task has this name");
            }
            values.push(value);
        }
        section.absorb(table);
    }
    (count > 0 && values.len() == count).then_some(values)
}

/// The value that a section describes.
fn value(section: &mut Section<'_>) -> Option<Register> {
    section.require("register", "the register the value begins in, such as 0x00");
    section.require("type", "how the number lies in its bytes, such as \"s16be\"");
    let register = section.integer("register", 0..=0xff).and_then(|register| u8::try_from(register).ok());
    let form = section.choice("type", &Form::ALL);
    let count = |section: &mut Section<'_>, key, range| section.integer(key, range).and_then(|n| u32::try_from(n).ok());
    let (shift, bits) = (count(section, "shift", 0..=63), count(section, "bits", 1..=64));
    let scale = section.number("scale");
    if scale == Some(0.0) {
        section.problem("scale", "must not be zero");
    }
    let name = section.value_name("name");
    let (unit, offset) = (section.text("unit"), section.number("offset"));
    let form = form?;
    if form.kind == Number::Float {
        for key in ["bits", "shift"] {
            if section.has(key) {
                section.problem(key, "has no effect on a floating type; remove it");
            }
        }
    }
    let (width, low) = (form.width(), shift.unwrap_or(0));
    if low >= width {
        section.problem("shift", format_args!("leaves none of the type's {width} bits"));
        return None;
    }
    if bits.is_some_and(|bits| bits > width - low) {
        section.problem("bits", format_args!("must be at most {}: the type's {width} bits without shift", width - low));
        return None;
    }
    Some(Register {
        register: register?,
        form,
        shift: low,
        bits: bits.unwrap_or(width - low),
        scale: scale.unwrap_or(1.0),
        offset: offset.unwrap_or(0.0),
        name: name.unwrap_or_else(|| "value".into()),
        unit: unit.unwrap_or_default(),
    })
}
