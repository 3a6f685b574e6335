//! Whether a worker advances, and which task is to blame if not.
//!
//! Pure: the worker's state and the time come in as values. A worker that rests until its next release advances. A worker that has been in
//! the same tick for too long does not, nor does one that has slept too far past its release.

use crate::sys::thread::Usage;
use crate::time::{Instant, Span};
use crate::worker::{Activity, Doing};

/// A worker that does not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    /// The number of the task that does not return, and its tick; `None`: the worker does not wake up.
    pub(crate) tick: Option<(u32, u64)>,
    /// How long it has lasted.
    pub(crate) lasting: Span,
}

/// Main's checks of the workers. If main did not check because the whole process was stopped, no worker could advance either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    latest: Instant,
    since: Instant, // without a gap
}

/// A check that is later than this is a gap, whatever the patience.
const LONG_GAP: Span = Span::from_seconds(1);

impl Looks {
    pub(crate) fn beginning(now: Instant) -> Self {
        Self { latest: now, since: now }
    }

    /// Main checks at `now`, after it meant to wait at most `wait`. It is a gap if the check is late by more than a second or by half of
    /// `patience`, the time after which a worker counts as stalled. Returns the delay of a gap longer than a second.
    pub(crate) fn look(&mut self, now: Instant, wait: Span, patience: Span) -> Option<Span> {
        let late = now - self.latest - wait;
        self.latest = now;
        let gap = late > LONG_GAP.min(Span::from_nanos(patience.nanos() / 2));
        if gap {
            self.since = now;
        }
        (gap && late > LONG_GAP).then_some(late)
    }

    /// Since when main has checked without a gap.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// How long that was at its last check.
    pub(crate) fn watched(&self) -> Span {
        self.latest - self.since
    }
}

/// What decides whether a stall shows: how long main has checked without a gap, and after what time a tick is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallLooks {
    pub(crate) watched: Span,
    pub(crate) patience: Span,
}

/// A worker that does not advance shows as stalled after this time.
const SHOWN_AFTER: Span = Span::from_millis(750);

/// A stall that follows another of the same worker sooner than this is logged only if it lasts long enough to stop the watchdog from being
/// fed.
const LOG_EVERY: Span = Span::from_seconds(10);

/// Watches one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    ticks: Option<u64>,
    moved: Option<Instant>,  // the check that first saw these ticks
    before: Option<Instant>, // the check before that
    looked: Option<Instant>,
    reported: Option<Activity>,
    logged: Option<(Doing, Stall, Instant)>, // the stall in progress, and its earliest possible beginning
    last_logged: Option<Instant>,
}

/// What to log about a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A stall was detected.
    Begins(Stall),
    /// A stall is over, and lasted at most this long.
    Ends(Stall),
}

/// The result of checking a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It advances.
    Advances,
    /// It has not advanced for longer than the patience, and this is new.
    Stalls(Stall),
    /// It still does not advance.
    StallsStill,
}

impl Watch {
    /// The tick that was reported not to return: the number of its task, and its index.
    pub(crate) fn stalled(&self) -> Option<(u32, u64)> {
        match self.reported? {
            Activity::Runs { task, n, .. } => Some((task, n)),
            Activity::Rests { .. } => None,
        }
    }

    /// Whether the worker was reported not to wake up between two ticks.
    pub(crate) fn sleeps_on(&self) -> bool {
        matches!(self.reported, Some(Activity::Rests { .. }))
    }

    /// The worker's stall at `now`, if it has lasted for [`SHOWN_AFTER`], which is shorter than the time until it is reported. A tick may
    /// also last until its deadline, `deadline_of` its task. Only time within the last `watched` counts.
    pub(crate) fn lasting(
        &self,
        now: Instant,
        doing: Doing,
        watched: Span,
        deadline_of: impl Fn(u32) -> Span,
    ) -> Option<Stall> {
        let moved = self.moved.filter(|_| self.ticks == Some(doing.ticks))?;
        let (lasting, tick, patience) = match doing.now {
            Activity::Runs { task, n, since } => (now - since, Some((task, n)), deadline_of(task)),
            Activity::Rests { until } => ((now - until).min(now - moved), None, Span::ZERO),
        };
        (lasting.min(watched) > patience.max(SHOWN_AFTER)).then_some(Stall { tick, lasting })
    }

