//! The keys that name an output's target, shared by the kinds that read them. Pure: nothing is opened.

use super::place::Place;
use crate::config::{Key, NumberOrName, Rule, Section, Value, words};
use crate::kinds::layout::TYPES;
use crate::kinds::register::{RegisterSettings, seven_bits};
use crate::kinds::sensor::ByName;
use crate::time::Span;

pub(super) const PATH: Key = Key::new(
    "path",
    Value::Path,
    "The file to write. An attribute of `/sys` is given whole numbers, rounded to the nearest. A regular file holds the number and a \
     newline, and nothing else; it is made if it is not there.",
)
.required_unless(
    &["hwmon", "iio", "pwm", "line", "bus"],
    "name the file to write; or a device, with hwmon, iio, pwm, line or bus",
)
.excludes(&["hwmon", "iio", "pwm", "line", "bus"]);
pub(super) const HWMON: Key = Key::new(
    "hwmon",
    Value::Name,
    "The hwmon device with this name in its file `name` (`\"nct6775\"`), regardless of its number.",
)
.excludes(&["iio", "pwm", "line", "bus"]);
pub(super) const IIO: Key = Key::new(
    "iio",
    Value::Name,
    "The IIO device with this name in its file `name` or `label` (`\"mcp4725\"`), regardless of its number.",
)
.excludes(&["pwm", "line", "bus"]);
const OF_DEVICE: &[Rule] = &[Rule::with(&["hwmon", "iio"])];
pub(super) const DEVICE: Key = Key::new(
    "device",
    Value::Name,
    "Which of several devices with that name. These stay from boot to boot: its serial number, its PCI address \
     (`\"0000:01:00.0\"`), or a link to a drive (`\"/dev/disk/by-id/…\"`). These may change: the kernel's name of its parent \
     (`\"0-0048\"` on I²C bus 0, `\"nvme0\"`), or its own if it has none. `hertzd devices` and the error list them.",
)
.otherwise("the only one")
.rules(OF_DEVICE);
pub(super) const FILE: Key = Key::new(
    "file",
    Value::FileName,
    "The file of the device. `pwm1`, `pwm2` … of hwmon go from 0 to 1, in the 255 steps of the kernel, and are set by hand (`pwmN_enable` is \
     1). `out_voltage0_raw` of IIO is in volts, `out_current0_raw` in amperes, by the channel's scale and offset. Any other is given \
     whole numbers, as the kernel wants them.",
)
.required_unless(&["path", "pwm", "line", "bus"], "name the file of the device, such as \"pwm1\" or \"out_voltage0_raw\"")
.rules(OF_DEVICE);
pub(super) const PWM: Key = Key::new(
    "pwm",
    Value::Name,
    "The PWM chip: its own name (`\"pwmchip0\"`), or that of the device that it belongs to (`\"fe20c000.pwm\"`), which does not change from \
     boot to boot. The value is the duty, from 0 to 1.",
)
.excludes(&["line", "bus"]);
pub(super) const CHANNEL: Key = Key::new(
    "channel",
    Value::Integer { min: 0, max: 1_023 },
    "The channel of the chip. It is exported, set up and enabled.",
)
.default("0")
.rules(&[Rule::with(&["pwm"])]);
pub(super) const PWM_PERIOD: Key = Key::new(
    "pwm-period",
    Value::Duration { min: Span::from_nanos(1), max: Span::from_seconds(1_000) },
    "The period of the channel (`\"40us\"` is 25 kHz).",
)
.required_unless(&["path", "hwmon", "iio", "line", "bus"], "write it, such as \"40us\"")
.rules(&[Rule::with(&["pwm"])]);
const OF_LINE: &[Rule] = &[Rule::with(&["line"])];
pub(super) const CHIP: Key = Key::new(
    "chip",
    Value::Name,
    "The GPIO chip of the line: its name (`\"gpiochip0\"`), its label, which stays the same when numbers change, or its device file. Can be \
     left out when the line is given by its name.",
)
.otherwise("the one that has this line")
.rules(OF_LINE);
pub(super) const LINE: Key = Key::new(
    "line",
    Value::NumberOrName { min: 0, max: u32::MAX as i64 },
    "The GPIO line, by its offset or its name: `3`, `\"relay\"`. It becomes an output. A value above 0.5 is on, any other is off.",
)
.excludes(&["bus"]);
pub(super) const ACTIVE_LOW: Key =
    Key::new("active-low", Value::Bool, "Whether the line is low when it is on.").default("false").rules(OF_LINE);
const OF_BUS: Rule = Rule::with(&["bus"]);
const NOT_A_BUS: &[&str] = &["path", "hwmon", "iio", "pwm", "line"];
pub(super) const BUS: Key = Key::new(
    "bus",
    Value::NumberOrName { min: 0, max: u32::MAX as i64 },
    "The I²C bus of the chip whose register is written: its number (`1`), its device file (`\"/dev/i2c-1\"`), or the name of its adapter, \
     which `hertzd devices` shows and which stays the same when numbers change.",
);
pub(super) const ADDRESS: Key =
    Key::new("address", Value::Integer { min: 0x03, max: 0x77 }, "The chip's address in 7 bits: `0x48`.")
        .required_unless(NOT_A_BUS, "write the chip's address, such as 0x48")
        .rules(&[OF_BUS]);
