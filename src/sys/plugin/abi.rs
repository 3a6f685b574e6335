//! The C interface of plugins, with the layout of `src/kinds/plugin/hertzd.h`. Types and numbers only.

use libc::{c_char, c_void};
use std::mem::{offset_of, size_of};

/// The version of the interface: `HERTZD_PLUGIN_ABI`.
pub(crate) const ABI: u32 = 1;

/// The function that a plugin exports.
pub(super) const SYMBOL: &[u8] = b"hertzd_plugin_table\0";

pub(super) const MAX_KEYS: u32 = 256;
pub(super) const MAX_WORDS: u32 = 256;
pub(super) const MAX_VALUES: u32 = 1_024;
pub(super) const MAX_ERRORS: u32 = 1_024;
pub(super) const MAX_TEXT: usize = 4_096;

/// `hertzd_key`.
#[repr(C)]
pub(super) struct Key {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) name: *const c_char,
    pub(super) help: *const c_char,
    pub(super) unit: *const c_char,
    pub(super) preset: *const c_char,
    pub(super) words: *const *const c_char,
    pub(super) word_count: u32,
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) reserved: u32,
}

/// `hertzd_value`.
#[repr(C)]
pub(super) struct Value {
    pub(super) name: *const c_char,
    pub(super) unit: *const c_char,
}

/// `hertzd_setting`.
#[repr(C)]
pub(super) struct Setting {
    pub(super) number: f64,
    pub(super) integer: i64,
    pub(super) text: *const c_char,
    pub(super) present: u32,
    pub(super) reserved: u32,
}

/// `hertzd_start`.
#[repr(C)]
pub(super) struct Start {
    pub(super) period_ns: i64,
    pub(super) task: *const c_char,
    pub(super) json: *const c_char,
    pub(super) settings: *const Setting,
    pub(super) error: *mut c_char,
    pub(super) error_size: u32,
    pub(super) setting_count: u32,
    pub(super) mode: u32,
    pub(super) clock: u32,
}

/// `hertzd_input`: one input of a tick.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// `NaN` unless it is good.
    pub(crate) value: f64,
    /// From the release of its oldest measurement to the start of the tick; [`NO_AGE`](Self::NO_AGE): it has no age.
    pub(crate) age_ns: i64,
    /// 0 good, 1 bad, 2 stale, 3 missing.
    pub(crate) quality: u32,
    reserved: u32,
}

impl Sample {
    /// `HERTZD_NO_AGE`.
    pub(crate) const NO_AGE: i64 = i64::MIN;

    /// The sample of an input that the section does not name.
    pub(crate) const MISSING: Self = Self { value: f64::NAN, age_ns: Self::NO_AGE, quality: 3, reserved: 0 };
}

/// `hertzd_tick`.
#[repr(C)]
pub(super) struct Tick {
    pub(super) n: u64,
    pub(super) release_ns: i64,
    pub(super) started_ns: i64,
    pub(super) lateness_ns: i64,
    pub(super) skipped: u64,
    pub(super) period_ns: i64,
    pub(super) inputs: *const Sample,
    pub(super) values: *mut f64,
    pub(super) input_count: u32,
    pub(super) value_count: u32,
    pub(super) clock: u32,
    pub(super) reserved: u32,
}

/// `create`. An exception that leaves a plugin's function is not caught and ends the process, so it may unwind here.
pub(super) type Create = unsafe extern "C-unwind" fn(*const Start, *mut *mut c_void) -> i32;
/// `tick`.
pub(super) type TickFunction = unsafe extern "C-unwind" fn(*mut c_void, *const Tick) -> i32;
/// `destroy`.
pub(super) type Destroy = unsafe extern "C-unwind" fn(*mut c_void);
/// `hertzd_plugin_table`.
pub(super) type TableFunction = unsafe extern "C-unwind" fn() -> *const Table;

/// `hertzd_plugin`.
#[repr(C)]
pub(super) struct Table {
    pub(super) abi: u32,
    pub(super) flags: u32,
    pub(super) key_count: u32,
    pub(super) value_count: u32,
    pub(super) error_count: u32,
    pub(super) reserved: u32,
    pub(super) name: *const c_char,
    pub(super) about: *const c_char,
    pub(super) keys: *const Key,
    pub(super) values: *const Value,
    pub(super) errors: *const *const c_char,
    pub(super) create: Option<Create>,
    pub(super) tick: Option<TickFunction>,
    pub(super) destroy: Option<Destroy>,
}

/// The functions of a table that has been checked.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) create: Create,
    pub(super) tick: TickFunction,
    pub(super) destroy: Option<Destroy>,
}

pub(super) const REQUIRED: u32 = 1;
pub(super) const SPARED: u32 = 2;
pub(super) const NOT_MEASURED: u32 = 1;

// The header asserts the same.
const POINTER: usize = size_of::<*const c_void>();
const _: () = assert!(offset_of!(Key, name) == 16 && offset_of!(Key, word_count) == 16 + 5 * POINTER);
const _: () = assert!(size_of::<Value>() == 2 * POINTER);
const _: () = assert!(offset_of!(Setting, text) == 16 && offset_of!(Setting, present) == 16 + POINTER);
const _: () = assert!(offset_of!(Start, task) == 8 && offset_of!(Start, error_size) == 8 + 4 * POINTER);
const _: () = assert!(size_of::<Sample>() == 24 && offset_of!(Sample, quality) == 16);
const _: () = assert!(offset_of!(Tick, inputs) == 48 && offset_of!(Tick, input_count) == 48 + 2 * POINTER);
const _: () = assert!(offset_of!(Table, name) == 24 && offset_of!(Table, create) == 24 + 5 * POINTER);
