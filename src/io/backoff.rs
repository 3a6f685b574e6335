//! How long to wait between attempts at what is away. Pure: time comes in as a value.

use crate::time::{Instant, Span};

/// The wait after the first attempt; after each further one it doubles, up to [`LONGEST`].
const FIRST: Span = Span::from_millis(100);
const LONGEST: Span = Span::from_seconds(2);

/// What is there for less than this has been there for a moment only.
const STEADY: Span = Span::from_seconds(10);

/// The waits for one thing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    wait: Span,
    steady: Option<Instant>, // if it is there until then, waits begin again
}

impl Default for Backoff {
    fn default() -> Self {
        Self { wait: FIRST, steady: None }
    }
}

impl Backoff {
    /// The wait before the next attempt; the one after that is longer.
    pub(crate) fn take(&mut self) -> Span {
        let wait = self.wait;
        self.wait = (wait + wait).min(LONGEST);
        wait
    }

    /// It is there, since now.
    pub(crate) fn is_there(&mut self, now: Instant) {
        self.steady = Some(now + STEADY);
    }

    /// It is there no more. True: it was for a moment only, so what works for a moment each time is tried less and less. Otherwise waits begin again.
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
