//! Things that go away and come back, such as devices, sensor files and the targets of outputs. A lost one is closed, then reopening is
//! attempted with growing waits.
//!
//! Reads the monotonic clock. Each attempt is a separate job for the pool.

use super::backoff::Backoff;
use super::keeper::Kept;
use crate::site::{Label, Refusal};
use crate::sys::clock::KernelClock;
use crate::sys::thread::helper;
use crate::time::{Clock, Instant};
use tracing::{info, warn};

/// The cool end of something that may come and go.
pub(crate) trait Reopen: Send {
    /// Whether the hot end is gone.
    fn is_abandoned(&self) -> bool;

    /// Whether it may be [gone](Self::gone). Called 40 times a second; must not block for long.
    fn is_suspect(&mut self, now: Instant) -> bool;

    /// Whether it needs to be opened, and why. May block.
    fn gone(&mut self, now: Instant) -> Option<Gone>;

    /// Its name in the log.
    fn label(&self) -> &Label;

    /// Closes it. May block.
    fn close(&mut self);

    /// Opens it if it is there. May block.
    fn open(&mut self) -> Result<Outcome, Refusal>;
}

/// Why something must be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It was missing at the start.
    Missing,
    Lost,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Opened,
    /// It was taken over from another task.
    TakenOver,
    /// No one uses it any more.
    Abandoned,
}

/// The state of something that comes and goes.
pub(crate) struct Reopening<T> {
    thing: T,
    backoff: Backoff,
    under_way: Option<Attempts>,
}

struct Attempts {
    verb: &'static str,
    began: Instant,
    made: u32,
    next: Instant,
    logged: String,
}

impl<T: Reopen> Reopening<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self { thing, backoff: Backoff::default(), under_way: None }
    }

    /// Closes it if it is gone, and starts attempts to reopen it.
    fn begin(&mut self, clock: &KernelClock) -> Option<Attempts> {
        let began = clock.now();
        let gone = self.thing.gone(began)?;
        if gone == Gone::Lost {
            warn!("{} stopped working; trying to reopen it", self.thing.label());
        }
        self.thing.close();
        let verb = if gone == Gone::Lost { "reopened" } else { "opened" };
        // A device that works only briefly each time must not be reopened, and logged, in rapid succession.
        let is_brief = self.backoff.is_gone(began);
        let next = if is_brief { clock.now() + self.backoff.take() } else { began };
        Some(Attempts { verb, began, made: 0, next, logged: String::new() })
    }
}

impl<T: Reopen> Kept for Reopening<T> {
    fn is_over(&self) -> bool {
        self.thing.is_abandoned()
    }

    fn is_due(&mut self, now: Instant) -> bool {
        match &self.under_way {
            Some(attempts) => now >= attempts.next,
            None => self.thing.is_suspect(now),
        }
    }

    fn work(&mut self) {
        let clock = KernelClock::monotonic();
        let Some(mut attempts) = self.under_way.take().or_else(|| self.begin(&clock)) else { return };
        if clock.now() >= attempts.next && !self.thing.is_abandoned() {
            attempts.made += 1;
            // A panic in the opening code must not end the attempts.
            let panicked =
                |text| Err(Refusal::new("kind", format!("the attempt to open it {text}; please report this")));
            let opened = helper::caught(|| self.thing.open()).unwrap_or_else(panicked);
            let (label, verb, now) = (self.thing.label(), attempts.verb, clock.now());
            match opened {
                Ok(outcome) => {
                    let (took, made) = ((now - attempts.began).seconds(), attempts.made);
                    match outcome {
                        Outcome::Opened => info!("{label} was {verb} after {took:.1} s, at attempt {made}"),
                        Outcome::TakenOver => info!("{label} was taken over from the task that ended"),
                        Outcome::Abandoned => {}
                    }
                    self.backoff.is_there(now);
                    return;
                }
                Err(refusal) if refusal.message != attempts.logged => {
                    warn!("{label} cannot be {verb} yet; hertzd keeps trying: {}", refusal.message);
                    attempts.logged = refusal.message;
                }
                Err(_) => {}
            }
            attempts.next = now + self.backoff.take();
        }
        self.under_way = Some(attempts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::pause;
    use crate::time::Span;

    /// Works only briefly each time.
    struct Flapping(Label);

    impl Reopen for Flapping {
        fn is_abandoned(&self) -> bool {
            false
        }

        fn is_suspect(&mut self, _: Instant) -> bool {
            true
        }

        fn gone(&mut self, _: Instant) -> Option<Gone> {
            Some(Gone::Lost)
        }

        fn label(&self) -> &Label {
            &self.0
        }

        fn close(&mut self) {}

        fn open(&mut self) -> Result<Outcome, Refusal> {
            Ok(Outcome::Opened)
        }
    }

    #[test]
    fn one_that_works_for_a_moment_each_time_is_tried_less_and_less() {
        let clock = KernelClock::monotonic();
        let mut reopening = Reopening::new(Flapping(Label::new("flapping toy", "a")));
        reopening.work();
        assert!(reopening.under_way.is_none(), "at first it is opened at once");
        for least in [100, 200, 400].map(Span::from_millis) {
            reopening.work();
            let Attempts { began, made, next, .. } = *reopening.under_way.as_ref().unwrap();
            assert!(made == 0 && next - began >= least);
            while !reopening.is_due(clock.now()) {
                pause(Span::from_millis(10));
            }
            reopening.work();
            assert!(reopening.under_way.is_none());
        }
    }
}
