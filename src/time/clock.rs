//! The trait [`Clock`], through which all other code reads time. Nothing here reads a clock, blocks or allocates.

use super::Instant;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The requested instant has come.
    Reached,
    /// The thread was woken to stop or reload; the instant might not have come yet.
    Interrupted,
}

/// A source of time that can also wait.
///
/// An implementation must never go back (unless it is a realtime clock that is stepped), never fail, and never report
/// `Wake::Reached` before the requested instant. No call may allocate.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Instant;

    /// Sleeps until `at`, or until the thread is interrupted.
    fn sleep_until(&self, at: Instant) -> Wake;

    /// Stays awake until `at`. Returns the first reading at or after it.
    fn spin_until(&self, at: Instant) -> Instant {
        loop {
            let now = self.now();
            if now >= at {
                return now;
            }
            std::hint::spin_loop();
        }
    }
}