    /// How long the worker has not advanced at `now`. Zero or negative while it rests until a future release.
    pub(crate) fn still_for(&self, now: Instant, doing: Doing) -> Span {
        let Some(moved) = self.moved.filter(|_| self.ticks == Some(doing.ticks)) else { return Span::ZERO };
        match doing.now {
            Activity::Runs { since, .. } => now - since,
            Activity::Rests { until } => (now - until).min(now - moved),
        }
    }

    /// What to log at `now`, given the worker's state and the `stall` that [lasts](Self::lasting).
    pub(crate) fn entry(&mut self, now: Instant, doing: Doing, stall: Option<Stall>, patience: Span) -> Option<Entry> {
        if let Some((since_then, stall, since)) = self.logged {
            // While main itself was stopped, no stall shows, but it may continue.
            if since_then == doing {
                return None;
            }
            self.logged = None;
            return Some(Entry::Ends(Stall { lasting: now - since, ..stall }));
        }
        let is_new =
            |stall: &Stall| self.last_logged.is_none_or(|logged| now - logged >= LOG_EVERY) || stall.lasting > patience;
        let stall = stall.filter(is_new)?;
        // The last tick before this rest ended after the check that had not seen it.
        let since = match (doing.now, self.before) {
            (Activity::Rests { until }, Some(before)) => until.max(before).min(now - stall.lasting),
            _ => now - stall.lasting,
        };
        (self.logged, self.last_logged) = (Some((doing, stall, since)), Some(now));
        Some(Entry::Begins(stall))
    }

    /// The run ends without this worker, which is still doing this.
    pub(crate) fn give_up(&mut self, doing: Doing) {
        self.reported = Some(doing.now);
    }

    /// Checks the worker at `now`, on the monotonic clock. A tick that lasts longer than `patience`, or is delayed by more, is a stall and
    /// is reported once. Only time within the last `watched` counts.
    pub(crate) fn look(&mut self, now: Instant, doing: Doing, watched: Span, patience: Span) -> Finding {
        // A worker that is always behind never rests, so between two ticks it shows an old rest.
        let before = self.looked.replace(now);
        if self.ticks.replace(doing.ticks) != Some(doing.ticks) {
            (self.moved, self.before) = (Some(now), before);
            self.reported = None;
            return Finding::Advances;
        }
        let (lasting, tick) = match doing.now {
            Activity::Runs { task, n, since } => (now - since, Some((task, n))),
            Activity::Rests { until } => (now - until, None),
        };
        if lasting.min(watched) <= patience {
            self.reported = None;
            return Finding::Advances;
        }
        if self.reported.replace(doing.now) == Some(doing.now) {
            return Finding::StallsStill;
        }
        Finding::Stalls(Stall { tick, lasting })
    }
}

/// What a worker has used since its last sleep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streak {
    sleeps: u64,
    since: Span, // its processor time at the first check after that sleep
}

impl Streak {
    /// Updates the record with the kernel's numbers.
    pub(crate) fn look(&mut self, Usage { cpu, sleeps }: Usage) {
        if self.sleeps != sleeps {
            *self = Self { sleeps, since: cpu };
        }
    }

