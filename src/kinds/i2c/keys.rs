//! The keys of the kind `i2c`, and how a section becomes a task.

use super::bus::Bus;
use super::register::Register;
use super::{ChipSettings, I2c};
use crate::config::{Blueprint, Key, Kind, Rule, Section, Value, words};
use crate::kinds::device::{FIRST_VALUE, Missing};
use crate::kinds::layout::TYPES;
use crate::kinds::register::seven_bits;
use crate::site::{Label, Site};
use std::collections::BTreeSet;

const REGISTER: Key =
    Key::new("register", Value::Integer { min: 0, max: 0xff }, "The register that the value begins in: `0x3b`.")
        .required(REGISTER_HINT);
const REGISTER_HINT: &str = "write the register that the value begins in, such as 0x00";
const TYPE: Key = Key::new(
    "type",
    Value::Choice(&words(&TYPES)),
    "How the number is stored: unsigned, signed or floating, its bits, and the high (`be`) or the low byte (`le`) first.",
)
.required(TYPE_HINT);
const TYPE_HINT: &str = "say how the number is stored, such as \"s16be\"";
const BITS: Key = Key::new(
    "bits",
    Value::Integer { min: 1, max: 64 },
    "How many bits belong to the number; of a signed number the highest of them is the sign.",
)
.otherwise("all above `shift`")
.rules(&[NOT_FLOATING]);
const SHIFT: Key = Key::new(
    "shift",
    Value::Integer { min: 0, max: 63 },
    "How many bits at the low end to ignore: 5 for a number of 11 bits at the left of 16.",
)
.default("0")
.rules(&[NOT_FLOATING]);
const SCALE: Key = Key::new("scale", Value::Factor, "What the number is multiplied by.").default("1");
const OFFSET: Key =
    Key::new("offset", Value::Number, "What is added after that, in the unit of the value.").default("0");
const NAME: Key = Key::new("name", Value::ValueName, "Name of the value in every output.").default("\"value\"");
const UNIT: Key =
    Key::new("unit", Value::Text, "Unit of the value after scaling; empty for a plain number.").default("\"\"");

const NOT_FLOATING: Rule =
    Rule::unless("type", &["f32be", "f32le", "f64be", "f64le"]).message("has no effect on a floating type; remove it");
const ONE_VALUE: Rule = Rule::without(&["value"]).advice("write it in the tables of the values");

const BUS: Key = Key::new(
    "bus",
    Value::NumberOrName { min: 0, max: u32::MAX as i64 },
    "The bus: its number (`1`), its device file (`\"/dev/i2c-1\"`), or the name of its adapter (`\"SMBus I801 adapter at \
     0700\"`), which stays the same when numbers change. Where several have one name: the PCI address, the serial number or the platform \
     name (`\"fe804000.i2c\"`) of the adapter's device. `hertzd devices` shows the one to use.",
)
.required("write the bus's number, such as 1, its device file, or its adapter's name");
const ADDRESS: Key =
    Key::new("address", Value::Integer { min: 0x03, max: 0x77 }, "The chip's address in 7 bits: `0x48`.")
        .required("write the chip's address, such as 0x48");
const FORCE_ADDRESS: Key = Key::new(
    "force-address",
    Value::Bool,
    "Whether to use the address although a kernel driver owns it. The two then disturb each other where reading changes \
     something. Better: read the value through that driver, with `kind = \"sensor\"`.",
)
.default("false");
const AUTO_INCREMENT: Key = Key::new(
    "auto-increment",
    Value::Bool,
    "Whether the chip moves on to its next register after each byte, as most motion sensors do (some want a bit of the \
     register's number set for it). Adjacent registers are then read in one transfer, so they belong to one sample.",
)
.default("false");
const INIT: Key = Key::new(
    "init",
    Value::Bytes { most: 33 },
    "What is written each time the chip has been opened, in order; the first byte of each list is the register: \
     `[[0x6b, 0x00]]`.",
);
const VALUE: Key = Key::new(
    "value",
    Value::Tables(VALUE_KEYS),
    "Several values in one tick, each in a table of its own; the keys from `register` to `unit` are then written there.",
)
.otherwise("one, by the keys above");

