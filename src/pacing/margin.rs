//! The margin of `auto`: as much as the budget pays for, up to the 99.9th percentile of recent oversleeps, or what a target needs.
//!
//! It is reviewed up to ten times a second of the worker's time, between two ticks. A margin's cost is computed from the same histograms as
//! the margin itself: the mean time awake before the release, times the sleeps in a second. Time is a value; nothing blocks or
//! allocates.

use super::budget::Budget;
use super::oversleeps::{CLASSES, Oversleeps, Recent};
use super::tail::{Target, share};
use crate::time::{Instant, Span};

/// The margin before the first sleep.
const FIRST_MARGIN: Span = Span::from_micros(60);

/// The longest margin: if the kernel is later than this, a spin tail is the wrong remedy.
const LONGEST_MARGIN: Span = Span::from_micros(500);

/// Added to the oversleep: the time from the wake-up to the last reading before the release.
const WAKE_TO_READING: Span = Span::from_micros(2);

/// Time between two reviews, at least; while there are few new sleeps, ten times as long. The first ones come sooner: until
/// then only the rehearsal is known.
const REVIEW_EVERY: Span = Span::from_millis(100);
const REVIEW_LATER: Span = Span::from_seconds(1);
const REVIEW_FIRST: Span = Span::from_millis(10);

/// New sleeps that are enough for a review. One takes some 10,000 instructions.
const REVIEWED: u32 = 64;
const REVIEWED_FIRST: u32 = 16;

/// The percentiles that are tried, in thousandths; the first is also the most that is ever covered.
const LEVELS: [u32; 16] = [999, 998, 997, 995, 992, 990, 985, 980, 970, 950, 930, 900, 850, 800, 700, 500];

/// A margin is to cost this part of the budget at most: the rest is for sleeps that end earlier than the recent ones did.
const WITHIN: f64 = 0.95;

/// A margin stays unless the new one differs by more than this part of it: not every change of the machine moves it.
const STEADY: i64 = 16;

/// With fewer spins it is too early to say how many were interrupted.
const ENOUGH_SPINS: u32 = 16;

/// The least part of the budget that is used where spins are interrupted.
const LEAST_RESTRAINT: f64 = 1.0 / 16.0;

/// The margins of each class of sleeps, and what they follow from.
#[derive(Clone, Debug)]
pub(super) struct Margins {
    pub(super) oversleeps: Oversleeps,
    target: Option<Target>,
    level: usize, // the first that the budget pays for
    towards: f64, // how much of the way to the level before, in 0..=1
    margins: [Span; CLASSES],
    medians: [Span; CLASSES],
    per_second: [f64; CLASSES], // sleeps
    reviewed: Option<Instant>,
    after: Span, // the next review comes
    enough: u32, // sleeps for it
    spins: u32,
    interrupted: u32,
    restraint: f64, // the part of the budget that is used
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

    /// Whether the target is out of reach: the budget does not pay for its margin, or the longest margin is shorter.
    pub(super) const fn falls_short(&self) -> bool {
        self.short
    }

    /// Takes in a spin, which was interrupted or not.
    pub(super) fn spun(&mut self, interrupted: bool) {
        self.spins += 1;
        self.interrupted += u32::from(interrupted);
    }

    /// The clock was stepped by `by`.
    pub(super) fn step(&mut self, by: Span) {
        self.reviewed = self.reviewed.map(|reviewed| reviewed + by);
    }

    /// What was measured before the first tick applies at once.
    pub(super) fn rehearsed(&mut self) {
        (0..CLASSES).for_each(|class| _ = self.oversleeps.take_new(class));
        self.set();
    }

    /// Reviews the margins, if it is time to.
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
            // Costs grow ever faster with the margin, so this part of the way costs no more than this part of the difference.
            self.towards = (affordable - cost) / (dearer - cost);
        }
        self.set();
    }

    /// Where spins are interrupted, by other threads or by the host, spinning takes time from others and reaches nothing: less of the
    /// budget is used. It comes back slowly.
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

    /// The level to be at if the budget allows it: a target is aimed at from half-way to certainty, or it would be on its edge.
    fn first_level(&self) -> usize {
        let Some(Target { thousandths, .. }) = self.target else { return 0 };
        let aimed = thousandths + (1_000 - thousandths) / 2;
        LEVELS.iter().rposition(|level| *level >= aimed).unwrap_or(0)
    }

    /// The share of a processor that all sleeps together would be spent awake, at a level.
    fn cost(&self, level: usize) -> f64 {
        let of_class = |class: usize| {
            let rate = self.per_second[class];
            let known = self.oversleeps.of(class).filter(|_| rate > 0.0);
            let margin = |recent: &Recent| self.margin(recent.quantile(LEVELS[level]));
            known.map_or(0.0, |recent| rate * recent.mean_awake(margin(recent)) * 1e-9)
        };
        (0..CLASSES).map(of_class).sum()
    }

    /// Whether sleeps of a class that there are end later than the longest margin covers, at a level.
    fn too_late(&self, level: usize) -> bool {
        let of_class = |class: usize| self.oversleeps.of(class).filter(|_| self.per_second[class] > 0.0);
        (0..CLASSES).filter_map(of_class).any(|recent| self.covering(recent.quantile(LEVELS[level])) > LONGEST_MARGIN)
    }

    /// The margin that covers oversleeps up to `late`, as far as the longest one does.
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
            // Up to an oversleep that there was: to spin for more than that reaches nothing.
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
