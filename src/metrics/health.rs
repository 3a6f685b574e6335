//! How one task is doing now: what is due by the clock and how much of it was missed, the last seconds, and what is wrong.
//!
//! Counts come from the worker's own counters, everything else from its records. Time is an argument; nothing waits.

use super::facts::TaskFacts;
use super::last_misses::{LastMisses, RecentMiss};
use super::window::{LONG, SHORT, Tally, Windows};
use crate::channels::{Counts, Live, Outcome, TickRecord};
use crate::pacing::{Grid, Rate};
use crate::snapshot::{self, WindowSummary, exceeds};
use crate::time::{Instant, Span};

/// A worker that has ended reports that within this time.
const SETTLED: Span = Span::from_seconds(1);

/// Periods are rounded. Only a release this much older than the oldest that is kept is certain to be given up.
const ROUNDING: Span = Span::from_nanos(10);

/// A task that has waited for less than this will soon report itself what it gave up.
const WAITS_LONG: Span = Span::from_millis(250);

/// What is due up to now, by the clock, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub over_budget: u64,
    pub errors: u64,
    pub disabled: bool,
    pub counts: snapshot::Counts, // unfinished releases past their deadline also count as missed
}

impl Default for Progress {
    fn default() -> Self {
        Self::finished(Counts::default())
    }
}

impl Progress {
    /// For a task that shows `live` at `now` on its worker's clock. With a moving grid, only one release is open at a time.
    pub(crate) fn of(live: &Live, rate: Rate, deadline: Span, grid_moves: bool, now: Instant) -> Self {
        let before = |at| open_before(live, rate, grid_moves, at);
        let (open, late) = (before(now.plus_nanos(1)), before(now - deadline));
        let mut progress = Self::finished(live.counts);
        progress.counts.due += open + live.passed;
        progress.counts.missed += late + live.passed;
        progress.counts.pending = Some(open - late);
        progress
    }

    /// For a task whose worker is given up while releases are open. Open releases past their deadline count as skipped; the others are not
    /// counted at all.
    pub(crate) fn given_up(self) -> Self {
        Self::finished(Counts { skipped: self.counts.missed - self.counts.overruns, ..self.shown() })
    }

    /// The counts that the worker showed.
    const fn shown(&self) -> Counts {
        let Self { over_budget, errors, disabled, counts } = *self;
        let snapshot::Counts { ran, skipped, overruns, .. } = counts;
        Counts { ran, skipped, overruns, over_budget, errors, disabled }
    }

    /// Releases past their deadline that are neither finished nor given up.
    pub(crate) const fn open(&self) -> u64 {
        self.counts.missed - self.counts.skipped - self.counts.overruns
    }

    /// For a task that no longer ticks.
    pub(crate) fn finished(shown: Counts) -> Self {
        let Counts { ran, skipped, overruns, over_budget, errors, disabled } = shown;
        Self { over_budget, errors, disabled, counts: snapshot::Counts::of(ran, skipped, overruns) }
    }
}

/// How many of the task's uncounted releases lie before `at`.
fn open_before(live: &Live, rate: Rate, grid_moves: bool, at: Instant) -> u64 {
    let at = live.end.map_or(at, |end| at.min(end));
    match live.next.filter(|next| *next < at) {
        None => 0,
        Some(_) if grid_moves => 1,
        Some(next) => Grid::starting_at(next, rate).first_from(at),
    }
}

/// What is wrong with a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ailment {
    /// Its most recent tick failed, or too many of the last ones did.
    Failing(String),
    /// Its device is absent.
    Waiting(String),
    /// It was ended.
    Disabled(String),
}

/// How a task is doing. Spans count back from now.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskHealth {
    pub progress: Progress,
    pub short: WindowSummary,
    pub long: WindowSummary,
    pub ailment: Option<(Ailment, Option<Span>)>, // and for how long, if known
    pub misses: Vec<(RecentMiss, Span)>,          // the most recent misses, newest first, each with its age
}

