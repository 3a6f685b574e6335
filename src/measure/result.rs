//! The result of a measurement, as `hertzd measure --json` prints it and `--save` stores it. Plain values; durations are in nanoseconds.
//!
//! A percentile is present only if at least [`BEYOND`] values lie beyond it: with fewer, a single value would decide it.

use crate::metrics::Histogram;
use crate::snapshot::{Counts, HostSummary, Policy};
use serde::{Deserialize, Serialize};

/// How many values must lie beyond a percentile for it to be shown.
pub(crate) const BEYOND: u64 = 5;

/// The version of this format.
pub(crate) const VERSION: u32 = 1;

/// How many values a percentile needs if `beyond` in ten thousand values lie beyond it.
pub(crate) const fn needed(beyond: u64) -> u64 {
    BEYOND * 10_000 / beyond
}

/// The whole result.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Measured {
    pub(crate) version: u32,
    /// Always `measure`.
    pub(crate) command: String,
    /// The measurement was not stopped early.
    pub(crate) complete: bool,
    pub(crate) asked: Asked,
    /// How long everything took.
    pub(crate) took_ns: i64,
    pub(crate) host: HostSummary,
    pub(crate) memory_locked: bool,
    /// `/dev/cpu_dma_latency` was held at 0 µs.
    pub(crate) cpu_latency_held: bool,
    /// What the kernel refused.
    pub(crate) refused: Vec<Refused>,
    pub(crate) costs: Costs,
    pub(crate) cpus: Vec<CpuMeasured>,
    pub(crate) recommendation: Option<Recommendation>,
}

/// What was requested.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Asked {
    pub(crate) for_ns: i64,
    /// Sleeps and ticks per second, as a fraction.
    pub(crate) rate: String,
    pub(crate) period_ns: i64,
    pub(crate) rounds: u32,
    pub(crate) cpus: Vec<usize>,
    pub(crate) load: bool,
    pub(crate) priority: u8,
}

/// Something the kernel refused.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    pub(crate) what: String,
    pub(crate) reason: String,
    pub(crate) meaning: String,
    pub(crate) remedy: String,
}

/// What single operations cost; one value per round.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Costs {
    pub(crate) clock_reading_ns: Vec<i64>,
    pub(crate) channel_push_ns: Vec<i64>,
}

/// The results for one CPU.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct CpuMeasured {
    pub(crate) cpu: usize,
    pub(crate) granted: Granted,
    /// Idle, and under load if requested.
    pub(crate) conditions: Vec<Condition>,
}

impl CpuMeasured {
    /// The harder condition: under load, if that was measured.
    pub(crate) fn hardest(&self) -> Option<&Condition> {
        self.conditions.iter().max_by_key(|condition| condition.load)
    }
}

/// What the threads on a CPU were granted, read back from the kernel.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Granted {
    #[serde(flatten)]
    pub(crate) policy: Policy,
    pub(crate) pinned: bool,
}

/// The measurements on a CPU, idle or under load.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Condition {
    pub(crate) load: bool,
    pub(crate) sleep: Sleeps,
    pub(crate) ticks: Vec<Ticks>,
    pub(crate) holes: Holes,
}

/// Plain absolute sleeps, one per period.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Sleeps {
    pub(crate) oversleep_ns: Spread,
    /// Instants that passed while an earlier sleep was still late, so no sleep targeted them.
    pub(crate) passed_over: u64,
    pub(crate) rounds: Vec<Round>,
}

/// Ticks of the worker's loop.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Ticks {
    /// `off` or `auto`.
    pub(crate) spin: String,
    /// The share of the CPU that `auto` may use for spinning.
    pub(crate) spin_cpu_max: Option<f64>,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    pub(crate) records_dropped: u64,
    /// Over all releases, including those given up.
    pub(crate) lateness_ns: Spread,
    pub(crate) elapsed_ns: i64,
    pub(crate) cpu_ns: i64,
    pub(crate) spin_ns: i64,
    pub(crate) rounds: Vec<Round>,
}

/// Gaps in which a thread that only reads the clock was not running.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Holes {
    /// How long it watched.
    pub(crate) looked_ns: i64,
    pub(crate) longest_ns: i64,
    /// Another thread ran during the longest hole; otherwise the cause was an interrupt, the kernel, the firmware or the host.
    pub(crate) longest_was_preemption: bool,
    /// Holes of at least 10 µs.
    pub(crate) over_10us: u64,
    /// Time in holes of more than 1 µs.
    pub(crate) lost_ns: i64,
    /// The time that the host took according to the kernel, in steps of a clock tick.
    pub(crate) steal_ns: i64,
}

