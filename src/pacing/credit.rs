//! The account of one task: its next release, its debt, and how much debt the policy forgives.
//!
//! The five usual loops for a fixed rate are one loop on a grid of absolute releases. Its credit is `r(next) − now`,
//! oversleeps included, and the loops differ only in how much debt they forgive after a tick (`docs/pacing.md` draws each of
//! them). Time is an argument; nothing blocks or allocates.
//!
//! ```text
//! releases      0         1         2         3         4         5
//! drop          [0---------------------]      [3]       [4]       [5]     1 and 2 skipped
//! keep-working  [0---------------------][2]   [3]       [4]       [5]     1 skipped, 2 late
//! catch-up 2    [0---------------------][1][2][3]       [4]       [5]     1 and 2 late
//! credit        as catch-up, with the limit in time instead of a number
//! delay         [0---------------------][1]       [2]       [3]           the grid moves
//! ```

use super::grid::{Grid, OnGrid};
use crate::time::{Instant, Span};

/// What happens to debt after a tick: how many of the releases that passed during the tick are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// No release is kept: rest until the next one. A release exactly at the finish is on time and runs.
    Drop,
    /// The most recent release is kept: the current, partly used slot runs at once.
    KeepWorking,
    /// The most recent `max` releases are kept and run back to back.
    CatchUp {
        /// Releases kept; at least 1.
        max: u32,
    },
    /// All releases at most `max_debt` old are kept.
    Credit {
        /// The greatest age of a release that is kept.
        max_debt: Span,
    },
    /// There is no debt: the grid moves, and the next release is one period after this tick's start.
    Delay,
}

/// The result of [`Account::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// `r(next) − finished`, before debt was forgiven: time to rest if above zero, debt if below.
    pub credit: Span,
    /// Releases given up.
    pub skipped: u64,
}

/// One task's account.
#[derive(Clone, Debug)]
pub struct Account {
    grid: Grid,
    overrun: Overrun,
    next: u64,
    release: Instant, // of tick `next`; under `delay` not on the grid
    second: OnGrid,   // the tick after `next`; not used under `delay`
    end: Instant,     // releases at or after this do not exist
    ran: u64,
    skipped: u64,
}

impl Account {
    /// An account that starts with tick `first`. Releases at or after `end` do not exist.
    pub fn new(grid: Grid, overrun: Overrun, first: u64, end: Instant) -> Self {
        let release = grid.release(first);
        let second = grid.at(first.saturating_add(1));
        Self { grid, overrun, next: first, release, second, end, ran: 0, skipped: 0 }
    }

    /// Moves to tick `next` of the grid.
    fn move_to(&mut self, next: u64) {
        self.next = next;
        self.release = self.grid.release(next);
        self.second = self.grid.at(next.saturating_add(1));
    }

    /// Moves to the next tick of the grid without a division.
    fn move_on(&mut self) {
        self.next = self.next.saturating_add(1);
        self.release = self.second.release(&self.grid);
        self.second = self.grid.after(self.second);
    }

    /// The next tick to run and its release; `None` if no release is left.
    pub fn next(&self) -> Option<(u64, Instant)> {
        (self.release < self.end).then_some((self.next, self.release))
    }

    /// Releases at or after this do not exist; [`Instant::MAX`] means no end.
    pub(crate) const fn end(&self) -> Instant {
        self.end
    }

    /// Ticks that have run.
    pub const fn ran(&self) -> u64 {
        self.ran
    }

    /// Releases given up.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Releases accounted for: `ran + skipped`.
    pub const fn due(&self) -> u64 {
        self.ran + self.skipped
    }

    /// One period, rounded up to a whole nanosecond.
    pub(crate) fn period(&self) -> Span {
        self.grid.period()
    }

    /// The end of the interval (exclusive), starting at the next tick's release, in which [`admit`](Self::admit) gives up nothing.
    pub(crate) fn admitted_until(&self) -> Instant {
        match self.overrun {
            Overrun::Drop | Overrun::KeepWorking | Overrun::CatchUp { .. } => self.second.release(&self.grid),
            Overrun::Credit { max_debt } => (self.release + max_debt).plus_nanos(1),
            Overrun::Delay => Instant::MAX,
        }
    }

