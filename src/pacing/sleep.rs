//! How far to sleep and how long to spin: the margin that keeps the kernel's oversleep away from the tasks.
//!
//! A wake-up is 10 to 50 µs late. With a spin tail the worker sleeps until a margin before the release and spins for the rest. `auto`
//! learns the margin from measured oversleeps (`margin.rs`) and never spends more than its share of the processor (`budget.rs`). Time is an
//! argument; nothing blocks or allocates.
//!
//! ```text
//!            requested    woke          release
//! ─ sleep ───────┼─────────┼───── spin ────┼─ task ─
//!                │oversleep│               │
//!                └───────── margin ────────┘
//! ```

use super::budget::Budget;
use super::margin::Margins;
use super::oversleeps::class;
use super::tail::{TOO_SHORT_TO_SLEEP, Tail};
use crate::time::{Instant, Span};

/// A spin that ended later than this was interrupted.
const INTERRUPTED: Span = Span::from_micros(10);

/// How to wait for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestPlan {
    /// Sleep until this instant; `None` if there is no time for a sleep.
    pub sleep_until: Option<Instant>,
    /// Then spin until the release.
    pub spin: bool,
}

/// Plans the sleeps of one worker, and learns from their oversleeps.
#[derive(Clone, Debug)]
pub struct Sleeps {
    tail: Tail,
    auto: Option<Box<Auto>>,
}

/// The state behind `auto`.
#[derive(Clone, Debug)]
struct Auto {
    margins: Margins,
    budget: Budget,
    class: usize, // of the last planned sleep
}

impl Sleeps {
    /// A planner without measured sleeps. Allocates.
    pub fn new(tail: Tail) -> Self {
        let auto = match tail {
            Tail::Auto { cpu_max, target } => {
                Some(Box::new(Auto { margins: Margins::new(target), budget: Budget::new(cpu_max), class: 0 }))
            }
            _ => None,
        };
        Self { tail, auto }
    }

    /// How to wait from `now` until `release`.
    pub fn plan(&mut self, now: Instant, release: Instant) -> RestPlan {
        let to_release = RestPlan { sleep_until: Some(release), spin: false };
        let left = release - now;
        let (margin, affordable) = match (&mut self.auto, self.tail) {
            (Some(auto), _) => auto.margin(now, left),
            (None, Tail::Fixed(margin)) => (margin, true),
            (None, _) => return to_release,
        };
        let asleep = left - margin;
        match affordable {
            false if margin == Span::ZERO || asleep <= Span::ZERO => to_release,
            true if asleep < TOO_SHORT_TO_SLEEP => RestPlan { sleep_until: None, spin: true },
            _ => RestPlan { sleep_until: Some(release - margin), spin: true },
        }
    }

    /// Records the last planned sleep: it was requested until `asked` and ended at `woke`.
    pub fn learn(&mut self, asked: Instant, woke: Instant) {
        if let Some(auto) = &mut self.auto {
            auto.margins.oversleeps.add(auto.class, woke - asked);
        }
    }

    /// The length of the trial sleeps before the first release, each recorded with [`rehearse`](Self::rehearse). `None` if this tail does
    /// not learn.
    pub fn rehearsal(&self) -> Option<Span> {
        self.auto.as_ref().map(|_| Span::from_micros(150))
    }

    /// Records a sleep of the [`rehearsal`](Self::rehearsal). Its margin applies at once.
    pub fn rehearse(&mut self, asked: Instant, woke: Instant) {
        if let Some(auto) = &mut self.auto {
            auto.budget.at(woke);
            auto.margins.oversleeps.add(0, woke - asked);
            auto.margins.rehearsed();
        }
    }

    /// The clock was stepped by `by`. The step does not count as time in which budget is saved.
    pub fn step(&mut self, by: Span) {
        if let Some(auto) = &mut self.auto {
            auto.budget.step(by);
            auto.margins.step(by);
        }
    }

    /// Records a spin of length `spun`, from the wake-up on, that ended `late` after the release. `late` is negative if the spin was cut
    /// short for other work. Returns the part charged as spinning. If the spin ended far too late, something else had the processor, and
    /// that time is not charged.
    pub fn spent(&mut self, spun: Span, late: Span) -> Span {
        let taken = (late - INTERRUPTED).max(Span::ZERO);
        let spent = (spun - taken).max(Span::ZERO);
        if let Some(auto) = &mut self.auto {
            auto.budget.spend(spent);
            auto.margins.spun(taken > Span::ZERO);
        }
        spent
    }

