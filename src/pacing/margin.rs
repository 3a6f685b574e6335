//! The margin of `spin = "auto"`: the 99.9th percentile of recent oversleeps, or what a target needs; less if the budget does not allow it.
//!
//! It is reviewed up to ten times a second on the worker's own time, between two ticks. A margin's cost comes from the same histograms as
//! the margin itself: the mean time awake before the release, times the sleeps per second. Time is an argument; nothing blocks or
//! allocates.

use super::budget::Budget;
use super::oversleeps::{CLASSES, Oversleeps, Recent};
use super::tail::{Target, share};
use crate::time::{Instant, Span};

/// The margin before the first sleep.
const FIRST_MARGIN: Span = Span::from_micros(60);

/// The longest margin. If the kernel wakes the worker later than this, a spin tail is the wrong remedy.
const LONGEST_MARGIN: Span = Span::from_micros(500);

/// Added to the oversleep: the time from the wake-up to the last clock reading before the release.
const WAKE_TO_READING: Span = Span::from_micros(2);

/// The shortest time between two reviews, and the time used instead while there are few new sleeps. The first reviews come sooner, because
/// until then only the rehearsal is known.
const REVIEW_EVERY: Span = Span::from_millis(100);
const REVIEW_LATER: Span = Span::from_seconds(1);
const REVIEW_FIRST: Span = Span::from_millis(10);

/// The number of new sleeps that justifies a review. A review costs some 10,000 instructions.
const REVIEWED: u32 = 64;
const REVIEWED_FIRST: u32 = 16;

/// The percentiles that are tried, in thousandths. The first one is also the most that a margin ever covers.
const LEVELS: [u32; 16] = [999, 998, 997, 995, 992, 990, 985, 980, 970, 950, 930, 900, 850, 800, 700, 500];

/// The largest part of the budget that a margin may cost. The rest covers sleeps that end earlier than recent ones did.
const WITHIN: f64 = 0.95;

/// A margin changes only if the new one differs by more than 1/16, so that noise does not move it.
const STEADY: i64 = 16;

/// The fewest spins from which the interrupted fraction is judged.
const ENOUGH_SPINS: u32 = 16;

/// The smallest part of the budget that is used when spins are interrupted.
const LEAST_RESTRAINT: f64 = 1.0 / 16.0;

/// The margins of each class of sleeps, and the data they are computed from.
#[derive(Clone, Debug)]
pub(super) struct Margins {
    pub(super) oversleeps: Oversleeps,
    target: Option<Target>,
    level: usize, // index into `LEVELS`: the first that the budget pays for
    towards: f64, // how far towards the previous, more expensive level, in 0..=1
    margins: [Span; CLASSES],
    medians: [Span; CLASSES],
    per_second: [f64; CLASSES], // sleeps per second
    reviewed: Option<Instant>,
    after: Span, // least time until the next review
    enough: u32, // new sleeps that justify it
    spins: u32,
    interrupted: u32,
    restraint: f64, // the fraction of the budget in use
    short: bool,    // the target is out of reach
}

impl Margins {
    pub(super) const fn new(target: Option<Target>) -> Self {
        Self {
            oversleeps: Oversleeps::new(),
            target,
            level: 0,
            towards: 0.0,
            margins: [FIRST_MARGIN; CLASSES],
            medians: [Span::ZERO; CLASSES],
            per_second: [0.0; CLASSES],
            reviewed: None,
            after: REVIEW_FIRST,
            enough: REVIEWED_FIRST,
            spins: 0,
            interrupted: 0,
            restraint: 1.0,
            short: false,
        }
    }

    /// The margin of a sleep of this class, and the median of its oversleeps.
    pub(super) fn of(&self, class: usize) -> (Span, Span) {
        (self.margins[class], self.medians[class])
    }

    /// Whether the target is out of reach: the budget does not pay for its margin, or it needs more than the longest margin.
    pub(super) const fn falls_short(&self) -> bool {
        self.short
    }

    /// Records a spin and whether it was interrupted.
    pub(super) fn spun(&mut self, interrupted: bool) {
        self.spins += 1;
        self.interrupted += u32::from(interrupted);
    }

    /// The clock was stepped by `by`.
    pub(super) fn step(&mut self, by: Span) {
        self.reviewed = self.reviewed.map(|reviewed| reviewed + by);
    }

    /// Applies what was measured before the first tick at once, without waiting for a review.
    pub(super) fn rehearsed(&mut self) {
        (0..CLASSES).for_each(|class| _ = self.oversleeps.take_new(class));
        self.set();
    }