    /// Called just before a tick starts: forgives debt from time in which *something else* delayed the worker (another task, an oversleep,
    /// a stall). Returns the number of releases given up.
    ///
    /// Here `drop` keeps the current slot, as `keep-working` does, because the task did not cause this debt.
    pub(crate) fn admit(&mut self, now: Instant) -> u64 {
        if now < self.admitted_until() {
            return 0; // The common case costs no division.
        }
        let kept = match self.overrun {
            Overrun::Drop => self.latest(now, 1),
            _ => self.kept(now),
        };
        self.give_up_to(kept)
    }

    /// Records the tick that ran from `started` to `finished`, and forgives debt according to the policy.
    ///
    /// If `finished` is before `started` (the clock was stepped back), nothing is forgiven and no harm is done.
    pub fn settle(&mut self, started: Instant, finished: Instant) -> Settled {
        self.ran += 1;
        if self.overrun == Overrun::Delay {
            self.next = self.next.saturating_add(1);
            self.release = started + self.period();
            return Settled { credit: self.release - finished, skipped: 0 };
        }
        self.move_on();
        let credit = self.release - finished;
        // No division if the task is on time, or if the policy keeps a release that is this late.
        let kept = match self.overrun {
            Overrun::Drop => finished <= self.release,
            _ => finished < self.admitted_until(),
        };
        let skipped = if kept { 0 } else { self.give_up_to(self.kept(finished)) };
        Settled { credit, skipped }
    }

    /// The clock was stepped by `by` and now shows `now`.
    ///
    /// A step forward leaves the grid alone: the releases that it jumped over are debt. A step back also leaves the grid alone, unless the
    /// wait for the next tick would grow by more than a period and exceed two periods. In that case the tick keeps its index but moves to
    /// an earlier instant of the same grid, and the end moves with it, so a task never waits for time to pass twice. Under `delay` the grid
    /// moves with the clock.
    pub(crate) fn step(&mut self, by: Span, now: Instant) {
        let endless = self.end == Instant::MAX;
        if self.overrun == Overrun::Delay {
            self.release = self.release + by;
            self.end = if endless { self.end } else { self.end + by };
            return;
        }
        let period = self.period();
        let before = (self.release - (now - by)).max(period);
        if self.release - now <= before + period {
            return;
        }
        let grid = self.grid.entered(self.next, now + (before - period));
        self.end = if endless { self.end } else { grid.release(self.grid.first_from(self.end)) };
        self.grid = grid;
        self.move_to(self.next);
    }

    /// Ends the task at `now`: gives up every release that has not run and whose slot has passed. Returns how many. A release whose slot
    /// has not passed could still have run on time, so it counts neither as run nor as given up.
    pub(crate) fn close(&mut self, now: Instant) -> u64 {
        let ended = if now < self.end { now - self.period() } else { now };
        if self.overrun == Overrun::Delay {
            let period = i128::from(self.period().nanos());
            let last = ended.min(self.end.plus_nanos(-1));
            let behind = last.nanos().saturating_sub(self.release.nanos());
            let given_up = if behind < 0 { 0 } else { u64::try_from(behind / period).unwrap_or(u64::MAX - 1) + 1 };
            self.next = self.next.saturating_add(given_up);
            self.release = self.release.plus_nanos(i128::from(given_up).saturating_mul(period));
            self.skipped += given_up;
            return given_up;
        }
        self.give_up_to(self.grid.first_from(ended.plus_nanos(1)))
    }

    /// The release of the oldest of the last `count` releases that were given up.
    pub(super) fn oldest_of_last(&self, count: u64) -> Instant {
        match self.overrun {
            Overrun::Delay => self.release.plus_nanos(-i128::from(self.period().nanos()) * i128::from(count)),
            _ => self.grid.release(self.next.saturating_sub(count)),
        }
    }

    /// The first release that the policy keeps at `now`, ignoring the end of the grid.
    fn kept(&self, now: Instant) -> u64 {
        match self.overrun {
            Overrun::Drop => self.grid.first_from(now),
            Overrun::KeepWorking => self.latest(now, 1),
            Overrun::CatchUp { max } => self.latest(now, max),
            Overrun::Credit { max_debt } => self.grid.first_from(now - max_debt),
            Overrun::Delay => self.next,
        }
    }

    /// The first of the most recent `count` releases at or before `now`.
    fn latest(&self, now: Instant, count: u32) -> u64 {
        self.grid.first_from(now.plus_nanos(1)).saturating_sub(u64::from(count))
    }