    /// Whether the worker has gone without a sleep since the last check, and the CPU time it has used in this streak.
    pub(crate) fn used(&self, Usage { cpu, sleeps }: Usage) -> (bool, Span) {
        (self.sleeps == sleeps, cpu - self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_looks_is_no_stall() {
        let (second, span) = (|seconds| Instant::ZERO + Span::from_seconds(seconds), Span::from_seconds);
        let mut looks = Looks::beginning(second(0));
        let patience = span(5);
        assert_eq!((looks.look(second(1), span(1), patience), looks.watched()), (None, span(1)));
        assert_eq!((looks.look(second(3), span(1), patience), looks.watched()), (None, span(3)), "a little late");
        assert_eq!((looks.look(second(60), span(1), patience), looks.watched()), (Some(span(56)), span(0)));
        assert_eq!((looks.look(second(61), span(1), patience), looks.watched()), (None, span(1)));
        // With a short patience, a short gap counts too, without being reported.
        assert_eq!((looks.look(second(62), span(0), span(1)), looks.watched()), (None, span(0)));
        let rests = Doing { ticks: 5, now: Activity::Rests { until: second(4) } };
        let mut watch = Watch::default();
        watch.look(second(3), rests, span(3), patience);
        assert_eq!(watch.look(second(60), rests, span(0), patience), Finding::Advances, "it was stopped itself");
        let asleep = Stall { tick: None, lasting: span(62) };
        assert_eq!(watch.look(second(66), rests, span(6), patience), Finding::Stalls(asleep));
    }

    #[test]
    fn a_stall_shows_before_it_is_reported() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let mut watch = Watch::default();
        let runs = Doing { ticks: 5, now: Activity::Runs { task: 3, n: 70, since: at(1_000) } };
        watch.look(at(1_100), runs, Span::MAX, Span::from_seconds(9));
        let shown = |now, doing, watched, deadline| {
            watch.lasting(at(now), doing, Span::from_millis(watched), |_| Span::from_millis(deadline))
        };
        let stall = |lasting| Some(Stall { tick: Some((3, 70)), lasting: Span::from_millis(lasting) });
        assert_eq!(shown(1_750, runs, 9_000, 1), None);
        assert_eq!(shown(1_751, runs, 9_000, 1), stall(751));
        assert_eq!(shown(2_900, runs, 700, 1), None, "main was stopped itself");
        assert_eq!(shown(2_900, runs, 9_000, 2_000), None, "it may take that long");
        assert_eq!(shown(3_001, runs, 9_000, 2_000), stall(2_001));
        assert_eq!(shown(3_001, Doing { ticks: 6, ..runs }, 9_000, 1), None, "it has advanced since the look");
        assert_eq!(watch.still_for(at(1_300), runs), Span::from_millis(300));
        assert_eq!(watch.still_for(at(1_300), Doing { ticks: 6, ..runs }), Span::ZERO);
        let late = Doing { ticks: 5, now: Activity::Rests { until: at(1_000) } };
        assert_eq!(watch.still_for(at(1_300), late), Span::from_millis(200), "since the look");
        assert!(watch.still_for(at(900), late) < Span::ZERO, "nothing is due");
        assert_eq!(shown(1_800, late, 9_000, 1), None, "it is not known to rest since then");
        assert_eq!(shown(1_900, late, 9_000, 1), Some(Stall { tick: None, lasting: Span::from_millis(800) }));
    }

    #[test]
    fn a_stall_is_logged_when_it_is_known_and_when_it_is_over_but_not_each_of_many() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let patience = Span::from_seconds(5);
        let runs = |ticks| Doing { ticks, now: Activity::Runs { task: 3, n: 70 + ticks, since: at(1_000) } };
        let stall = |n, millis| Stall { tick: Some((3, n)), lasting: Span::from_millis(millis) };
        let mut watch = Watch::default();
        assert_eq!(watch.entry(at(1_500), runs(0), None, patience), None);
        let begins = watch.entry(at(1_800), runs(0), Some(stall(70, 800)), patience);
        assert_eq!(begins, Some(Entry::Begins(stall(70, 800))));
        assert_eq!(watch.entry(at(2_800), runs(0), Some(stall(70, 1_800)), patience), None);
        assert_eq!(watch.entry(at(9_000), runs(0), None, patience), None, "main was stopped itself");
        assert_eq!(watch.entry(at(9_500), runs(1), None, patience), Some(Entry::Ends(stall(70, 8_500))));
        // The next stall follows soon.
        assert_eq!(watch.entry(at(10_000), runs(1), Some(stall(71, 1_000)), patience), None);
        let begins = watch.entry(at(14_001), runs(1), Some(stall(71, 5_001)), patience);
        assert_eq!(begins, Some(Entry::Begins(stall(71, 5_001))));
        assert_eq!(watch.entry(at(15_000), runs(2), None, patience), Some(Entry::Ends(stall(71, 6_000))));
        let later = watch.entry(at(25_000), runs(2), Some(stall(72, 900)), patience);
        assert_eq!(later, Some(Entry::Begins(stall(72, 900))));
    }

