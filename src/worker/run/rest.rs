//! The wait for a release: the sleep, the preparations around it, and the spin tail.
//!
//! For the hot thread: nothing here allocates, locks or logs. The only system calls are the sleep and its evidence. Time comes from the
//! loop's clock.

use super::{Ready, Runner, slot};
use crate::channels::TickSink;
use crate::pacing::{Prepared, RestPlan};
use crate::sys::cache::warm_code;
use crate::time::{Clock, Instant, Span, Wake};
use std::ptr;

/// The longest spin without a check for requests.
const LONGEST_SPIN: Span = Span::from_micros(100);

/// The most trial sleeps before the first release, and the time to leave before that release.
const REHEARSALS: usize = 40;
const BEFORE_THE_FIRST: Span = Span::from_millis(1);

impl<C: Clock, S: TickSink> Runner<C, S> {
    /// Tries out sleeps until shortly before the first release, so that the first spin tail is as long as this machine requires. Use it if
    /// the worker's epoch lies ahead.
    #[must_use]
    pub fn rehearsed(mut self) -> Self {
        let (Some(length), Some(release)) = (self.sleeps.rehearsal(), self.set.schedule.next_release()) else {
            return self;
        };
        self.control.rests(self.clock.monotonic(release));
        for _ in 0..REHEARSALS {
            let asked = self.clock.now() + length;
            if asked + BEFORE_THE_FIRST > release || self.control.asks_for_something() {
                break;
            }
            if self.clock.sleep_until(asked) == Wake::Reached {
                self.sleeps.rehearse(asked, self.clock.now());
            }
        }
        // The effects of these sleeps on the thread say nothing about its ticks.
        if let Some(witness) = &mut self.witness {
            witness.start_over();
            witness.woke(self.clock.now());
        }
        self
    }

    /// Waits from `now` until `release`. First prepares the tick due then in `ready`, in place, because a move would copy it after the
    /// wait. Returns the instant at which the wait ended, which is the tick's start. `None`: choose again.
    pub(super) fn rest(&mut self, now: Instant, release: Instant, ready: &mut Option<Ready>) -> Option<Instant> {
        self.count_tail();
        self.control.rests(self.clock.monotonic(release));
        self.woke = now;
        let prepared = self.set.schedule.prepare(release);
        let plan = match prepared {
            Some(_) => self.sleeps.plan(now, release),
            // Only the end of the run is waited for, and it may be noticed late.
            None => RestPlan { sleep_until: Some(release), spin: false },
        };
        let code = prepared.as_ref().map_or(0, |prepared| slot(&mut self.set.slots, prepared.due.task).code);
        *ready = prepared.map(|Prepared { due, until }| self.make_ready(due, until));
        let mut ended = now;
        if let Some(asked) = plan.sleep_until {
            if let Some(witness) = &mut self.witness {
                witness.goes_to_sleep(now);
            }
            let wake = self.clock.sleep_until(asked);
            ended = self.clock.now();
            self.woke = ended;
            if let Some(witness) = &mut self.witness {
                witness.woke(ended);
            }
            self.wakes += 1;
            self.control.count_wakes(self.wakes); // now, because the tick may never return
            if wake == Wake::Interrupted {
                self.hand_back(ready.as_ref());
                return None;
            }
            self.oversleep = Some(ended - asked);
            self.sleeps.learn(asked, ended);
        }
        self.warm(ready.as_ref(), code);
        if plan.spin && ended < release {
            self.sink.warm();
            ended = self.spin_until(release);
            self.tail = Some((ended - self.woke, ended - release));
        }
        self.known = Some(ended);
        let holds = |ready: &Ready| release <= ended && ended < ready.until;
        match ready {
            Some(ready) if holds(ready) && !self.control.asks_for_something() => Some(ended),
            _ => {
                self.hand_back(ready.as_ref());
                None
            }
        }
    }

    /// Gives back a prepared tick, so that the schedule chooses again.
    fn hand_back(&mut self, ready: Option<&Ready>) {
        if let Some(ready) = ready {
            self.set.schedule.hand_back(ready.due.task);
        }
    }

    /// Prefetches memory that the tick and its end touch; a sleep may have evicted it from the processor's caches. `code`: address of the
    /// tick's code.
    fn warm(&self, ready: Option<&Ready>, code: usize) {
        let Some(Ready { due, .. }) = ready else { return };
        self.set.warm_kept(due.task);
        self.set.warm_reached(due.task);
        warm_code(ptr::without_provenance(code));
        warm_code(Self::tick as *const ());
        self.control.prepares(due.n);
    }

    /// Spins from the wake-up until `release`, or until there is a request to handle between two ticks.
    fn spin_until(&self, release: Instant) -> Instant {
        let mut now = self.woke;
        loop {
            now = self.clock.spin_until(release.min(now + LONGEST_SPIN));
            if now >= release || self.control.asks_for_something() {
                return now;
            }
        }
    }
}