pub(super) const REGISTER: Key =
    Key::new("register", Value::Integer { min: 0, max: 0xff }, "The register that the value begins in: `0x40`.")
        .required_unless(NOT_A_BUS, "write the register that the value begins in, such as 0x00")
        .rules(&[OF_BUS]);
const FLOATING: Rule =
    Rule::unless("type", &["f32be", "f32le", "f64be", "f64le"]).message("has no effect on a floating type; remove it");
pub(super) const TYPE: Key = Key::new(
    "type",
    Value::Choice(&words(&TYPES)),
    "How the number is stored: unsigned, signed or floating, its bits, and the high (`be`) or the low byte (`le`) first. Whole numbers are \
     rounded to the nearest. The value stays within what can be stored.",
)
.required_unless(NOT_A_BUS, "say how the number is stored, such as \"u16be\"")
.rules(&[OF_BUS]);
pub(super) const BITS: Key = Key::new(
    "bits",
    Value::Integer { min: 1, max: 64 },
    "How many bits belong to the number; of a signed number the highest of them is the sign. All others are written as 0.",
)
.otherwise("all above `shift`")
.rules(&[OF_BUS, FLOATING]);
pub(super) const SHIFT: Key = Key::new(
    "shift",
    Value::Integer { min: 0, max: 63 },
    "How many bits at the low end do not belong to the number: 4 for one of 12 bits at the left of 16.",
)
.default("0")
.rules(&[OF_BUS, FLOATING]);
pub(super) const FORCE_ADDRESS: Key = Key::new(
    "force-address",
    Value::Bool,
    "Whether to use the address although a kernel driver owns it. The two may then disturb each other. Better: write through that \
     driver, with `hwmon` or `iio`.",
)
.default("false")
.rules(&[OF_BUS]);
pub(super) const INIT: Key = Key::new(
    "init",
    Value::Bytes { most: 33 },
    "What is written when the chip is opened, in order, before the safe value; the first byte of each list is the register: `[[0x00, 0x01]]`.",
)
.rules(&[OF_BUS]);

/// The keys that name a target that is switched on and off.
pub(in crate::kinds) const SWITCH_KEYS: [Key; 4] = [
    Key::new("path", Value::Path, "The file to write: 1 and a newline, or 0. It is made if it is not there.")
        .required_unless(&["line"], "name the file to write, or a GPIO line")
        .excludes(&["line"]),
    CHIP,
    Key::new(
        "line",
        LINE.value,
        "The GPIO line, by its offset or its name: `3`, `\"watchdog\"`. It becomes an output.",
    ),
    ACTIVE_LOW,
];

/// The target that these keys name.
pub(super) fn switch(section: &mut Section<'_>) -> Option<Place> {
    let (chip, active_low) = (section.text(&CHIP), section.boolean(&ACTIVE_LOW));
    match section.has(&LINE) {
        true => line(section, chip, active_low?),
        false => section.path(&PATH).map(Place::File),
    }
}

fn line(section: &mut Section<'_>, chip: Option<String>, active_low: bool) -> Option<Place> {
    let line = section.number_or_name(&LINE)?;
    if let (NumberOrName::Number(offset), false) = (&line, section.has(&CHIP)) {
        section.problem(&CHIP, format_args!("missing; name the chip that has line {offset}"));
    }
    Some(Place::Line { chip, line, active_low })
}

/// The target that the section names.
pub(super) fn place(section: &mut Section<'_>) -> Option<Place> {
    let (device, channel, period) = (section.text(&DEVICE), section.integer(&CHANNEL), section.duration(&PWM_PERIOD));
    let (chip, active_low, register) = (section.text(&CHIP), section.boolean(&ACTIVE_LOW), register(section));
    if section.has(&HWMON) || section.has(&IIO) {
        let (hwmon, iio, file) = (section.text(&HWMON), section.text(&IIO), section.text(&FILE));
        return match (hwmon, iio) {
            (Some(name), _) => Some(Place::Hwmon(ByName { name, device }, file?)),
            (None, name) => Some(Place::Iio(ByName { name: name?, device }, file?)),
        };
    }
    if section.has(&PWM) {
        return Some(Place::Pwm { chip: section.text(&PWM)?, channel: channel?, period: period? });
    }
    if section.has(&LINE) {
        return line(section, chip, active_low?);
    }
    if section.has(&BUS) {
        return register.map(Place::Register);
    }
    section.path(&PATH).map(Place::File)
}

fn register(section: &mut Section<'_>) -> Option<RegisterSettings> {
    let (bus, address) = (section.number_or_name(&BUS), section.integer_or_help(&ADDRESS, seven_bits));
    let (register, layout) = (section.integer(&REGISTER), section.choice(&TYPE, &TYPES));
    let (bits, shift): (Option<u32>, Option<u32>) = (section.integer(&BITS), section.integer(&SHIFT));
    let (force, init) = (section.boolean(&FORCE_ADDRESS), section.bytes(&INIT).unwrap_or_default());
    let (bus, address, register, layout) = (bus?, address?, register?, layout?);
    let layout = match layout.part(shift?, bits) {
        Ok(layout) => layout,
        Err((key, problem)) => {
            section.problem(if key == SHIFT.name { &SHIFT } else { &BITS }, problem);
            return None;
        }
    };
    Some(RegisterSettings { bus, address, force: force?, init, register, layout })
}
