//! The atomics of what threads share without a lock: those of the standard library. `tests/loom` compiles the same files with atomics of its own,
//! which show each order that a processor's memory may show. No clock is read; nothing waits or allocates.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