    /// Reviews the margins if a review is due.
    pub(super) fn review(&mut self, now: Instant, budget: &Budget) {
        let elapsed = now - *self.reviewed.get_or_insert(now);
        let least = if self.oversleeps.new_ones() < self.enough { REVIEW_LATER } else { self.after };
        if elapsed < least {
            if elapsed < Span::ZERO {
                self.reviewed = Some(now); // the clock went back
            }
            return;
        }
        self.reviewed = Some(now);
        self.after = (self.after + self.after).min(REVIEW_EVERY);
        self.enough = (2 * self.enough).min(REVIEWED);
        for class in 0..CLASSES {
            let rate = f64::from(self.oversleeps.take_new(class)) / elapsed.seconds();
            let known = &mut self.per_second[class];
            *known = if *known > 0.0 { 0.75 * *known + 0.25 * rate } else { rate };
        }
        self.restrain();
        let affordable = budget.share() * self.restraint * WITHIN;
        let first = self.first_level();
        self.short = self.target.is_some() && (self.cost(first) > budget.share() * WITHIN || self.too_late(first));
        self.level = first;
        self.towards = 0.0;
        let (mut cost, mut dearer) = (self.cost(first), None);
        while self.level + 1 < LEVELS.len() && cost > affordable {
            self.level += 1;
            dearer = Some(std::mem::replace(&mut cost, self.cost(self.level)));
        }
        if let Some(dearer) = dearer.filter(|_| cost < affordable) {
            // Costs grow ever faster with the margin, so going this fraction of the way costs at most this fraction of the difference.
            self.towards = (affordable - cost) / (dearer - cost);
        }
        self.set();
    }

    /// If other threads or the host interrupt spins, spinning takes time from others and achieves nothing, so less of the budget is used.
    /// The used part grows back slowly.
    fn restrain(&mut self) {
        if self.spins < ENOUGH_SPINS {
            return;
        }
        self.restraint = match self.interrupted * 8 > self.spins {
            true => (self.restraint / 2.0).max(LEAST_RESTRAINT),
            false => (self.restraint * 1.02).min(1.0),
        };
        (self.spins, self.interrupted) = (0, 0);
    }

    /// The level to use if the budget allows it. With a target, the level lies half-way between the target and certainty, not on the
    /// target's edge.
    fn first_level(&self) -> usize {
        let Some(Target { thousandths, .. }) = self.target else { return 0 };
        let aimed = thousandths + (1_000 - thousandths) / 2;
        LEVELS.iter().rposition(|level| *level >= aimed).unwrap_or(0)
    }

    /// The share of a processor that all sleeps together would spend awake at this level.
    fn cost(&self, level: usize) -> f64 {
        let of_class = |class: usize| {
            let rate = self.per_second[class];
            let known = self.oversleeps.of(class).filter(|_| rate > 0.0);
            let margin = |recent: &Recent| self.margin(recent.quantile(LEVELS[level]));
            known.map_or(0.0, |recent| rate * recent.mean_awake(margin(recent)) * 1e-9)
        };
        (0..CLASSES).map(of_class).sum()
    }

    /// Whether any active class of sleeps needs more than the longest margin at this level.
    fn too_late(&self, level: usize) -> bool {
        let of_class = |class: usize| self.oversleeps.of(class).filter(|_| self.per_second[class] > 0.0);
        (0..CLASSES).filter_map(of_class).any(|recent| self.covering(recent.quantile(LEVELS[level])) > LONGEST_MARGIN)
    }

    /// The margin that covers oversleeps up to `late`, limited to the longest margin.
    fn margin(&self, late: Span) -> Span {
        self.covering(late).max(Span::ZERO).min(LONGEST_MARGIN)
    }

    fn covering(&self, late: Span) -> Span {
        let tolerated = self.target.map_or(Span::ZERO, |target| target.below);
        late + WAKE_TO_READING - tolerated
    }

    fn set(&mut self) {
        for class in 0..CLASSES {
            let Some(recent) = self.oversleeps.of(class) else { continue };
            let [late, next] = [self.level, self.level.saturating_sub(1)].map(|level| recent.quantile(LEVELS[level]));
            // Use only an oversleep that was observed: spinning for longer achieves nothing.
            let late = late.max(recent.greatest_up_to(late + share(next - late, self.towards)));
            let margin = self.margin(late);
            let before = self.margins[class];
            if (margin - before).nanos().abs() * STEADY > before.nanos() {
                self.margins[class] = margin;
            }
            self.medians[class] = recent.quantile(500);
        }
    }
}
