//! How far to sleep and how long to spin: the margin that keeps the kernel's oversleep away from the tasks.
//!
//! A wake-up is 10 to 50 µs late. With a spin tail the worker sleeps until a margin before the release, and spins for the
//! rest. `auto` learns the margin from measured oversleeps: the 99th percentile of recent ones, within limits, as long as the
//! spinning takes no more than its share of the processor. Time is an argument; nothing blocks or allocates.
//!
//! ```text
//!            requested    woke          release
//! ─ sleep ───────┼─────────┼───── spin ────┼─ task ─
//!                │oversleep│               │
//!                └───────── margin ────────┘
//! ```

use crate::time::{Instant, Span};

/// With less time left than this, spinning is cheaper and more exact than a sleep: `clock_nanosleep` costs 4 to 5 µs even if
/// its instant has passed, and is 12 µs late at the median.
const TOO_SHORT_TO_SLEEP: Span = Span::from_micros(10);

/// The margin of `auto` before the first sleep.
const FIRST_MARGIN: Span = Span::from_micros(60);

/// The longest margin of `auto`: if the kernel is later than this, a spin tail is the wrong remedy.
const LONGEST_MARGIN: Span = Span::from_micros(500);

/// Added to the quantile: the time from the wake-up to the first reading of the clock.
const WAKE_TO_READING: Span = Span::from_micros(2);

/// Unused allowance is kept for this long, so that a rare slow task can still have its whole tail.
const SAVED_FOR: Span = Span::from_seconds(1);

/// The requested spin tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tail {
    /// Sleep until the release itself.
    Off,
    /// Always this long.
    Fixed(Span),
    /// As long as the measured oversleeps require, within `cpu_max` of the processor.
    Auto {
        /// Largest share of one processor spent spinning, in 0..=1.
        cpu_max: f64,
    },
}

impl Tail {
    /// The most processor time that a tail takes for each of `hertz` releases a second: the margin, and what is left before it
    /// if that is too short for a sleep. With `auto`, on average.
    pub(crate) fn cost(self, hertz: f64) -> Span {
        match self {
            Self::Off => Span::ZERO,
            Self::Fixed(margin) => margin + TOO_SHORT_TO_SLEEP,
            Self::Auto { cpu_max } => share(Span::from_seconds(1), cpu_max / hertz),
        }
    }
}

/// What to do until a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestPlan {
    /// Sleep until this instant first; `None` if there is no time for a sleep.
    pub sleep_until: Option<Instant>,
    /// Then spin until the release.
    pub spin: bool,
}

/// Plans the sleeps of one worker, and learns from their oversleeps.
#[derive(Clone, Debug)]
pub struct Sleeps {
    tail: Tail,
    oversleeps: Recent,
    allowance: Span, // how long `auto` may spin now
    seen: Option<Instant>,
}

impl Sleeps {
    /// A planner without measured sleeps.
    pub fn new(tail: Tail) -> Self {
        Self { tail, oversleeps: Recent::new(), allowance: Span::ZERO, seen: None }
    }

    /// What to do at `now` until `release`.
    pub fn plan(&mut self, now: Instant, release: Instant) -> RestPlan {
        let to_release = RestPlan { sleep_until: Some(release), spin: false };
        let margin = match self.tail {
            Tail::Off => return to_release,
            Tail::Fixed(margin) => margin,
            Tail::Auto { cpu_max } => self.affordable(now, cpu_max),
        };
        let left = release - now;
        let affordable = !matches!(self.tail, Tail::Auto { .. }) || left <= self.allowance;
        let asleep = left - margin;
        match affordable {
            false if margin == Span::ZERO || asleep <= Span::ZERO => to_release,
            true if asleep < TOO_SHORT_TO_SLEEP => RestPlan { sleep_until: None, spin: true },
            _ => RestPlan { sleep_until: Some(release - margin), spin: true },
        }
    }

    /// Takes in a sleep that was requested until `asked` and ended at `woke`.
    pub fn learn(&mut self, asked: Instant, woke: Instant) {
        if matches!(self.tail, Tail::Auto { .. }) {
            self.oversleeps.add(woke - asked);
        }
    }

    /// The clock was stepped by `by`: that is no time in which spinning could be saved for.
    pub fn step(&mut self, by: Span) {
        self.seen = self.seen.map(|seen| seen + by);
    }

    /// Takes in the time spent spinning.
    pub fn spent(&mut self, spun: Span) {
        self.allowance = self.allowance - spun.max(Span::ZERO);
    }

    /// The margin that `auto` would use if spinning cost nothing.
    pub fn wanted(&self) -> Span {
        match self.oversleeps.quantile(99) {
            Some(late) => (late + WAKE_TO_READING).min(LONGEST_MARGIN),
            None => FIRST_MARGIN,
        }
    }

