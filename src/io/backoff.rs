//! How long to wait between attempts to reopen something. Pure: time comes in as a value.

use crate::time::{Instant, Span};

/// The wait after the first attempt; it doubles after each further one, up to [`LONGEST`].
const FIRST: Span = Span::from_millis(100);
const LONGEST: Span = Span::from_seconds(2);

/// Something that is there for less than this was there only briefly.
const STEADY: Span = Span::from_seconds(10);

/// The waits for one thing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    wait: Span,
    steady: Option<Instant>, // if it is still there then, waits start over
}

impl Default for Backoff {
    fn default() -> Self {
        Self { wait: FIRST, steady: None }
    }
}

impl Backoff {
    /// The wait before the next attempt; the following one is longer.
    pub(crate) fn take(&mut self) -> Span {
        let wait = self.wait;
        self.wait = (wait + wait).min(LONGEST);
        wait
    }

    /// Notes that it is there, as of now.
    pub(crate) fn is_there(&mut self, now: Instant) {
        self.steady = Some(now + STEADY);
    }

    /// Notes that it is gone. True: it was there only briefly, and the waits keep growing, so that attempts become rarer. Otherwise the
    /// waits start over.
    pub(crate) fn is_gone(&mut self, now: Instant) -> bool {
        let was_there_briefly = self.steady.is_some_and(|steady| now < steady);
        if !was_there_briefly {
            self.wait = FIRST;
        }
        was_there_briefly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(backoff: &mut Backoff, attempts: usize) -> Vec<i64> {
        (0..attempts).map(|_| backoff.take().nanos() / 1_000_000).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        assert_eq!(after(&mut Backoff::default(), 7), [100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }

    #[test]
    fn waits_begin_anew_after_what_was_steady() {
        let (mut backoff, at) = (Backoff::default(), |seconds| Instant::ZERO + Span::from_seconds(seconds));
        assert!(!backoff.is_gone(at(0)), "it was never there");
        assert_eq!(after(&mut backoff, 2), [100, 200]);
        backoff.is_there(at(1));
        assert!(backoff.is_gone(at(10)));
        assert_eq!(after(&mut backoff, 2), [400, 800]);
        backoff.is_there(at(20));
        assert!(!backoff.is_gone(at(30)));
        assert_eq!(after(&mut backoff, 2), [100, 200]);
    }
}
