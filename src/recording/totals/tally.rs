//! The totals of one task's ticks. Pure.

use crate::metrics::{Cause, Histogram};
use crate::recording::content::{RecordedTick, Whys};
use crate::snapshot::Counts;
use crate::time::Span;
use std::collections::BTreeMap;

/// How many of the worst misses are kept.
const WORST: usize = 10;

/// Counts, causes and histograms of the ticks of one task.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// As far as the ticks contain them.
    pub(crate) counts: Counts,
    /// Releases between ticks for which neither a tick nor a skip is recorded: their ticks were lost.
    pub(crate) unrecorded: u64,
    /// How often the task's index started over, as after a reload that changed the task.
    pub(crate) restarts: u64,
    /// The causes of overruns and skipped releases, by [`Cause::index`]. Misses without a cause in the recording are not included.
    pub(crate) causes: [u64; Cause::ALL.len()],
    /// For those that were blocked: how many by whom.
    pub(crate) blockers: BTreeMap<Box<str>, u64>,
    pub(crate) first: Option<Known>,
    pub(crate) last: Option<Known>,
    /// The number of releases, and their time span in nanoseconds of UTC, since the index last started over.
    pub(crate) grid: (u64, i64),
    pub(crate) lateness: Histogram,
    pub(crate) run: Histogram,
    pub(crate) response: Histogram,
    pub(crate) worst: Worst,
}

/// A recorded tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) n: u64,
    /// Its release, in nanoseconds since 1970 (UTC).
    pub(crate) at: i64,
    /// The number of releases given up when it had finished.
    pub(crate) after: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counts: Counts::of(0, 0, 0),
            unrecorded: 0,
            restarts: 0,
            causes: [0; Cause::ALL.len()],
            blockers: BTreeMap::new(),
            first: None,
            last: None,
            grid: (0, 0),
            lateness: Histogram::new(2),
            run: Histogram::new(2),
            response: Histogram::new(2),
            worst: Worst::default(),
        }
    }
}

impl Tally {
    /// Missed releases without a cause in the recording.
    pub(crate) fn without_cause(&self) -> u64 {
        self.counts.missed.saturating_sub(self.causes.iter().sum())
    }

    /// Enters the next tick, released at `at`.
    pub(super) fn enter(&mut self, tick: &RecordedTick, at: i64) {
        let none = Whys::default();
        let whys = tick.missed.as_deref().unwrap_or(&none);
        let count = |why: &Option<crate::recording::content::Why>| why.as_ref().map_or(0, |why| why.count);
        let (skipped_before, after) = (count(&whys.before), count(&whys.after));
        let mut period = 0;
        match self.last {
            Some(before) if tick.n <= before.n => {
                self.restarts += 1;
                self.grid = (0, 0);
            }
            Some(before) => {
                let (steps, span) = (tick.n - before.n, at.saturating_sub(before.at));
                self.grid = (self.grid.0 + steps, self.grid.1.saturating_add(span));
                period = span.max(0) / i64::try_from(steps).unwrap_or(i64::MAX);
                let untold = (steps - 1).saturating_sub(before.after.saturating_add(skipped_before));
                self.unrecorded = self.unrecorded.saturating_add(untold);
            }
            None => {}
        }
        self.counts.enter(1, skipped_before + after, count(&whys.overrun));
        for why in whys.iter() {
            if let Some(cause) = why.cause {
                self.causes[cause.index()] += why.count;
                if let (Cause::Blocked, Some(by)) = (cause, &why.by) {
                    *self.blockers.entry(by.clone()).or_default() += why.count;
                }
            }
        }
        self.lateness.add(tick.lateness);
        self.run.add(tick.response - tick.lateness);
        self.response.add(tick.response);
        // If it is unknown which releases were given up before the tick, some may have been given up after it.
        let untold = whys.before.as_ref().filter(|why| why.cause.is_none()).map_or(0, |why| why.count);
        let this = Known { n: tick.n, at, after: after + untold };
        self.first.get_or_insert(this);
        self.last = Some(this);
        if whys.count() > 0 {
            let waited = i128::from(period) * i128::from(skipped_before) + i128::from(tick.response.nanos());
            let worst = Span::from_wide(waited);
            let (lateness, response) = (tick.lateness, tick.response);
            self.worst.note(|| Miss { n: tick.n, at, lateness, response, whys: whys.clone(), worst }, worst);
        }
    }
}

/// A tick in which releases were missed. Times are from the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) n: u64,
    /// Its release, in nanoseconds since 1970 (UTC).
    pub(crate) at: i64,
    pub(crate) lateness: Span,
    pub(crate) response: Span,
    pub(crate) whys: Whys,
    /// From the oldest release missed in the tick to the tick's end.
    pub(crate) worst: Span,
}

/// The worst misses, worst first; equal ones in order of appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Worst(Vec<Miss>);

impl Worst {
    fn note(&mut self, miss: impl FnOnce() -> Miss, worst: Span) {
        let place = self.0.partition_point(|known| known.worst >= worst);
        if place < WORST {
            self.0.truncate(WORST - 1);
            self.0.insert(place, miss());
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Miss> {
        self.0.iter()
    }
}

/// The sums over a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    pub(crate) counts: Counts,
    pub(crate) lateness: Histogram,
    pub(crate) run: Histogram,
}

impl Default for Bin {
    fn default() -> Self {
        let (lateness, run) = (Histogram::new(1), Histogram::new(1));
        Self { counts: Counts::default(), lateness, run }
    }
}

impl Bin {
    pub(super) fn enter(&mut self, tick: &RecordedTick) {
        self.counts.enter(1, tick.skipped, tick.overrun().is_some().into());
        self.lateness.add(tick.lateness);
        self.run.add(tick.response - tick.lateness);
    }

    pub(super) fn add(&mut self, other: &Self) {
        let Counts { ran, skipped, overruns, .. } = other.counts;
        self.counts.enter(ran, skipped, overruns);
        self.lateness.merge(&other.lateness);
        self.run.merge(&other.run);
    }
}