    /// The wanted margin, or as much of it as may be spent: time awake is the margin minus the oversleep.
    fn affordable(&mut self, now: Instant, cpu_max: f64) -> Span {
        let elapsed = now - self.seen.replace(now).unwrap_or(now);
        self.allowance = (self.allowance + share(elapsed, cpu_max)).min(share(SAVED_FOR, cpu_max));
        if self.allowance <= Span::ZERO {
            return Span::ZERO;
        }
        let median = self.oversleeps.quantile(50).unwrap_or(Span::ZERO);
        self.wanted().min(median + self.allowance)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a share of a span is a shorter span")]
fn share(span: Span, of: f64) -> Span {
    Span::from_nanos((span.nanos().max(0) as f64 * of) as i64)
}

/// Buckets an eighth of a power of two wide, from 256 ns to 1 ms; values outside count at the edge.
const BUCKETS: usize = 12 * 8;
const FIRST_BUCKET: u32 = 8;

/// At this total all counts are halved, so that old values fade.
const FADE_AT: u32 = 2_048;

/// How late recent wake-ups were.
#[derive(Clone, Debug)]
struct Recent {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Recent {
    const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }

    fn add(&mut self, late: Span) {
        self.counts[bucket(late)] += 1;
        self.total += 1;
        if self.total >= FADE_AT {
            self.total = 0;
            for count in &mut self.counts {
                *count /= 2;
                self.total += *count;
            }
        }
    }

    /// The upper edge of the bucket that holds this percentile; `None` before the first wake-up.
    fn quantile(&self, percent: u32) -> Option<Span> {
        let rank = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|&count| {
            seen += count;
            count > 0 && seen >= rank
        })?;
        Some(upper_edge(bucket))
    }
}

/// Eighths of powers of two: the exponent and the three bits below the leading one.
fn bucket(late: Span) -> usize {
    let nanos = u64::try_from(late.nanos()).unwrap_or(0).max(1 << FIRST_BUCKET);
    let exponent = nanos.ilog2();
    let eighth = (nanos >> (exponent - 3)) & 7;
    let index = u64::from(exponent - FIRST_BUCKET) * 8 + eighth;
    usize::try_from(index).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn upper_edge(bucket: usize) -> Span {
    let (exponent, eighth) = (bucket / 8 + FIRST_BUCKET as usize, bucket % 8);
    Span::from_nanos(i64::try_from((9 + eighth) << (exponent - 3)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(us: i64) -> Span {
        Span::from_micros(us)
    }

    #[test]
    fn every_span_lies_below_the_upper_edge_of_its_bucket() {
        for nanos in (0..900_000).step_by(37) {
            let late = Span::from_nanos(nanos);
            let edge = upper_edge(bucket(late));
            assert!(late <= edge, "{late} {edge}");
            assert!(nanos < 300 || edge.nanos() * 8 <= nanos * 9 + 8, "{late} {edge}");
        }
        assert_eq!(bucket(Span::MAX), BUCKETS - 1);
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

    /// Runs `auto` at `period` with oversleeps of `late` for some virtual time; returns the share spent spinning at the end.
    #[expect(clippy::cast_precision_loss, reason = "a share is a ratio")]
    fn spun_share(period: Span, late: impl Fn(i64) -> Span, cpu_max: f64) -> (f64, Sleeps) {
        let mut sleeps = Sleeps::new(Tail::Auto { cpu_max });
        let (mut now, mut spun) = (Instant::ZERO, Span::ZERO);
        for tick in 1..20_000 {
            let release = Instant::ZERO + Span::from_nanos(period.nanos() * tick);
            let plan = sleeps.plan(now, release);
            if let Some(asked) = plan.sleep_until {
                now = asked + late(tick);
                sleeps.learn(asked, now);
            }
            if plan.spin && now < release {
                spun += release - now;
                sleeps.spent(release - now);
            }
            now = now.max(release);
        }
        (spun.nanos() as f64 / (now - Instant::ZERO).nanos() as f64, sleeps)
    }

    #[test]
    fn auto_covers_the_99th_percentile_and_forgets_the_rest() {
        let (share, sleeps) = spun_share(micros(1_000), |tick| micros(if tick % 500 == 0 { 4_000 } else { 15 }), 0.05);
        assert!(sleeps.wanted() >= micros(15) && sleeps.wanted() <= micros(20), "{}", sleeps.wanted());
        assert!(share < 0.01, "{share}");
        let (_, calmed) = spun_share(micros(1_000), |tick| micros(if tick < 10_000 { 80 } else { 10 }), 0.2);
        assert!(calmed.wanted() < micros(20), "{}", calmed.wanted());
    }

    #[test]
    fn auto_never_spends_more_than_its_share() {
        for (period, late) in [(1_000, 400), (100, 60), (20, 15), (5, 30), (2, 1)] {
            for cpu_max in [0.01, 0.05, 0.5] {
                // Late by `late` once in twenty: the 99th percentile is far above the median.
                let late = |tick| micros(if tick % 20 == 0 { late } else { 1 });
                let (share, _) = spun_share(micros(period), late, cpu_max);
                assert!(share <= cpu_max * 1.05 + 0.001, "{period} µs, at most {cpu_max}: {share}");
            }
        }
    }

    #[test]
    fn time_that_goes_back_is_harmless() {
        let mut sleeps = Sleeps::new(Tail::Auto { cpu_max: 0.05 });
        let later = Instant::ZERO + Span::from_seconds(10);
        sleeps.plan(later, later + micros(100));
        sleeps.learn(later, Instant::ZERO);
        let plan = sleeps.plan(Instant::ZERO, later);
        assert!(plan.sleep_until.is_some_and(|asked| asked <= later));
    }
}
