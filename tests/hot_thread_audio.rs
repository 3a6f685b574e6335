//! A tick of an audio task allocates nothing, neither in Rust nor in the ALSA library: this test counts every allocation
//! of the process, in all libraries.

#![cfg(feature = "audio")]
#![expect(unsafe_code, reason = "replacing the C library's allocator requires it")]

#[path = "support/emulation.rs"]
#[allow(dead_code, reason = "what is skipped is all that these tests use of it")]
mod emulation;

use hertzd::Built;
use hertzd::config::Kinds;
use hertzd::internals::Embedded;
use hertzd::task::Tick;
use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::path::Path;

thread_local! {
    // Constant and without a destructor, so counting itself does not allocate.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(old: *mut c_void);
}

/// The program's `malloc` takes precedence over that of the C library, for every library that is loaded.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    count();
    // SAFETY: passes the call on to the C library's allocator, with the arguments unchanged.
    unsafe { __libc_malloc(size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count_: usize, size: usize) -> *mut c_void {
    count();
    // SAFETY: as above.
    unsafe { __libc_calloc(count_, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    count();
    // SAFETY: as above; `old` came from there, as every block here does.
    unsafe { __libc_realloc(old, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(old: *mut c_void) {
    count();
    // SAFETY: as above.
    unsafe { __libc_free(old) }
}

/// Allocations in a thousand ticks after the first, and those before it. The task captures from ALSA's null device, which
/// always has a full buffer, and hands over its blocks.
fn allocations(keys: &str) -> (u64, u64) {
    let config = format!("[task.a]\nkind = \"audio\"\nrate = 100\ndevice = \"null\"\nbuffer = \"40ms\"\n{keys}");
    let (mut blueprints, mut site) = Embedded::of(Kinds::builtin(), config).parts();
    let before = CALLS.get();
    let built = blueprints[0].build(&mut site).unwrap_or_else(|no| panic!("{no}"));
    let opening = CALLS.get() - before;
    let Built { mut task, stream, .. } = built;
    let mut receiver = stream.unwrap().blocks.unwrap();
    let mut values = [f64::NAN; 5];
    let (mut calls, mut taken) = (0, 0);
    for n in 0..1_001 {
        let mut tick = Tick::default();
        tick.n = n;
        let before = CALLS.get();
        task.tick(&tick, &mut values).unwrap();
        calls += CALLS.get() - before;
        while let Some(block) = receiver.take() {
            taken += u64::from(!block.bytes.is_empty());
        }
    }
    assert_eq!(taken, 1_001, "a block for each tick");
    assert!(values[0] > 1_000.0, "{values:?}");
    (calls, opening)
}

#[test]
fn a_tick_of_audio_allocates_nothing() {
    let before = CALLS.get();
    drop(black_box(vec![0_u8; 64]));
    assert_eq!(CALLS.get() - before, 2, "Rust's allocations are counted");
    if !Path::new("/usr/share/alsa/alsa.conf").exists() {
        emulation::say_skipped("ALSA has no configuration here, and thus no null device");
        return;
    }
    for keys in ["", "channels = 8\nsample-format = \"s32\"\n", "channels = 1\nsample-format = \"f32\"\n"] {
        let (calls, opening) = allocations(keys);
        assert!(opening > 50, "the library's allocations are counted: {opening}");
        assert_eq!(calls, 0, "{keys}");
    }
}