/// Tracks one task's health. The task's facts are passed in with each call.
#[derive(Debug, Default)]
pub(super) struct Health {
    windows: Windows,
    failures: Option<Box<Failures>>, // once a tick failed: most tasks never fail
    pub(super) misses: Option<Box<LastMisses>>, // once something was missed, likewise
    given_up: Option<Box<Progress>>, // the progress when its worker was given up
}

/// Ticks that failed, and when they were noted.
#[derive(Debug)]
struct Failures {
    lasting: Option<(Outcome, Instant)>, // the first of an unbroken series of equal failures up to the last tick; None: the last tick did not fail
    latest: (Outcome, Instant),
}

impl Health {
    /// Frees its windows, after the last check.
    pub(super) fn close(&mut self) {
        self.windows.close();
    }

    /// Notes a tick. `oldest` is the lateness of the tick or of the oldest release it gave up. The record was taken from the channel at
    /// `now`, on a monotonic clock.
    pub(super) fn note(&mut self, record: &TickRecord, oldest: Span, now: Instant) {
        self.late(oldest);
        let outcome = record.outcome;
        if outcome == Outcome::Done {
            if let Some(failures) = &mut self.failures {
                failures.lasting = None;
            }
            return;
        }
        let latest = (outcome, now);
        let before = self.failures.as_ref().and_then(|failures| failures.lasting);
        let lasting = before.filter(|(before, _)| *before == outcome).or(Some(latest));
        match &mut self.failures {
            Some(failures) => **failures = Failures { lasting, latest },
            None => self.failures = Some(Box::new(Failures { lasting, latest })),
        }
    }

    /// Notes how late a tick was, or the most that several ticks were late.
    pub(super) fn late(&mut self, lateness: Span) {
        self.windows.late(lateness);
    }

    /// Whether a tick without a miss or failure would change nothing but the lateness.
    pub(super) fn is_fine(&self) -> bool {
        !self.is_given_up() && self.failures.as_ref().is_none_or(|failures| failures.lasting.is_none())
    }

    /// Enters the counts into the windows. Must be called at least once a second. `worker_now` is on the clock of the releases.
    pub(super) fn sample(&mut self, facts: &TaskFacts, now: Instant, worker_now: Instant) -> Progress {
        let given_up = self.given_up.as_deref().copied();
        let progress = given_up.unwrap_or_else(|| progress(facts, worker_now).0);
        let snapshot::Counts { due, met, missed, .. } = progress.counts;
        self.windows.enter(now, Tally { due, met, missed, errors: progress.errors });
        progress
    }

    /// Gives up the task's worker: from now on nothing changes. Returns what the worker counted, how many of its open releases are past
    /// their deadline, and how late the first open release is.
    pub(super) fn give_up(&mut self, facts: &TaskFacts, worker_now: Instant) -> (Counts, u64, Span) {
        let (progress, next) = progress(facts, worker_now);
        self.given_up = Some(Box::new(progress.given_up()));
        (progress.shown(), progress.open(), next.map_or(Span::ZERO, |next| worker_now - next))
    }

    /// For a task that was ended: how many releases it has missed since, the first of them, and the instant before which they lie. That
    /// instant is some time ago. A later release might not exist, because the task or the run may have come to its end meanwhile. `None`
    /// also for a moving grid, which moves with clock steps that do not show here.
    pub(super) fn missed_since_ended(&self, facts: &TaskFacts, worker_now: Instant) -> Option<(u64, Instant, Instant)> {
        let live = facts.live.read();
        let first = first_open(facts.rate, &live)
            .filter(|_| live.counts.disabled && !facts.grid_moves && !self.is_given_up())?;
        let until = worker_now - facts.deadline.max(facts.rate.period()) - SETTLED;
        Some((live.passed + open_before(&live, facts.rate, false, until), first, until))
    }

