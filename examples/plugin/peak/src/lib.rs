//! A plugin in Rust: the peak of its input, which decays. See ../README.md.

mod hertzd;

use hertzd::{ABI, DURATION, GOOD, INPUT, Key, NO_VALUE, OK, Plugin, REQUIRED, Start, Tick, Value};
use std::ffi::c_void;
use std::ptr;

/// The keys of its section, beside those that every task has.
static KEYS: [Key; 2] = [
    Key { name: c"input".as_ptr(), kind: INPUT, flags: REQUIRED, help: c"Whose peak it is.".as_ptr(), ..Key::NONE },
    Key {
        name: c"half-life".as_ptr(),
        kind: DURATION,
        low: 1e6,
        high: 3600e9,
        preset: c"1s".as_ptr(),
        help: c"Time after which half of a peak is left.".as_ptr(),
        ..Key::NONE
    },
];
const HALF_LIFE: usize = 1;

static VALUES: [Value; 1] = [Value { name: c"peak".as_ptr(), unit: c"".as_ptr() }];

static PLUGIN: Plugin = Plugin {
    abi: ABI,
    flags: 0,
    key_count: 2,
    value_count: 1,
    error_count: 0,
    reserved: 0,
    name: c"peak".as_ptr(),
    about: c"The peak of its input, which decays.".as_ptr(),
    keys: KEYS.as_ptr(),
    values: VALUES.as_ptr(),
    errors: ptr::null(),
    create,
    tick,
    destroy: Some(destroy),
};

struct Peak {
    peak: f64,
    half_life_ns: f64,
}

impl Peak {
    fn tick(&mut self, tick: &Tick) -> i32 {
        let input = &tick.inputs()[0];
        // Skipped ticks count: so much time has passed.
        let passed = (tick.skipped + 1) as f64 * tick.period_ns as f64;
        self.peak *= (-passed / self.half_life_ns).exp2();
        if input.quality != GOOD {
            return NO_VALUE;
        }
        self.peak = self.peak.max(input.value.abs());
        tick.values()[0] = self.peak;
        OK
    }
}

extern "C" fn create(start: &Start, instance: &mut *mut c_void) -> i32 {
    // SAFETY: the table has that key.
    let half_life = unsafe { start.setting(HALF_LIFE) };
    let peak = Peak { peak: 0.0, half_life_ns: half_life.integer as f64 };
    *instance = Box::into_raw(Box::new(peak)).cast();
    OK
}

extern "C" fn tick(instance: *mut c_void, tick: &Tick) -> i32 {
    // SAFETY: what `create` has made, which one function at a time has.
    unsafe { &mut *instance.cast::<Peak>() }.tick(tick)
}

extern "C" fn destroy(instance: *mut c_void) {
    // SAFETY: what `create` has made, for the last time.
    drop(unsafe { Box::from_raw(instance.cast::<Peak>()) });
}

// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hertzd_plugin_table() -> &'static Plugin {
    &PLUGIN
}