    #[test]
    fn what_a_rest_lasted_at_the_most_is_never_too_little() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let patience = Span::from_seconds(5);
        let rests = |ticks, until| Doing { ticks, now: Activity::Rests { until: at(until) } };
        let mut watch = Watch::default();
        watch.look(at(1_000), rests(4, 1_010), Span::MAX, patience);
        // The worker ticked soon after that check and was due again at 1,020; or it had been behind since 300.
        for (ticks, until, most) in [(5, 1_020, 1_480), (6, 300, 1_500)] {
            let doing = rests(ticks, until);
            watch.look(at(1_250), doing, Span::MAX, patience);
            let stall = watch.lasting(at(2_250), doing, Span::MAX, |_| patience);
            assert_eq!(stall, Some(Stall { tick: None, lasting: Span::from_millis(1_000) }));
            watch.last_logged = None;
            assert!(matches!(watch.entry(at(2_250), doing, stall, patience), Some(Entry::Begins(_))));
            let Some(Entry::Ends(over)) = watch.entry(at(2_500), rests(9, 2_510), None, patience) else { panic!() };
            assert_eq!(over.lasting, Span::from_millis(most));
            watch.look(at(1_000), rests(4, 1_010), Span::MAX, patience);
        }
    }

    #[test]
    fn a_stall_is_reported_once_and_a_rest_is_none() {
        let second = |seconds| Instant::ZERO + Span::from_seconds(seconds);
        let patience = Span::from_seconds(2);
        let mut watch = Watch::default();
        let mut look = |now, what| watch.look(second(now), Doing { ticks: 0, now: what }, Span::MAX, patience);
        assert_eq!(look(0, Activity::Rests { until: second(-50) }), Finding::Advances, "nothing to compare with");
        assert_eq!(look(0, Activity::Rests { until: second(10) }), Finding::Advances);
        assert_eq!(look(12, Activity::Rests { until: second(10) }), Finding::Advances);
        let asleep = Stall { tick: None, lasting: Span::from_seconds(3) };
        assert_eq!(look(13, Activity::Rests { until: second(10) }), Finding::Stalls(asleep));
        assert_eq!(look(14, Activity::Rests { until: second(10) }), Finding::StallsStill);
        let runs = Activity::Runs { task: 3, n: 70, since: second(14) };
        assert_eq!(look(16, runs), Finding::Advances);
        let hangs = Stall { tick: Some((3, 70)), lasting: Span::from_seconds(3) };
        assert_eq!(look(17, runs), Finding::Stalls(hangs));
        assert_eq!(look(18, runs), Finding::StallsStill);
        assert_eq!(look(19, Activity::Rests { until: second(20) }), Finding::Advances);
        // Before its first rest, a worker shows when it should have begun.
        let mut unborn = Watch::default();
        let mut look = |now| {
            let doing = Doing { ticks: 0, now: Activity::Rests { until: second(0) } };
            unborn.look(second(now), doing, Span::MAX, patience)
        };
        let found = [0, 2, 3].map(&mut look);
        let never_ran = Stall { tick: None, lasting: Span::from_seconds(3) };
        assert_eq!(found, [Finding::Advances, Finding::Advances, Finding::Stalls(never_ran)]);
        let ticked = Doing { ticks: 1, now: Activity::Rests { until: second(1) } };
        assert_eq!(watch.look(second(90), ticked, Span::MAX, patience), Finding::Advances, "it has ticked since");
    }

    #[test]
    fn what_was_used_before_a_sleep_does_not_count() {
        let usage = |cpu, sleeps| Usage { cpu: Span::from_millis(cpu), sleeps };
        let mut streak = Streak::default();
        streak.look(usage(100, 3));
        assert_eq!(streak.used(usage(150, 3)), (true, Span::from_millis(50)));
        streak.look(usage(400, 3));
        assert_eq!(streak.used(usage(420, 3)), (true, Span::from_millis(320)), "from the sleep, not from the look");
        assert_eq!(streak.used(usage(430, 4)), (false, Span::from_millis(330)), "at most, as it has slept");
        streak.look(usage(440, 9));
        assert_eq!(streak.used(usage(441, 9)), (true, Span::from_millis(1)));
    }
}