    /// For a task that is due but has not run, although its worker was free at `at`: the first release it has not run, and how many
    /// releases from there on it will certainly give up before it runs.
    pub(super) fn waits(&self, facts: &TaskFacts, at: Instant) -> Option<(Instant, u64)> {
        let live = facts.live.read();
        if live.counts.disabled || facts.kept == Span::MAX || self.is_given_up() {
            return None;
        }
        let next = live.next.filter(|next| at - *next >= WAITS_LONG)?;
        // Only releases that are also past their deadline: the others do not count as missed yet.
        let count = open_before(&live, facts.rate, false, at - facts.kept.max(facts.deadline) - ROUNDING);
        (count > 0).then_some((next, count))
    }

    /// Whether its worker was given up.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// The task's health now.
    pub(super) fn at(&mut self, facts: &TaskFacts, now: Instant, worker_now: Instant) -> TaskHealth {
        let progress = self.sample(facts, now, worker_now);
        let [short, long] = [SHORT, LONG].map(|seconds| self.windows.over(seconds, now));
        let aged =
            |(outcome, since): (Outcome, Instant)| Some((ailment(&outcome, facts.columns())?, Some(now - since)));
        let many = exceeds(short.errors, short.due, facts.max_missed);
        let failures = self.failures.as_ref();
        let ailment = match failures.and_then(|failures| failures.lasting).and_then(aged) {
            Some(ailment) => Some(ailment),
            // Its last record was dropped.
            None if progress.disabled => Some((Ailment::Disabled("the reason was lost".into()), None)),
            None => failures.filter(|_| many).and_then(|failures| aged(failures.latest)),
        };
        let aged = |miss: RecentMiss| {
            let age = miss.age(now);
            (miss, age)
        };
        let misses = self.misses.iter().flat_map(|misses| misses.all()).map(aged).collect();
        TaskHealth { progress, short, long, ailment, misses }
    }
}

fn progress(facts: &TaskFacts, worker_now: Instant) -> (Progress, Option<Instant>) {
    let live = facts.live.read();
    (Progress::of(&live, facts.rate, facts.deadline, facts.grid_moves, worker_now), first_open(facts.rate, &live))
}

/// The first release that is not counted. If a clock step moved the grid, releases from before the step are placed on the current grid.
fn first_open(rate: Rate, live: &Live) -> Option<Instant> {
    let passed = i128::from(rate.period().nanos()).saturating_mul(live.passed.into());
    Some(live.next?.plus_nanos(-passed))
}