const KEYS: &[Key] = &[
    BUS,
    ADDRESS,
    FORCE_ADDRESS,
    AUTO_INCREMENT,
    INIT,
    REGISTER.required_unless(&["value"], REGISTER_HINT).rules(&[ONE_VALUE]),
    TYPE.required_unless(&["value"], TYPE_HINT).rules(&[ONE_VALUE]),
    BITS.rules(&[ONE_VALUE, NOT_FLOATING]),
    SHIFT.rules(&[ONE_VALUE, NOT_FLOATING]),
    SCALE.rules(&[ONE_VALUE]),
    OFFSET.rules(&[ONE_VALUE]),
    NAME.rules(&[ONE_VALUE]),
    UNIT.rules(&[ONE_VALUE]),
    VALUE,
    Missing::KEY,
];

const VALUE_KEYS: &[Key] =
    &[REGISTER, TYPE, BITS, SHIFT, SCALE, OFFSET, NAME.required("say what the value is called"), UNIT];

pub(in crate::kinds) fn kind() -> Kind {
    Kind::new("i2c", "Reads registers of a chip on an I²C bus.", KEYS, parse)
}

fn parse(section: &mut Section<'_>) -> Option<Blueprint> {
    let bus = section.number_or_name(&BUS).and_then(Bus::named);
    let address = section.integer_or_help(&ADDRESS, seven_bits);
    let init = section.bytes(&INIT).unwrap_or_default();
    let (force, auto_increment) = (section.boolean(&FORCE_ADDRESS), section.boolean(&AUTO_INCREMENT));
    let missing = Missing::of(section);
    let values = if section.has(&VALUE) { values(section) } else { value(section).map(|value| vec![value]) };
    let (bus, address, values): (_, u8, _) = (bus?, address?, values?);
    let label = Label::new(format!("chip {address:#04x} on {bus}"), section.name());
    let settings = ChipSettings { bus, address, force: force?, auto_increment: auto_increment?, init, values };
    let looked = (label.clone(), settings.clone());
    let columns = super::columns(&settings.values);
    let build = move |site: &mut Site| Ok(I2c::open(site, label, settings, missing)?.into());
    let look = move |site: &mut Site| I2c::look(site, &looked.0, &looked.1, missing);
    Some(Blueprint::new(build).looking(look).with_columns(columns).first_value_within(FIRST_VALUE))
}

/// The values that the tables of a section describe.
fn values(section: &mut Section<'_>) -> Option<Vec<Register>> {
    let tables = section.tables(&VALUE);
    let (count, mut names) = (tables.len(), BTreeSet::new());
    let mut values = Vec::with_capacity(count);
    for mut table in tables {
        if let Some(value) = value(&mut table) {
            if table.has(&NAME) && !names.insert(value.name.clone()) {
                table.problem(&NAME, "another value of this task has this name");
            }
            values.push(value);
        }
        section.absorb(table);
    }
    (count > 0 && values.len() == count).then_some(values)
}

/// The value that a section describes.
fn value(section: &mut Section<'_>) -> Option<Register> {
    let register = section.integer(&REGISTER);
    let layout = section.choice(&TYPE, &TYPES);
    let (shift, bits) = (section.integer(&SHIFT), section.integer(&BITS));
    let (scale, offset) = (section.number(&SCALE), section.number(&OFFSET));
    let (name, unit) = (section.text(&NAME), section.text(&UNIT));
    let layout = match layout?.part(shift?, bits) {
        Ok(layout) => layout,
        Err((key, problem)) => {
            section.problem(if key == SHIFT.name { &SHIFT } else { &BITS }, problem);
            return None;
        }
    };
    Some(Register { register: register?, layout, scale: scale?, offset: offset?, name: name?, unit: unit? })
}
