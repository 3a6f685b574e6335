//! The atomics for data that threads share without a lock: the standard library's. `tests/loom` compiles the same files with its own
//! atomics, which try every order of memory accesses that a processor may show. No clock is read; nothing waits or allocates.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
