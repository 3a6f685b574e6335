//! Like probe.c but in Rust, limited to writing what a tick receives.

#[path = "../../../examples/plugin/peak/src/hertzd.rs"]
mod hertzd;

use hertzd::{Key, Plugin, Start, Tick, Value, ABI, INPUT, INTEGER, NUMBER, OK};
use std::ffi::c_void;
use std::ptr;

static KEYS: [Key; 3] = [
    Key { name: c"in".as_ptr(), kind: INPUT, ..Key::NONE },
    Key { name: c"gain".as_ptr(), kind: NUMBER, preset: c"1".as_ptr(), ..Key::NONE },
    Key { name: c"panic-at".as_ptr(), kind: INTEGER, preset: c"-1".as_ptr(), ..Key::NONE },
];

const fn value(name: &'static std::ffi::CStr) -> Value {
    Value { name: name.as_ptr(), unit: ptr::null() }
}

static VALUES: [Value; 6] =
    [value(c"n"), value(c"release-s"), value(c"release-ns"), value(c"after"), value(c"lateness"), value(c"skipped")];

static PLUGIN: Plugin = Plugin {
    abi: ABI,
    flags: 0,
    key_count: 3,
    value_count: 6,
    error_count: 0,
    reserved: 0,
    name: c"probe in Rust".as_ptr(),
    about: ptr::null(),
    keys: KEYS.as_ptr(),
    values: VALUES.as_ptr(),
    errors: ptr::null(),
    create,
    tick,
    destroy: None,
};

extern "C" fn create(start: &Start, instance: &mut *mut c_void) -> i32 {
    // SAFETY: the table has that key.
    let panic_at = unsafe { start.setting(2) }.integer;
    *instance = ptr::without_provenance_mut(panic_at as usize); // a number is all it keeps
    OK
}

extern "C" fn tick(instance: *mut c_void, tick: &Tick) -> i32 {
    assert!(instance.addr() as u64 != tick.n, "the panic that was asked for");
    let told = [
        tick.n as f64,
        (tick.release_ns / 1_000_000_000) as f64,
        (tick.release_ns % 1_000_000_000) as f64,
        (tick.started_ns - tick.release_ns) as f64,
        tick.lateness_ns as f64,
        tick.skipped as f64,
    ];
    tick.values().copy_from_slice(&told);
    OK
}

// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hertzd_plugin_table() -> &'static Plugin {
    &PLUGIN
}
