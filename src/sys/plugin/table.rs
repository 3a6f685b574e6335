//! Reads a plugin's table and checks it against the interface: versions, counts, pointers, texts. Whether names and presets make sense in a
//! configuration is checked elsewhere. Allocates.

use super::abi::{self, ABI, Functions, MAX_ERRORS, MAX_KEYS, MAX_VALUES, MAX_WORDS, Table};
use super::text::{kept_list, optional, required};
use std::slice;

/// A plugin's description of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    /// The plugin's name.
    pub(crate) name: &'static str,
    /// What it does; empty if not stated.
    pub(crate) about: &'static str,
    /// The keys of its sections, in the order of the settings and the inputs.
    pub(crate) keys: Vec<DescribedKey>,
    /// Names and units of its values.
    pub(crate) values: Vec<(&'static str, &'static str)>,
    /// The errors that a tick may return.
    pub(crate) errors: Vec<&'static str>,
    /// Whether its values are measurements.
    pub(crate) measures: bool,
}

/// A key as a plugin describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DescribedKey {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) preset: Option<&'static str>,
    pub(crate) required: bool,
    /// For an input: the plugin checks the input's quality itself.
    pub(crate) spared: bool,
    pub(crate) kind: KeyKind,
    /// Smallest and largest allowed value; infinite means no limit.
    pub(crate) range: [f64; 2],
}

/// What may be written for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Number,
    Integer,
    Bool,
    Text,
    Choice(&'static [&'static str]),
    Duration,
    Input,
}

/// Reads the table at `table`.
pub(super) fn read(table: *const Table) -> Result<(Described, Functions), String> {
    if table.is_null() {
        return Err("its function `hertzd_plugin_table` returned a null pointer".into());
    }
    if !table.is_aligned() {
        return Err("its function `hertzd_plugin_table` returned a pointer that is not aligned as a table is".into());
    }
    // SAFETY: the interface promises that the table begins with a version number, whatever follows it.
    let abi = unsafe { *table.cast::<u32>() };
    if abi != ABI {
        return Err(format!(
            "it was built for version {abi} of the interface (HERTZD_PLUGIN_ABI), and this hertzd has version {ABI}: \
             build it with the hertzd.h of this hertzd"
        ));
    }
    // SAFETY: a table of this version has this layout, and exists while the library is loaded.
    let table = unsafe { &*table };
    refuse_unknown(table.flags, abi::NOT_MEASURED, table.reserved, "its table")?;
    let keys = list(table.keys, table.key_count, MAX_KEYS, "keys")?;
    let values = list(table.values, table.value_count, MAX_VALUES, "values")?;
    let errors = list(table.errors, table.error_count, MAX_ERRORS, "errors")?;
    let missing = |name| format!("its table has no function `{name}` (a null pointer)");
    let functions = Functions {
        create: table.create.ok_or_else(|| missing("create"))?,
        tick: table.tick.ok_or_else(|| missing("tick"))?,
        destroy: table.destroy,
    };
    let value = |(at, value): (usize, &abi::Value)| {
        let name = required(value.name, &format!("the name of value {}", at + 1))?;
        Ok((name, optional(value.unit, &format!("the unit of the value {name}"))?.unwrap_or_default()))
    };
    let error = |(at, error): (usize, &*const libc::c_char)| required(*error, &format!("the text of error {}", at + 1));
    let described = Described {
        name: required(table.name, "the plugin's name")?,
        about: optional(table.about, "the plugin's description of itself")?.unwrap_or_default(),
        keys: keys.iter().enumerate().map(key).collect::<Result<_, String>>()?,
        values: values.iter().enumerate().map(value).collect::<Result<_, String>>()?,
        errors: errors.iter().enumerate().map(error).collect::<Result<_, String>>()?,
        measures: table.flags & abi::NOT_MEASURED == 0,
    };
    Ok((described, functions))
}

fn key((at, key): (usize, &abi::Key)) -> Result<DescribedKey, String> {
    let name = required(key.name, &format!("the name of key {}", at + 1))?;
    refuse_unknown(key.flags, abi::REQUIRED | abi::SPARED, key.reserved, &format!("its key {name}"))?;
    let text = |at, what: &str| optional(at, &format!("the {what} of the key {name}"));
    let kind = match key.kind {
        1 => KeyKind::Number,
        2 => KeyKind::Integer,
        3 => KeyKind::Bool,
        4 => KeyKind::Text,
        5 => KeyKind::Choice(words(key, name)?),
        6 => KeyKind::Duration,
        7 => KeyKind::Input,
        other => return Err(format!("its key {name} has the type {other}, which this hertzd does not know")),
    };
    let range =
        if key.low == 0.0 && key.high == 0.0 { [f64::NEG_INFINITY, f64::INFINITY] } else { [key.low, key.high] };
    if range[0].is_nan() || range[1].is_nan() || range[0] > range[1] {
        return Err(format!("the range of its key {name}, {} to {}, holds no number", range[0], range[1]));
    }
    Ok(DescribedKey {
        name,
        help: text(key.help, "help")?.unwrap_or_default(),
        unit: text(key.unit, "unit")?.unwrap_or_default(),
        preset: text(key.preset, "preset")?,
        required: key.flags & abi::REQUIRED != 0,
        spared: key.flags & abi::SPARED != 0,
        kind,
        range,
    })
}

/// Refuses bits that a later version may define: this version would ignore what the plugin asks for.
fn refuse_unknown(flags: u32, known: u32, reserved: u32, whose: &str) -> Result<(), String> {
    match (flags & !known, reserved) {
        (0, 0) => Ok(()),
        (0, found) => Err(format!("{whose} has {found:#x} in its field `reserved`, which must be 0")),
        (unknown, _) => {
            Err(format!("{whose} has the flags {unknown:#x}, which version {ABI} of the interface does not have"))
        }
    }
}

fn words(key: &abi::Key, name: &str) -> Result<&'static [&'static str], String> {
    let words = list(key.words, key.word_count, MAX_WORDS, &format!("words of the key {name}"))?;
    if words.is_empty() {
        return Err(format!("its key {name} is a choice without words"));
    }
    let word =
        |(at, word): (usize, &*const libc::c_char)| required(*word, &format!("word {} of the key {name}", at + 1));
    Ok(kept_list(words.iter().enumerate().map(word).collect::<Result<_, String>>()?))
}

/// A slice of `count` items, at most `most`.
fn list<'a, T>(first: *const T, count: u32, most: u32, what: &str) -> Result<&'a [T], String> {
    match count {
        0 => Ok(&[]),
        _ if count > most => Err(format!("its table counts {count} {what}, and {most} is the most that it may have")),
        _ if first.is_null() => Err(format!("its table counts {count} {what}, but its pointer to them is null")),
        _ if !first.is_aligned() => Err(format!("its table's pointer to the {what} is not aligned")),
        // SAFETY: the interface promises that many items there, for as long as the library is loaded. Their types are made of numbers and
        // pointers, for which any bytes are valid. They are read at once, and kept nowhere.
        _ => Ok(unsafe { slice::from_raw_parts(first, count as usize) }),
    }
}