fn ailment(outcome: &Outcome, columns: &[String]) -> Option<Ailment> {
    Some(match outcome {
        Outcome::Done => return None,
        Outcome::Failed(error) if error.is_away() => Ailment::Waiting(error.to_string()),
        Outcome::Failed(error) => Ailment::Failing(error.text(columns)),
        Outcome::Ended(error) => Ailment::Disabled(error.text(columns)),
        Outcome::Panicked { ended: true } => Ailment::Disabled("a tick panicked".into()),
        Outcome::Panicked { ended: false } => Ailment::Failing("a tick panicked".into()),
        Outcome::Limited(_) => Ailment::Disabled("too many overruns (overrun-limit)".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::TickError;
    use crate::metrics::RECORD;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn rate() -> Rate {
        Rate::new(100, 1).unwrap()
    }

    #[test]
    fn releases_that_no_tick_has_finished_are_due_and_missed_once_their_deadline_has_passed() {
        let counts = Counts { ran: 7, skipped: 3, overruns: 2, ..Counts::default() };
        let of = |end, grid_moves, now| {
            let live = Live { counts, next: Some(at(1_000)), end, passed: 0 };
            let snapshot::Counts { due, met, missed, pending: Some(pending), .. } =
                Progress::of(&live, rate(), Span::from_millis(10), grid_moves, at(now)).counts
            else {
                panic!("it runs")
            };
            assert_eq!(met + missed + pending, due);
            (due, missed, pending)
        };
        for (now, expected) in [
            (-5_000, (10, 5, 0)),
            (999, (10, 5, 0)),
            (1_000, (11, 5, 1)),
            (1_009, (11, 5, 1)),
            (1_010, (12, 5, 2)),
            (1_011, (12, 6, 1)),
            (6_001, (511, 505, 1)),
        ] {
            assert_eq!(of(None, false, now), expected, "at {now}");
        }
        assert_eq!(of(Some(at(1_050)), false, 6_001), (15, 10, 0), "there are none after the end");
        assert_eq!(of(None, true, 1_009), (11, 5, 1));
        assert_eq!(of(None, true, 6_001), (11, 6, 0), "the grid moves with the tick");
        let ended = Live { counts, end: Some(at(1_000)), ..Live::default() };
        assert_eq!(Progress::of(&ended, rate(), Span::ZERO, false, at(9_000)).counts.due, 10);
        let stepped = Live { counts, next: Some(at(1_000)), end: None, passed: 40 };
        let snapshot::Counts { due, missed, pending, .. } =
            Progress::of(&stepped, rate(), Span::from_millis(10), false, at(1_010)).counts;
        assert_eq!((due, missed, pending), (52, 45, Some(2)), "40 of them came up before the clock was put back");
    }

    #[test]
    fn a_task_fails_since_the_first_of_its_last_ticks_that_failed() {
        let (mut health, facts) = (Health::default(), TaskFacts { max_missed: 0.5, ..TaskFacts::at(rate()) });
        let (gone, away) = (TickError::new("gone"), TickError::away("away"));
        let mut counts = Counts::default();
        let mut note = |second: i64, outcome: Outcome| {
            counts.ran += 1;
            counts.errors += u64::from(outcome.is_error());
            counts.disabled = outcome.ends_task();
            facts.live.store(&counts, Some(at(second * 1_000 + 10)));
            health.note(&TickRecord { outcome, ..RECORD }, Span::ZERO, at(second * 1_000));
            health.at(&facts, at(second * 1_000), at(second * 1_000)).ailment
        };
        let failing = |text: &str, seconds| Some((Ailment::Failing(text.into()), Some(Span::from_seconds(seconds))));
        assert_eq!(note(1, Outcome::Done), None);
        assert_eq!(note(2, Outcome::Failed(gone)), failing("gone", 0));
        assert_eq!(note(5, Outcome::Failed(gone)), failing("gone", 3));
        assert_eq!(note(6, Outcome::Panicked { ended: false }), failing("a tick panicked", 0));
        assert_eq!(note(7, Outcome::Failed(away)), Some((Ailment::Waiting("away".into()), Some(Span::ZERO))));
        assert_eq!(note(8, Outcome::Done), failing("away", 1).map(|(_, age)| (Ailment::Waiting("away".into()), age)));
        for second in 9..13 {
            note(second, Outcome::Done);
        }
        assert_eq!(note(13, Outcome::Done), None, "half of the last ticks were good");
        let ended = note(14, Outcome::Ended(gone));
        assert_eq!(ended, Some((Ailment::Disabled("gone".into()), Some(Span::ZERO))));
    }

    #[test]
    fn a_disabled_task_whose_last_record_was_dropped_is_disabled() {
        let (mut health, facts) = (Health::default(), TaskFacts::at(rate()));
        facts.live.store(&Counts { ran: 1, disabled: true, ..Counts::default() }, Some(at(10)));
        let shown = health.at(&facts, at(1_000), at(1_000));
        assert!(matches!(shown.ailment, Some((Ailment::Disabled(_), None))), "{shown:?}");
        let snapshot::Counts { due, met, missed, pending, .. } = shown.progress.counts;
        assert_eq!((due, met, missed, pending), (101, 1, 98, Some(2)), "its releases still count as due");
    }
}
