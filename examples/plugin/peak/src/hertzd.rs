//! hertzd.h, version 1, in Rust. Copy this file into a plugin of your own.
#![allow(dead_code)]

use std::ffi::{c_char, c_void};

pub const ABI: u32 = 1;

pub const NUMBER: u32 = 1;
pub const INTEGER: u32 = 2;
pub const BOOL: u32 = 3;
pub const TEXT: u32 = 4;
pub const CHOICE: u32 = 5;
pub const DURATION: u32 = 6;
pub const INPUT: u32 = 7;

pub const REQUIRED: u32 = 1;
pub const SPARED: u32 = 2;
pub const NOT_MEASURED: u32 = 1;

pub const OK: i32 = 0;
pub const NO_VALUE: i32 = -1;

pub const GOOD: u32 = 0;

#[repr(C)]
pub struct Key {
    pub low: f64,
    pub high: f64,
    pub name: *const c_char,
    pub help: *const c_char,
    pub unit: *const c_char,
    pub preset: *const c_char,
    pub words: *const *const c_char,
    pub word_count: u32,
    pub kind: u32,
    pub flags: u32,
    pub reserved: u32,
}

impl Key {
    /// Nothing yet: write `Key { name: c"gain".as_ptr(), kind: NUMBER, ..Key::NONE }`.
    pub const NONE: Key = Key {
        low: 0.0,
        high: 0.0,
        name: std::ptr::null(),
        help: std::ptr::null(),
        unit: std::ptr::null(),
        preset: std::ptr::null(),
        words: std::ptr::null(),
        word_count: 0,
        kind: 0,
        flags: 0,
        reserved: 0,
    };
}

#[repr(C)]
pub struct Value {
    pub name: *const c_char,
    pub unit: *const c_char,
}

#[repr(C)]
pub struct Setting {
    pub number: f64,
    pub integer: i64,
    pub text: *const c_char,
    pub present: u32,
    pub reserved: u32,
}

#[repr(C)]
pub struct Start {
    pub period_ns: i64,
    pub task: *const c_char,
    pub json: *const c_char,
    pub settings: *const Setting,
    pub error: *mut c_char,
    pub error_size: u32,
    pub setting_count: u32,
    pub mode: u32,
    pub clock: u32,
}

impl Start {
    /// What the section says of the key at `index` of the table.
    ///
    /// # Safety
    /// Only in `create`, with an index of the table's keys.
    pub unsafe fn setting(&self, index: usize) -> &Setting {
        unsafe { &*self.settings.add(index) }
    }
}

#[repr(C)]
pub struct Input {
    pub value: f64,
    pub age_ns: i64,
    pub quality: u32,
    pub reserved: u32,
}

#[repr(C)]
pub struct Tick {
    pub n: u64,
    pub release_ns: i64,
    pub started_ns: i64,
    pub lateness_ns: i64,
    pub skipped: u64,
    pub period_ns: i64,
    inputs: *const Input,
    values: *mut f64,
    input_count: u32,
    value_count: u32,
    pub clock: u32,
    reserved: u32,
}

impl Tick {
    pub fn inputs(&self) -> &[Input] {
        match self.input_count {
            0 => &[],
            // SAFETY: hertzd passes as many.
            count => unsafe { std::slice::from_raw_parts(self.inputs, count as usize) },
        }
    }

    #[allow(clippy::mut_from_ref)]
    pub fn values(&self) -> &mut [f64] {
        match self.value_count {
            0 => &mut [],
            // SAFETY: hertzd passes as many, and one tick at a time.
            count => unsafe { std::slice::from_raw_parts_mut(self.values, count as usize) },
        }
    }
}

#[repr(C)]
pub struct Plugin {
    pub abi: u32,
    pub flags: u32,
    pub key_count: u32,
    pub value_count: u32,
    pub error_count: u32,
    pub reserved: u32,
    pub name: *const c_char,
    pub about: *const c_char,
    pub keys: *const Key,
    pub values: *const Value,
    pub errors: *const *const c_char,
    pub create: extern "C" fn(&Start, &mut *mut c_void) -> i32,
    pub tick: extern "C" fn(*mut c_void, &Tick) -> i32,
    pub destroy: Option<extern "C" fn(*mut c_void)>,
}

// SAFETY: tables are constants.
unsafe impl Sync for Plugin {}
unsafe impl Sync for Key {}
unsafe impl Sync for Value {}
