//! The keys of the tables `receive` and `send`, with one table per signal. Pure.

use super::signal::{ByteOrder, WIDEST};
use crate::config::{Key, Rule, Value, words};
use crate::sys::can::{LONGEST, MOST_IDS};

pub(super) const ORDERS: [(&str, ByteOrder); 2] = [("little", ByteOrder::Little), ("big", ByteOrder::Big)];

/// Maximum number of raw numbers in a list.
const MOST_CODES: usize = 64;

/// Raw numbers of signals of up to 53 bits, signed or not.
const fn raw_numbers() -> Value {
    Value::Integers { min: -(1 << (WIDEST - 1)), max: (1 << WIDEST) - 1, most: MOST_CODES }
}

/// Maximum number of ids in one task.
pub(super) const MOST: usize = MOST_IDS;

pub(super) const TIMEOUT_TEXT: &str = "How long after the tick that took the latest frame its values are good, if no other comes. Then they are bad (`unavailable`).";

pub(super) const RECEIVE: Key =
    Key::new("receive", Value::Tables(RECEIVE_KEYS), "The signals to receive, each in a table of its own.")
        .required_unless(&["send"], "write a table [[task.NAME.receive]] for each signal, or [[task.NAME.send]]")
        .excludes(&["send"]);
pub(super) const SEND: Key = Key::new(
    "send",
    Value::Tables(SEND_KEYS),
    "The signals to send, each in a table of its own; those with one id are sent in one frame.",
);

pub(super) const ID: Key = Key::new(
    "id",
    Value::Integer { min: 0, max: 0x1fff_ffff },
    "The id of the frame: `0x181`. In a DBC file 2147483648 is added to extended ones; leave that out.",
)
.required("write the id of the frame, such as 0x181");
pub(super) const EXTENDED: Key =
    Key::new("extended", Value::Bool, "Whether the id has 29 bits, and not 11.").otherwise("true for ids above 0x7ff");
pub(super) const TABLE_TIMEOUT: Key =
    Key::new("timeout", Value::DURATION, TIMEOUT_TEXT).otherwise("that of the task; one for all signals with this id");
pub(super) const FRAME_LENGTH: Key = Key::new(
    "frame-length",
    Value::Integer { min: 0, max: LONGEST as i64 },
    "How many bytes the frame has. Bits that no signal has are 0.",
)
.otherwise("8, of CAN FD as many as its signals need, at least 8; one for all signals with this id");
pub(super) const NAME: Key =
    Key::new("name", Value::ValueName, "Name of the value in every output.").required("say what the value is called");
pub(super) const INPUT: Key =
    Key::new("input", Value::Input, "What is sent.").required("name it, such as \"control.out\"");
pub(super) const START_BIT: Key = Key::new(
    "start-bit",
    Value::Integer { min: 0, max: 8 * LONGEST as i64 - 1 },
    "Where the signal begins, as in a DBC file: its lowest bit with `byte-order = \"little\"`, its highest with `\"big\"`. Bit 0 is the \
     lowest of byte 0, bit 7 its highest, bit 8 the lowest of byte 1.",
)
.required("write the bit that the signal begins with, such as 0");
pub(super) const LENGTH: Key =
    Key::new("length", Value::Integer { min: 1, max: WIDEST as i64 }, "How many bits it has.")
        .required("write how many bits the signal has, such as 16");
pub(super) const BYTE_ORDER: Key = Key::new(
    "byte-order",
    Value::Choice(&words(&ORDERS)),
    "Which byte comes first: that with the lowest bits (`\"little\"`, Intel, `@1` in a DBC file) or with the highest (`\"big\"`, \
     Motorola, `@0`).",
)
.default("\"little\"");
pub(super) const SIGNED: Key =
    Key::new("signed", Value::Bool, "Whether its highest bit is the sign, in two's complement (`-` in a DBC file).")
        .default("false");
pub(super) const SCALE: Key = Key::new(
    "scale",
    Value::Factor,
    "What its whole number is multiplied by to get the value; what is sent is divided by it, and rounded to the nearest.",
)
.default("1");
pub(super) const OFFSET: Key = Key::new(
    "offset",
    Value::Number,
    "What is added after that, in the unit of the value; subtracted before it is sent.",
)
.default("0");
pub(super) const NOT_AVAILABLE: Key = Key::new(
    "not-available",
    raw_numbers(),
    "Whole numbers, before `scale` and `offset`, by which the sender says that it has no value: `255`. Then the value is bad \
     (`not-available`).",
);
pub(super) const ERROR: Key = Key::new(
    "error",
    raw_numbers(),
    "Whole numbers by which the sender says that its value is wrong: `254`. Then the value is bad (`failed`).",
);
pub(super) const J1939: Key = Key::new(
    "j1939",
    Value::Bool,
    "Whether the highest whole numbers mean that too, as in SAE J1939: with a top byte of 0xff the value is not available, with 0xfe it is \
     wrong. Of up to 8 bits these are the two highest numbers. For 2 to 32 bits.",
)
.default("false")
.rules(&[Rule::when_off("signed")]);
pub(super) const UNIT: Key =
    Key::new("unit", Value::Text, "Unit of the value; empty for a plain number.").default("\"\"");
pub(super) const LIMITS: Key =
    Key::new("limits", Value::Range, "The value stays within, in its unit. The safe value need not.")
        .otherwise("what its bits can say");
pub(super) const SAFE: Key = Key::new(
    "safe",
    Value::Number,
    "What is sent when the task is opened, when the input is stale, bad or missing, when the task ends or is disabled, and at each end of a \
     run.",
)
.required("say what is to be sent when the input fails, such as 0");

pub(super) const RECEIVE_KEYS: &[Key] = &[
    ID,
    EXTENDED,
    TABLE_TIMEOUT,
    NAME,
    START_BIT,
    LENGTH,
    BYTE_ORDER,
    SIGNED,
    SCALE,
    OFFSET,
    UNIT,
    NOT_AVAILABLE,
    ERROR,
    J1939,
];

pub(super) const SEND_KEYS: &[Key] = &[
    ID,
    EXTENDED,
    FRAME_LENGTH,
    NAME,
    INPUT,
    START_BIT,
    LENGTH,
    BYTE_ORDER,
    SIGNED,
    SCALE,
    OFFSET,
    UNIT,
    LIMITS,
    SAFE,
];
