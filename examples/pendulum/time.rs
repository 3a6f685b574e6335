//! The clock of a program that is not hertzd: the only place of this example where time is read, and where it sleeps.

use hertzd::time::{Instant, Span};
use std::time::Duration;

/// Time since it was started.
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a program with a clock of its own, as FixedStep is meant for")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(i128::try_from(self.0.elapsed().as_nanos()).unwrap_or(i128::MAX))
    }
}

#[expect(clippy::disallowed_methods, reason = "a program with a clock of its own, as FixedStep is meant for")]
pub(crate) fn sleep(span: Span) {
    std::thread::sleep(Duration::from_nanos(span.nanos().unsigned_abs()));
}