    fn give_up_to(&mut self, kept: u64) -> u64 {
        // A run that ends at `end` must look like the beginning of a longer run. Releases past the end are not counted, and a policy that
        // has moved past the end does not come back for the last slot.
        if kept <= self.next || self.release >= self.end {
            return 0;
        }
        let kept = kept.min(self.grid.first_from(self.end));
        let given_up = kept.saturating_sub(self.next);
        self.move_to(kept.max(self.next));
        self.skipped += given_up;
        given_up
    }

    /// Checks the invariants; for tests.
    ///
    /// # Panics
    /// If an invariant is broken.
    #[cfg(test)]
    pub(crate) fn invariants_hold(&self, now: Instant) {
        if self.overrun == Overrun::Delay || self.release >= self.end {
            return;
        }
        assert_eq!(self.release, self.grid.release(self.next), "the release is on the grid");
        let pending = self.grid.first_from(now.plus_nanos(1)).saturating_sub(self.next);
        match self.overrun {
            Overrun::Drop | Overrun::KeepWorking => assert!(pending <= 1, "{pending} releases of debt"),
            Overrun::CatchUp { max } => assert!(pending <= u64::from(max), "{pending} releases of debt"),
            Overrun::Credit { max_debt } => assert!(now - self.release <= max_debt, "debt past the cap"),
            Overrun::Delay => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::Rate;
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// A task at 10 Hz, starting at 0.
    fn account(overrun: Overrun, end: Instant) -> Account {
        Account::new(Grid::starting_at(Instant::ZERO, Rate::new(10, 1).unwrap()), overrun, 0, end)
    }

    /// Runs tick 0 from 0 to `finished`. Returns the next tick and the settlement.
    fn after(overrun: Overrun, finished: i64) -> (Option<(u64, Instant)>, Settled) {
        let mut account = account(overrun, Instant::MAX);
        let settled = account.settle(at(0), at(finished));
        account.invariants_hold(at(finished));
        assert_eq!(account.due(), 1 + settled.skipped);
        (account.next(), settled)
    }

    #[test]
    fn each_policy_forgives_its_share() {
        let credit = Span::from_millis(-150);
        let next = |n| Some((n, at(100 * i64::try_from(n).unwrap())));
        assert_eq!(after(Overrun::Drop, 250), (next(3), Settled { credit, skipped: 2 }));
        assert_eq!(after(Overrun::KeepWorking, 250), (next(2), Settled { credit, skipped: 1 }));
        assert_eq!(after(Overrun::CatchUp { max: 2 }, 250), (next(1), Settled { credit, skipped: 0 }));
        assert_eq!(after(Overrun::CatchUp { max: 1 }, 250), after(Overrun::KeepWorking, 250));
        let capped = Overrun::Credit { max_debt: Span::from_millis(60) };
        assert_eq!(after(capped, 250), (next(2), Settled { credit, skipped: 1 }));
        assert_eq!(after(Overrun::Delay, 250), (next(1), Settled { credit, skipped: 0 }));
    }

    #[test]
    fn a_release_that_falls_on_the_finish_is_on_time() {
        assert_eq!(after(Overrun::Drop, 100).0, Some((1, at(100))));
        assert_eq!(
            after(Overrun::Drop, 200),
            (Some((2, at(200))), Settled { credit: Span::from_millis(-100), skipped: 1 })
        );
        assert_eq!(after(Overrun::KeepWorking, 200).0, Some((2, at(200))));
    }

    #[test]
    fn drop_runs_the_current_slot_when_something_else_was_late() {
        let mut account = account(Overrun::Drop, Instant::MAX);
        assert_eq!(account.admit(at(99)), 0);
        assert_eq!(account.next(), Some((0, at(0))));
        assert_eq!(account.admit(at(250)), 2);
        assert_eq!(account.next(), Some((2, at(200))));
    }

    #[test]
    fn the_end_cuts_the_same_run_short() {
        for overrun in [Overrun::Drop, Overrun::KeepWorking, Overrun::CatchUp { max: 2 }] {
            let mut account = account(overrun, at(500));
            account.settle(at(0), at(950));
            assert_eq!((account.next(), account.due()), (None, 5), "{overrun:?}");
        }
        for overrun in [Overrun::Drop, Overrun::Delay] {
            let mut account = account(overrun, at(500));
            assert_eq!(account.close(at(299)), 2, "the slot of the third has not passed");
            assert_eq!(account.close(at(300)), 1);
            assert_eq!(account.close(at(9_000)), 2, "{overrun:?}");
            assert_eq!((account.next(), account.due()), (None, 5));
        }
    }
}
