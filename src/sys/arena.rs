//! An allocator with one arena that keeps freed memory, for C libraries whose own allocator cannot be set to do so. musl's allocator
//! returns an empty group of blocks to the kernel at once, many times a second. The next blocks then cause page faults, and returning
//! memory interrupts every CPU that runs a thread of the process, including the hot thread's.
//!
//! A program chooses it with `#[global_allocator]`. Allocating and freeing take a lock, but no hot thread does either. Reads no clock.

use super::memory::LARGE;
use dlmalloc::{Allocator, Dlmalloc};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much memory the arena takes from the kernel at a time. Pages that are never touched only use address space.
const PIECE: usize = 256 << 10;

/// The smallest page size of the supported architectures. Other page sizes are multiples of it, and [`PIECE`] is a multiple of each.
const PAGE: usize = 4 << 10;

/// An allocator for musl programs whose threads must be on time. Freed memory stays with the process and causes no page faults when it is
/// used again. Blocks of more than 32 MiB (512 KiB on 32 bits) come from the kernel and return to it. With glibc, hertzd configures the
/// library's own allocator to do the same.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: hertzd::Arena = hertzd::Arena::new();
/// ```
pub struct Arena(Mutex<Dlmalloc<Kernel>>);

impl Arena {
    /// An empty arena.
    pub const fn new() -> Self {
        let mut arena = Dlmalloc::new_with_allocator(Kernel);
        arena.set_granularity(PIECE);
        arena.set_max_release_check_rate(0); // nothing is ever released
        Self(Mutex::new(arena))
    }

    fn lock(&self) -> MutexGuard<'_, Dlmalloc<Kernel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").finish_non_exhaustive()
    }
}

// SAFETY: a block's size alone decides whether it belongs to the arena or to the system's allocator, and the caller passes the size again
// with the block. Both are allocators, and each of their calls gets the caller's arguments. Neither unwinds.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGE {
            // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is also that of `System`.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: as above, and that of `Dlmalloc`.
        unsafe { self.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGE {
            // SAFETY: as above.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        let block = unsafe { self.lock().malloc(layout.size(), layout.align()) };
        if !block.is_null() {
            // Without the lock: zeroing a large block takes long.
            // SAFETY: the block has this size, and nothing else knows it yet.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() > LARGE {
            // SAFETY: as above; by its size the block is the system's.
            return unsafe { System.dealloc(block, layout) };
        }
        // SAFETY: as above; by its size the block is the arena's.
        unsafe { self.lock().free(block, layout.size(), layout.align()) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (layout.size() > LARGE, size > LARGE) {
            // SAFETY: as above; by both sizes the block is the system's.
            (true, true) => return unsafe { System.realloc(block, layout, size) },
            // SAFETY: as above; by both sizes the block is the arena's.
            (false, false) => return unsafe { self.lock().realloc(block, layout.size(), layout.align(), size) },
            _ => {}
        }
        // SAFETY: the caller guarantees that the new size, rounded up to the alignment, fits.
        let to = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the caller guarantees that the new size is not zero.
        let new = unsafe { self.alloc(to) };
        if !new.is_null() {
            // SAFETY: both blocks have that many bytes, and the new one is no part of the old one.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(size)) };
            // SAFETY: the caller's block with its layout, which is not used any more.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

/// The source of the arena's memory; it takes none back.
struct Kernel;

// SAFETY: each reported allocation is new memory of that size, which stays for as long as the process.
unsafe impl Allocator for Kernel {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let (read_write, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory anywhere; nothing that exists is replaced.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size, read_write, private, -1, 0) };
        if memory == libc::MAP_FAILED { (ptr::null_mut(), 0, 0) } else { (memory.cast(), size, 0) }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::usage;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// Takes blocks of all sizes that the arena serves, writes them, and frees them: 12 MiB in all on 64 bits.
    fn take_and_free(arena: &Arena) {
        let sizes = || (4..=20).flat_map(|power| std::iter::repeat_n(layout(3 << power, 8), 1 << (18 - power.min(18))));
        let blocks = sizes().filter(|layout| layout.size() <= LARGE).map(|layout| {
            // SAFETY: no size is zero.
            let block = unsafe { arena.alloc(layout) };
            assert!(!block.is_null());
            // SAFETY: the block has this size.
            unsafe { block.write_bytes(7, layout.size()) };
            (block, layout)
        });
        for (block, layout) in blocks.collect::<Vec<_>>() {
            // SAFETY: each is freed once, with its layout.
            unsafe { arena.dealloc(block, layout) };
        }
    }

    #[test]
    fn freed_memory_stays_and_causes_no_page_faults_again() {
        let arena = Arena::new();
        let faults = || {
            let before = usage::of_this_thread().minor_faults;
            take_and_free(&arena);
            usage::of_this_thread().minor_faults.since(before)
        };
        let first = faults();
        // When another test forks this process, every page faults once more.
        let then: Vec<_> = std::iter::repeat_with(faults).take(50).collect();
        println!("page faults: {first}, then {then:?}");
        // The list of blocks is the test's own and comes from the system's allocator.
        assert!(then.iter().any(|second| *second < first / 4), "{first}, then {then:?}");
    }

    #[test]
    fn what_is_in_a_block_stays_however_its_size_changes() {
        let arena = Arena::new();
        for align in [1, 8, 64, 4096] {
            let mut size = 100;
            // SAFETY: the size is not zero.
            let mut block = unsafe { arena.alloc_zeroed(layout(size, align)) };
            for next in [5_000, 70_000, LARGE, LARGE + 1, 2 * LARGE, LARGE - 1, 3_000, 101] {
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(3, size) };
                // SAFETY: the block is of this arena and has this layout; the size is not zero.
                block = unsafe { arena.realloc(block, layout(size, align), next) };
                assert!(!block.is_null() && block.addr().is_multiple_of(align));
                // SAFETY: the block has that many bytes, and the kept part of them is set.
                let kept = unsafe { std::slice::from_raw_parts(block, size.min(next)) };
                assert!(kept.iter().all(|byte| *byte == 3), "{size} -> {next}");
                size = next;
            }
            // SAFETY: the block is freed once, with its layout.
            unsafe { arena.dealloc(block, layout(size, align)) };
            // SAFETY: the size is not zero.
            let block = unsafe { arena.alloc_zeroed(layout(5_000, align)) };
            // SAFETY: the block has this size, and all of it is set.
            assert!(unsafe { std::slice::from_raw_parts(block, 5_000) }.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn threads_take_turns() {
        let arena = Arena::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..3).for_each(|_| take_and_free(&arena)));
            }
        });
    }
}
