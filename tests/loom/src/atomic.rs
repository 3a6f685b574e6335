//! Replaces the atomics that hertzd is built with by loom's: as strong as the code states, or with one operation slightly weaker.
//!
//! Only a fence may be sequentially consistent: loom has no such operation, and emulating it with fences would hide what its neighbours
//! lack. If a trial asks for it, numbers that are read and written without an order count as memory that only one thread at a time may
//! touch. This also finds reads from the future, which loom's threads never make.

use crate::trial::{self, Kind, Strength};
use loom::sync::atomic as model;
use std::panic::Location;
pub use std::sync::atomic::Ordering;

/// Has no value, and is touched whenever a value is.
struct Touched(loom::cell::UnsafeCell<()>);

// SAFETY: nothing is in there.
unsafe impl Sync for Touched {}

impl std::fmt::Debug for Touched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("()")
    }
}

loom::lazy_static! {
    /// Touched by each sequentially consistent fence, so that loom tries these in every order.
    static ref FENCES: model::AtomicUsize = model::AtomicUsize::new(0);
}

/// Call this before a second thread exists: a value created later would order the two threads that touch it first.
pub(crate) fn begin() {
    FENCES.load(Ordering::Relaxed);
}

/// Like `std::sync::atomic::fence`.
#[track_caller]
pub fn fence(order: Ordering) {
    match trial::strength(Location::caller(), Kind::Fence, order) {
        Strength::None => {}
        Strength::Acquire => model::fence(Ordering::Acquire),
        Strength::Release => model::fence(Ordering::Release),
        Strength::Both => model::fence(Ordering::AcqRel),
        Strength::Total => {
            FENCES.fetch_add(1, Ordering::Relaxed);
            model::fence(Ordering::SeqCst);
        }
    }
}

macro_rules! atomics {
    ($($name:ident $value:ty, $is_memory:expr;)+) => {
        $(
            /// Like the type of the standard library.
            #[derive(Debug)]
            pub struct $name(model::$name, Touched);

            impl Default for $name {
                fn default() -> Self {
                    Self::new(<$value>::default())
                }
            }

            impl $name {
                pub fn new(value: $value) -> Self {
                    Self(model::$name::new(value), Touched(loom::cell::UnsafeCell::new(())))
                }

                #[track_caller]
                pub fn load(&self, order: Ordering) -> $value {
                    let strength = trial::strength(Location::caller(), Kind::Load, order);
                    if $is_memory && order == Ordering::Relaxed && trial::numbers_are_memory() {
                        self.1.0.with(|_| ());
                    }
                    self.0.load(if strength == Strength::None { Ordering::Relaxed } else { Ordering::Acquire })
                }

                #[track_caller]
                pub fn store(&self, value: $value, order: Ordering) {
                    let strength = trial::strength(Location::caller(), Kind::Store, order);
                    if $is_memory && order == Ordering::Relaxed && trial::numbers_are_memory() {
                        self.1.0.with_mut(|_| ());
                    }
                    self.0.store(value, if strength == Strength::None { Ordering::Relaxed } else { Ordering::Release });
                }

                #[track_caller]
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    exchanged(Location::caller(), order, |order| self.0.swap(value, order))
                }
            }
        )+
    };
}

macro_rules! numbers {
    ($($name:ident $value:ty),+) => {
        $(
            impl $name {
                #[track_caller]
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    exchanged(Location::caller(), order, |order| self.0.fetch_add(value, order))
                }

                /// A failed exchange has no order.
                #[track_caller]
                pub fn compare_exchange(&self, now: $value, then: $value, order: Ordering, _: Ordering) -> Result<$value, $value> {
                    exchanged(Location::caller(), order, |order| self.0.compare_exchange(now, then, order, Ordering::Relaxed))
                }

                #[track_caller]
                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    exchanged(Location::caller(), order, |order| self.0.fetch_sub(value, order))
                }
            }
        )+
    };
}

fn exchanged<T>(at: &Location<'_>, order: Ordering, exchange: impl FnOnce(Ordering) -> T) -> T {
    exchange(match trial::strength(at, Kind::Exchange, order) {
        Strength::None => Ordering::Relaxed,
        Strength::Acquire => Ordering::Acquire,
        Strength::Release => Ordering::Release,
        Strength::Both | Strength::Total => Ordering::AcqRel,
    })
}

atomics! {
    AtomicBool bool, false;
    AtomicU8 u8, false;
    AtomicI32 i32, false;
    AtomicU32 u32, false;
    AtomicI64 i64, true;
    AtomicU64 u64, true;
    AtomicUsize usize, true;
}
numbers!(AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);
