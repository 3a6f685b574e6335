//! How this thread rounds, and whether it takes very small numbers for zero: kept over calls of foreign code.
//!
//! A library that a compiler has built with `-ffast-math` turns that on for the thread that loads it, and a plugin may at any time: all
//! tasks of the worker would compute otherwise from then on. For the hot thread: no system call.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_abi = "eabihf"))]
use std::arch::asm;

/// Calls `work`, and puts back what it has changed of the modes of floating point.
pub(super) fn keeping<T>(work: impl FnOnce() -> T) -> T {
    let before = modes();
    let done = work();
    if modes() != before {
        set(before);
    }
    done
}

/// The modes, without the notes of what has happened since they were cleared.
#[cfg(target_arch = "x86_64")]
fn modes() -> u32 {
    const NOTES: u32 = 0x3f;
    let mut found = 0_u32;
    // SAFETY: writes four bytes, which `found` has room for.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut found, options(nostack, preserves_flags)) };
    found & !NOTES
}

#[cfg(target_arch = "x86_64")]
fn set(modes: u32) {
    // Without `readonly`: what is computed of values that are read after this must not be computed before it.
    // SAFETY: reads four bytes, which were in this register before: none of them is reserved.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const modes, options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
fn modes() -> u64 {
    let found: u64;
    // SAFETY: reads a register that every program may read.
    unsafe { asm!("mrs {}, fpcr", out(reg) found, options(nomem, nostack, preserves_flags)) };
    found
}

#[cfg(target_arch = "aarch64")]
fn set(modes: u64) {
    // Without `nomem`: what is computed of values that are read after this must not be computed before it.
    // SAFETY: writes what was in this register before, which every program may write.
    unsafe { asm!("msr fpcr, {}", in(reg) modes, options(nostack, preserves_flags)) };
}

/// Of FPSCR the modes: half precision, NaN, zero for small numbers, rounding, short vectors (26 to 16), and what traps (15, 12 to 8). The
/// others are what comparisons and other arithmetic have noted, and reserved.
#[cfg(target_abi = "eabihf")]
const MODES: u32 = 0x07ff_9f00;

#[cfg(target_abi = "eabihf")]
fn modes() -> u32 {
    let found: u32;
    // SAFETY: reads a register that every program may read; with this ABI the processor has it.
    unsafe { asm!("vmrs {}, fpscr", out(reg) found, options(nomem, nostack, preserves_flags)) };
    found & MODES
}

#[cfg(target_abi = "eabihf")]
fn set(modes: u32) {
    // In one piece, because comparisons leave their result in the same register. Without `nomem`: what is computed of values that are read
    // after this must not be computed before it.
    // SAFETY: of this register, which every program may write, it changes the modes alone, to what they were before.
    unsafe {
        asm!(
            "vmrs {now}, fpscr",
            "bic {now}, {now}, {mask}",
            "orr {now}, {now}, {modes}",
            "vmsr fpscr, {now}",
            now = out(reg) _,
            mask = in(reg) MODES,
            modes = in(reg) modes,
            options(nostack, preserves_flags)
        );
    };
}

/// Not known for this machine: nothing is kept.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_abi = "eabihf")))]
const fn modes() -> u32 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_abi = "eabihf")))]
const fn set(_: u32) {}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64", target_abi = "eabihf")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[cfg(target_arch = "x86_64")]
    const SMALL_IS_ZERO: u32 = 0x8040;
    #[cfg(target_arch = "aarch64")]
    const SMALL_IS_ZERO: u64 = 1 << 24;
    #[cfg(target_abi = "eabihf")]
    const SMALL_IS_ZERO: u32 = 1 << 24;

    #[test]
    fn what_foreign_code_changes_is_put_back() {
        // The product too: a compiler may compute it after the modes have been put back, as it knows nothing of them.
        let small = || black_box(black_box(1e-300_f64) * black_box(1e-10));
        let before = modes();
        let meanwhile = keeping(|| {
            set(before | SMALL_IS_ZERO);
            small()
        });
        assert_eq!((meanwhile, modes()), (0.0, before));
        assert!(small() > 0.0);
    }
}