    /// The target is out of reach: it costs more than the allowed share of the processor, or wake-ups are later than any tail covers.
    pub fn falls_short(&self) -> bool {
        self.auto.as_ref().is_some_and(|auto| auto.margins.falls_short())
    }
}

impl Auto {
    /// The margin for a release that is `left` away, and whether the budget pays for spinning all that time.
    fn margin(&mut self, now: Instant, left: Span) -> (Span, bool) {
        let saved = self.budget.at(now);
        self.margins.review(now, &self.budget);
        self.class = class(left);
        if saved <= Span::ZERO {
            return (Span::ZERO, false);
        }
        let (margin, median) = self.margins.of(self.class);
        // Time awake is the margin without the oversleep.
        (margin.min(median + saved), left <= saved)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tail::Target;
    use super::*;
    use std::collections::VecDeque;

    const fn auto(cpu_max: f64) -> Tail {
        Tail::Auto { cpu_max, target: None }
    }

    fn micros(us: i64) -> Span {
        Span::from_micros(us)
    }

    #[test]
    fn off_sleeps_to_the_release_and_fixed_a_margin_before_it() {
        let release = Instant::ZERO + micros(1_000);
        let plan = |tail, now| Sleeps::new(tail).plan(Instant::ZERO + micros(now), release);
        assert_eq!(plan(Tail::Off, 999), RestPlan { sleep_until: Some(release), spin: false });
        let fixed = Tail::Fixed(micros(50));
        assert_eq!(plan(fixed, 0), RestPlan { sleep_until: Some(release - micros(50)), spin: true });
        assert_eq!(plan(fixed, 945), RestPlan { sleep_until: None, spin: true });
        assert_eq!(plan(fixed, 980), RestPlan { sleep_until: None, spin: true });
    }

    /// The result of a run on virtual time.
    struct Ran {
        sleeps: Sleeps,
        share: f64,      // spent spinning
        most: f64,       // the largest share in any ten seconds
        late: Vec<Span>, // lateness of each tick of the second half
    }

    impl Ran {
        fn late(&self, thousandths: usize) -> Span {
            let mut sorted = self.late.clone();
            sorted.sort_unstable();
            sorted[sorted.len() * thousandths / 1_000]
        }
    }

    /// Runs `tail` for this many ticks at `period`. Sleeps end late by `late`, spins by `overspun`.
    #[expect(clippy::cast_precision_loss, reason = "a share is a ratio")]
    fn ran(tail: Tail, period: Span, ticks: i64, late: impl Fn(i64) -> Span, overspun: impl Fn(i64) -> Span) -> Ran {
        const WINDOW: Span = Span::from_seconds(10);
        let mut sleeps = Sleeps::new(tail);
        let (mut now, mut spun, mut within) = (Instant::ZERO, Span::ZERO, Span::ZERO);
        let mut window = VecDeque::new();
        let (mut most, mut lateness) = (0.0_f64, Vec::new());
        for tick in 1..ticks {
            let release = Instant::ZERO + Span::from_nanos(period.nanos() * tick);
            let plan = sleeps.plan(now, release);
            if let Some(asked) = plan.sleep_until {
                now = now.max(asked + late(tick));
                sleeps.learn(asked, now);
            }
            if plan.spin && now < release {
                let whole = release + overspun(tick) - now;
                now = now + whole;
                let tail = sleeps.spent(whole, now - release);
                spun += tail;
                within += tail;
                window.push_back((now, tail));
            }
            while let Some((_, tail)) = window.pop_front_if(|(at, _)| *at + WINDOW < now) {
                within = within - tail;
            }
            most = most.max(within.seconds() / WINDOW.seconds());
            now = now.max(release);
            if tick > ticks / 2 {
                lateness.push(now - release);
            }
        }
        Ran { sleeps, share: spun.nanos() as f64 / (now - Instant::ZERO).nanos() as f64, most, late: lateness }
    }

    /// An oversleep of 15 to 20 µs in 95 % of ticks. In the other 5 % it is spread evenly up to 120 µs.
    fn usual(tick: i64) -> Span {
        let mixed = (tick.wrapping_mul(0x9e37_79b9) >> 7).rem_euclid(1_000);
        micros(if mixed < 50 { 120 - 2 * mixed } else { 15 + mixed % 5 })
    }

    const ON_TIME: fn(i64) -> Span = |_| Span::ZERO;

    #[test]
    fn auto_covers_what_the_budget_pays_for_up_to_the_99_9th_percentile() {
        let rich = ran(auto(0.2), micros(1_000), 60_000, usual, ON_TIME);
        assert_eq!(rich.late(995), Span::ZERO);
        assert!(rich.share > 0.06 && rich.share < 0.12, "no more than the 99.9th percentile: {}", rich.share);
        // 5 % pay for 50 µs awake, minus the reserve: a margin of some 60 µs.
        let modest = ran(auto(0.05), micros(1_000), 60_000, usual, ON_TIME);
        assert_eq!(modest.late(965), Span::ZERO);
        assert!(modest.share > 0.03 && modest.share <= 0.05, "{}", modest.share);
        // 1 % pay for 10 µs.
        let poor = ran(auto(0.01), micros(1_000), 60_000, usual, ON_TIME);
        assert_eq!(poor.late(940), Span::ZERO);
        assert!(poor.share <= 0.01, "{}", poor.share);
    }

    #[test]
    fn a_tail_that_was_rehearsed_with_shorter_sleeps_is_right_after_a_few() {
        // The rehearsal's sleeps take 150 µs. This machine wakes up from them sooner than from a millisecond.
        let mut sleeps = Sleeps::new(auto(0.05));
        sleeps.plan(Instant::ZERO, Instant::ZERO + micros(6_000));
        (0..20).for_each(|_| sleeps.rehearse(Instant::ZERO, Instant::ZERO + micros(15)));
        let on_time = (1..=100).filter(|tick| {
            let (now, release) = (Instant::ZERO + micros((tick - 1) * 1_000), Instant::ZERO + micros(tick * 1_000));
            let asked = sleeps.plan(now, release).sleep_until.unwrap();
            let woke = asked + micros(45 + tick % 5);
            sleeps.learn(asked, woke);
            sleeps.spent((release - woke).max(Span::ZERO), Span::ZERO);
            woke <= release
        });
        assert!(on_time.count() >= 75);
    }

    #[test]
    fn what_no_tail_can_cover_is_left_alone_and_what_has_passed_is_forgotten() {
        let rarely = |tick| micros(if tick % 400 == 0 { 4_000 } else { 15 });
        let spared = ran(auto(0.05), micros(1_000), 60_000, rarely, ON_TIME);
        assert!(spared.share < 0.02 && spared.late(990) == Span::ZERO, "{}", spared.share);
        let calmed = ran(auto(0.2), micros(1_000), 80_000, |tick| micros(if tick < 10_000 { 80 } else { 10 }), ON_TIME);
        let mut sleeps = calmed.sleeps;
        let now = Instant::ZERO + micros(80_000_000);
        let asked = sleeps.plan(now, now + micros(1_000)).sleep_until.unwrap();
        assert!(now + micros(1_000) - asked < micros(20), "{asked:?}");
    }

    #[test]
    fn auto_never_spends_more_than_its_share_of_any_ten_seconds() {
        for (period, late) in [(1_000, 400), (100, 60), (20, 15), (5, 30), (2, 1)] {
            for cpu_max in [0.01, 0.05, 0.5] {
                // Every twentieth sleep is late by `late`, but none in the first 3,000 ticks.
                let late = |tick| micros(if tick % 20 == 0 && tick > 3_000 { late } else { 1 });
                let ticks = 40_000_000 / period;
                let ran = ran(auto(cpu_max), micros(period), ticks.min(400_000), late, ON_TIME);
                assert!(ran.most <= cpu_max, "{period} µs, at most {cpu_max}: {}", ran.most);
            }
        }
    }

    #[test]
    fn a_spin_that_something_else_cut_in_two_costs_no_more_than_what_was_spun() {
        // A single stop of ten seconds within a tail.
        let stopped = |tick| Span::from_seconds(if tick == 5_000 { 10 } else { 0 });
        let ran = ran(auto(0.05), micros(1_000), 40_000, usual, stopped);
        assert!(ran.late(900) == Span::ZERO && ran.most <= 0.05, "{} {}", ran.late(900), ran.most);
    }

    #[test]
    fn a_target_is_reached_as_cheaply_as_possible_or_said_to_be_out_of_reach() {
        let target =
            |thousandths, cpu_max| Tail::Auto { cpu_max, target: Some(Target { thousandths, below: micros(1) }) };
        let all = ran(auto(0.2), micros(1_000), 60_000, usual, ON_TIME);
        let most = ran(target(900, 0.2), micros(1_000), 60_000, usual, ON_TIME);
        assert!(most.late(900) < micros(1) && !most.sleeps.falls_short());
        assert!(most.share < all.share / 4.0, "{} {}", most.share, all.share);
        let short = ran(target(999, 0.02), micros(1_000), 60_000, usual, ON_TIME);
        assert!(short.sleeps.falls_short() && short.most <= 0.02);
        assert!(!all.sleeps.falls_short());
        // Later than the longest tail, and more often than the target allows.
        let far = |tick| if tick % 50 == 0 { micros(2_000) } else { usual(tick) };
        assert!(ran(target(990, 0.6), micros(10_000), 20_000, far, ON_TIME).sleeps.falls_short());
        // Interrupted spins do not count here: more processor time would not help.
        let often = |tick| if tick % 3 == 0 { micros(700) } else { Span::ZERO };
        assert!(!ran(target(900, 0.2), micros(1_000), 60_000, usual, often).sleeps.falls_short());
    }

    #[test]
    fn sleeps_of_each_length_have_their_own_margin() {
        let mut sleeps = Sleeps::new(auto(0.5));
        let mut now = Instant::ZERO;
        for turn in 0..4_000 {
            let (length, late) = if turn % 10 == 0 { (10_000, 80) } else { (1_000, 10) };
            let release = now + micros(length);
            if let Some(asked) = sleeps.plan(now, release).sleep_until {
                sleeps.learn(asked, asked + micros(late));
            }
            now = release;
        }
        let mut margin = |length| {
            let release = now + micros(length);
            release - sleeps.plan(now, release).sleep_until.unwrap()
        };
        assert!(margin(1_000) < micros(20) && margin(10_000) > micros(80), "{} {}", margin(1_000), margin(10_000));
    }

    #[test]
    fn where_spins_are_interrupted_auto_spins_less() {
        let often = |tick| if tick % 3 == 0 { micros(700) } else { Span::ZERO };
        let undisturbed = ran(auto(0.2), micros(10_000), 20_000, usual, ON_TIME);
        let mut disturbed = ran(auto(0.2), micros(1_000), 60_000, usual, often).sleeps;
        let now = Instant::ZERO + micros(60_000_000);
        let margin = |sleeps: &mut Sleeps, now: Instant| {
            let release = now + micros(1_000);
            release - sleeps.plan(now, release).sleep_until.unwrap()
        };
        let calm = margin(&mut undisturbed.sleeps.clone(), Instant::ZERO + micros(200_000_000));
        let after = margin(&mut disturbed, now);
        assert!(after < micros(40) && calm > micros(90), "{after} {calm}");
    }

    #[test]
    fn a_rehearsal_sets_the_first_margin() {
        let mut sleeps = Sleeps::new(auto(0.05));
        let release = Instant::ZERO + micros(6_000);
        let margin =
            |sleeps: &Sleeps| release - sleeps.clone().plan(release - micros(1_000), release).sleep_until.unwrap();
        sleeps.plan(Instant::ZERO, release);
        assert_eq!(margin(&sleeps), micros(60));
        for _ in 0..20 {
            sleeps.rehearse(Instant::ZERO, Instant::ZERO + micros(25));
        }
        assert!(margin(&sleeps) > micros(25) && margin(&sleeps) < micros(31), "{}", margin(&sleeps));
        assert_eq!(Sleeps::new(Tail::Off).rehearsal(), None);
    }

    #[test]
    fn time_that_goes_back_is_harmless() {
        let mut sleeps = Sleeps::new(auto(0.05));
        let later = Instant::ZERO + Span::from_seconds(10);
        sleeps.plan(later, later + micros(100));
        sleeps.learn(later, Instant::ZERO);
        let plan = sleeps.plan(Instant::ZERO, later);
        assert!(plan.sleep_until.is_some_and(|asked| asked <= later));
    }
}
