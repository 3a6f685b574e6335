//! The lock-free state that hertzd's threads share, in every order that a memory may show. Compiles hertzd's files as they ship, with
//! loom's atomics. Run by `cargo test --release --manifest-path tests/loom/Cargo.toml`.
//!
//! Not tried: the queues of crates (`rtrb`, `crossbeam-channel`), which their authors test; independent flags and counters (`Relaxed`, or a
//! single variable that is compared with no other); and the data that a crashed thread leaves for another one (`src/sys/crash.rs`), which
//! it wakes by a write to a pipe.

#![allow(dead_code, unused_imports, reason = "of the files of hertzd only parts are tried")]

pub(crate) mod atomic;
pub mod trial;

#[path = "../../../src/channels/mod.rs"]
pub(crate) mod channels;
#[path = "../../../src/time/mod.rs"]
pub(crate) mod time;

#[path = "../../../src/worker"]
pub mod worker {
    pub(crate) mod control;
    #[path = "../../tests/loom/src/control.rs"]
    pub mod models;
}

#[path = "../../../src/safety"]
pub mod safety {
    pub(crate) mod guard;
    pub(crate) mod live;
    #[path = "../../tests/loom/src/output.rs"]
    pub mod models;
    pub(crate) mod reading;
    pub(crate) mod safe_write;
    pub(crate) mod written;

    pub(crate) mod planned_write {
        //! The description of a safe write for people, which no model needs.

        #[derive(Clone, Debug)]
        pub(crate) struct PlannedWrite;

        impl std::fmt::Display for PlannedWrite {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a safe value")
            }
        }
    }
}

#[path = "../../../src/daemon/outputs"]
pub mod daemon {
    #[path = "../../../tests/loom/src/orders.rs"]
    pub mod models;
    pub(crate) mod safe_orders;
}

pub(crate) mod sys {
    pub(crate) mod thread {
        pub(crate) mod helper {
            /// Nothing here panics.
            pub(crate) fn caught_aside<T>(work: impl FnOnce() -> T) -> Result<T, String> {
                Ok(work())
            }
        }
    }

    pub(crate) mod clock {
        //! The clock is only read for messages.

        pub(crate) struct KernelClock;

        impl KernelClock {
            pub(crate) const fn monotonic() -> Self {
                Self
            }
        }

        impl crate::time::Clock for KernelClock {
            fn now(&self) -> crate::time::Instant {
                crate::time::Instant::ZERO
            }

            fn sleep_until(&self, _: crate::time::Instant) -> crate::time::Wake {
                crate::time::Wake::Reached
            }
        }

        pub(crate) fn pause(_: crate::time::Span) {
            loom::thread::yield_now();
        }
    }
}

pub mod counts;
pub(crate) mod note;
pub mod values;
