//! The processor's caches: requests memory before it is needed. For the hot thread: nothing waits, allocates or faults.

/// The size of a cache line in bytes on x86-64 and on the ARM cores of common boards (Cortex-A7, A8, A15, A53, A72, A76, A78). With longer
/// lines some are requested twice; with shorter ones (Cortex-A9: 32) every second line is left out.
const LINE: usize = 64;

/// The most bytes requested at once: more than a task's state usually has.
const MOST: usize = 1 << 10;

/// The bytes requested of a function's code. The function may be shorter; nothing faults.
const CODE: usize = 1 << 9;

/// Lets the processor load `value` into its caches while the thread continues; of a large value only the first part. Does nothing on
/// processors without such a request.
pub(crate) fn warm<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let size = size_of_val(value).min(MOST);
    for offset in (0..size).step_by(LINE) {
        prefetch(start.wrapping_add(offset));
    }
    // Values seldom begin at the start of a line, so the last byte may lie on one more line.
    if size > 0 {
        prefetch(start.wrapping_add(size - 1));
    }
}

/// The same for the first part of a function's code, into the caches that code and data share.
pub(crate) fn warm_code(function: *const ()) {
    for offset in (0..CODE).step_by(LINE) {
        prefetch(function.cast::<u8>().wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which neither changes memory nor faults at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(target_arch = "aarch64")]
fn prefetch(address: *const u8) {
    // SAFETY: a hint, which neither changes memory nor faults at any address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags));
    };
}

#[cfg(target_arch = "arm")]
fn prefetch(address: *const u8) {
    // SAFETY: a hint, which neither changes memory nor faults at any address.
    unsafe {
        std::arch::asm!("pld [{}]", in(reg) address, options(readonly, nostack, preserves_flags));
    };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
const fn prefetch(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_may_be_asked_for_and_stays_as_it_is() {
        let bytes = [7_u8; 5_000];
        for length in [0, 1, 63, 64, 65, 5_000] {
            warm(&bytes[..length]);
        }
        let shown: &dyn std::fmt::Debug = &();
        warm(shown);
        assert_eq!(bytes, [7; 5_000]);
    }
}
