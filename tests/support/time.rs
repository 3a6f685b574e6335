//! Time for tests, based on the standard library.

#![allow(dead_code, reason = "each test program uses a part of this")]

use hertzd::time::Span;
use std::time::{Duration, Instant};

/// Sleeps for at least this long.
#[expect(clippy::disallowed_methods, reason = "tests wait in real time")]
pub(crate) fn pause(span: Span) {
    std::thread::sleep(Duration::from_nanos(span.nanos().try_into().unwrap_or(0)));
}

/// Starts a stopwatch. The returned function tells the time since its start.
#[expect(clippy::disallowed_methods, reason = "tests wait in real time")]
pub(crate) fn stopwatch() -> impl Fn() -> Span {
    let begun = Instant::now();
    move || Span::from_nanos(begun.elapsed().as_nanos().try_into().unwrap_or(i64::MAX))
}