/// One round of several.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Round {
    pub(crate) count: u64,
    pub(crate) p50: Option<i64>,
    pub(crate) p99: Option<i64>,
}

/// A distribution. `None`: too few values.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: u64,
    pub(crate) min: Option<i64>,
    pub(crate) p50: Option<i64>,
    pub(crate) p90: Option<i64>,
    pub(crate) p99: Option<i64>,
    pub(crate) p99_9: Option<i64>,
    pub(crate) p99_99: Option<i64>,
    pub(crate) max: Option<i64>,
    pub(crate) mean: Option<i64>,
    /// Histogram: an upper bound in nanoseconds, ascending, and the number of values up to it and above the previous bound.
    pub(crate) counts: Vec<(i64, u64)>,
}

impl Spread {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let all = histogram.distribution();
        let if_enough = |value, beyond| (all.count >= needed(beyond)).then_some(value);
        let if_any = |value| (all.count > 0).then_some(value);
        Self {
            count: all.count,
            min: if_any(all.min),
            p50: if_enough(all.p50, 5_000),
            p90: if_enough(all.p90, 1_000),
            p99: if_enough(all.p99, 100),
            p99_9: if_enough(all.p99_9, 10),
            p99_99: if_enough(all.p99_99, 1),
            max: if_any(all.max),
            mean: if_any(all.mean),
            counts: histogram.counts(),
        }
    }
}

impl Round {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let Spread { count, p50, p99, .. } = Spread::of(histogram);
        Self { count, p50, p99 }
    }
}

/// Conclusions from the measurement.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Recommendation {
    pub(crate) cpu: usize,
    /// Whether it is better than every other CPU by more than the rounds differ. `None`: there is no other.
    pub(crate) clearly: Option<bool>,
    /// The recommendation is based on measurements under load.
    pub(crate) under_load: bool,
    /// Whether a spin tail is worth its cost.
    pub(crate) spin: bool,
    /// The value measured, for `spin-cpu-max`. `None`: no tail.
    pub(crate) spin_cpu_max: Option<f64>,
    /// What tails of several lengths would achieve and cost, computed from the sleeps. Only lengths that a configuration can ask for.
    pub(crate) tails: Vec<Price>,
    /// Rates tried on that CPU, in the order tried.
    pub(crate) tried: Vec<Trial>,
    /// The highest of these rates at which 99.9 % of ticks were met. `None`: there is none.
    pub(crate) highest_rate: Option<u64>,
}

/// A spin tail and its cost.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Price {
    /// The share of releases that it reaches in time.
    pub(crate) covers: f64,
    pub(crate) length_ns: i64,
    /// The share of the CPU that it spins, at the measured rate.
    pub(crate) cpu_share: f64,
}

/// A rate that was tried. It has its own count fields, because measurement files store no others.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Trial {
    pub(crate) hertz: u64,
    pub(crate) due: u64,
    pub(crate) met: u64,
    /// There were enough ticks to decide whether 99.9 % are met.
    pub(crate) enough: bool,
}

impl Trial {
    /// At least 99.9 % of its ticks were met, and there were enough of them to decide that.
    pub(crate) const fn holds(&self) -> bool {
        self.enough && (self.due - self.met) * 1_000 <= self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn a_percentile_that_a_single_value_would_decide_is_not_there() {
        let spread = |count: i64| {
            let mut histogram = Histogram::new(3);
            (1..=count).for_each(|us| histogram.add(Span::from_micros(us)));
            Spread::of(&histogram)
        };
        let there = |count| {
            let Spread { p50, p90, p99, p99_9, p99_99, .. } = spread(count);
            [p50, p90, p99, p99_9, p99_99].map(|value| u8::from(value.is_some()))
        };
        assert_eq!(there(9), [0; 5]);
        assert_eq!([there(10), there(49), there(50)], [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]);
        assert_eq!([there(499), there(500)], [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]);
        assert_eq!([there(4_999), there(5_000)], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]);
        assert_eq!(there(50_000), [1; 5]);
        assert_eq!(spread(0), Spread::default());
        assert_eq!(spread(7).counts.iter().map(|(_, count)| count).sum::<u64>(), 7);
    }

    #[test]
    fn a_rate_holds_with_a_thousandth_missed_and_not_with_more() {
        let trial = |due, met, enough| Trial { hertz: 1, due, met, enough }.holds();
        assert!(trial(5_000, 4_995, true) && !trial(5_000, 4_994, true) && !trial(5_000, 5_000, false));
    }
}
