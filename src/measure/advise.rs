//! Conclusions from a measurement: which CPU, which spin tail at what cost, and where to start the search for the highest rate. Pure.

use super::compare::{Rounds, Verdict};
use super::result::{Condition, CpuMeasured, Price, Recommendation, Round, Spread, Ticks};

/// From the wake-up to the last clock reading before the release; the learned tail adds the same amount.
const WAKE_TO_READING: i64 = 2_000;

/// Maximum share that a configuration may allow for a tail.
const MOST: f64 = 0.5;

/// The tails whose cost is shown, by the share of releases that each reaches in time.
const COVERS: [f64; 3] = [0.9, 0.99, 0.999];

/// The recommendation, except for rates. `None`: nothing was measured.
pub(super) fn advise(cpus: &[CpuMeasured], period_ns: i64) -> Option<Recommendation> {
    let scored: Vec<_> = cpus.iter().filter_map(|cpu| Some((cpu, score(cpu, cpus)?))).collect();
    let (best, rounds) = scored.iter().min_by_key(|(_, rounds)| rounds.median_ns)?;
    let others = scored.iter().filter(|(other, _)| other.cpu != best.cpu);
    let clearly = others.map(|(_, other)| rounds.verdict(*other) == Verdict::Significant).reduce(|all, one| all && one);
    let condition = best.hardest()?;
    let tails = prices(&condition.sleep.oversleep_ns, period_ns);
    let spin = tail_helps(condition);
    // The measured limit: a learned tail takes no more of it than it needs.
    let spin_cpu_max = condition.ticks.iter().filter(|_| spin).find_map(|ticks| ticks.spin_cpu_max);
    Some(Recommendation {
        cpu: best.cpu,
        clearly,
        under_load: condition.load,
        spin,
        spin_cpu_max,
        tails,
        ..Recommendation::default()
    })
}

/// The score of a CPU: p99 of its sleeps, or p50 if the rounds of some CPU are too short for p99.
fn score(cpu: &CpuMeasured, all: &[CpuMeasured]) -> Option<Rounds> {
    let p99s = |cpu: &CpuMeasured| -> Vec<i64> {
        let rounds = cpu.hardest().map_or(&[][..], |condition| &condition.sleep.rounds);
        rounds.iter().filter_map(|round| round.p99).collect()
    };
    if all.iter().all(|cpu| !p99s(cpu).is_empty()) {
        return Rounds::of(p99s(cpu));
    }
    Rounds::of(cpu.hardest()?.sleep.rounds.iter().filter_map(|round| round.p50))
}

/// Whether ticks start earlier with a tail, in every round, than without one in any round, and nothing gets worse.
fn tail_helps(condition: &Condition) -> bool {
    let [off, auto] = ["off", "auto"].map(|spin| rounds(condition, spin, |round| round.p50));
    off.zip(auto).is_some_and(|(off, auto)| auto.most_ns < off.least_ns) && !tail_harms(condition)
}

/// Whether a tail does harm: more ticks miss their deadline than without one, or p99 lateness is higher in every round than in any round
/// without. The CPU time that the tail takes is then missing for the ticks.
#[expect(clippy::cast_precision_loss, reason = "counts, of which a few digits matter")]
pub(crate) fn tail_harms(condition: &Condition) -> bool {
    let missed = |spin: &str| ticks(condition, spin).map_or(0.0, |ticks| ticks.counts.missed as f64);
    let (off, auto) = (missed("off"), missed("auto"));
    // More than three standard deviations of the difference between two counts.
    let misses_more = auto - off > 3.0 * (auto + off).sqrt();
    let [late_off, late_auto] = ["off", "auto"].map(|spin| rounds(condition, spin, |round| round.p99));
    misses_more || late_off.zip(late_auto).is_some_and(|(off, auto)| auto.least_ns > off.most_ns)
}

fn ticks<'a>(condition: &'a Condition, spin: &str) -> Option<&'a Ticks> {
    condition.ticks.iter().find(|ticks| ticks.spin == spin)
}

fn rounds(condition: &Condition, spin: &str, late: impl Fn(&Round) -> Option<i64>) -> Option<Rounds> {
    Rounds::of(ticks(condition, spin)?.rounds.iter().filter_map(late))
}

/// The costs of those tails for which the sample is large enough.
fn prices(sleeps: &Spread, period_ns: i64) -> Vec<Price> {
    let late = [sleeps.p90, sleeps.p99, sleeps.p99_9];
    let known = COVERS.into_iter().zip(late).filter_map(|(covers, late)| Some((covers, late?)));
    let prices = known.map(|(covers, late)| price(sleeps, covers, late + WAKE_TO_READING, period_ns));
    prices.filter(|price| price.cpu_share <= MOST && price.length_ns < period_ns).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a share, of which two digits are shown")]
fn price(sleeps: &Spread, covers: f64, length_ns: i64, period_ns: i64) -> Price {
    let awake = |(late, count): &(i64, u64)| (length_ns - late).max(0) as f64 * *count as f64;
    let awake: f64 = sleeps.counts.iter().map(awake).sum();
    let mean = awake / sleeps.count.max(1) as f64;
    Price { covers, length_ns, cpu_share: mean / period_ns.max(1) as f64 }
}

/// The rates to try, in hertz.
pub(super) const RATES: [u64; 19] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000,
    75_000, 100_000,
];

/// The index of the rate to try first: the highest whose period is at least twice the lateness of the sleeps.
pub(super) fn first_rate(condition: &Condition) -> usize {
    let Spread { p99, max, .. } = condition.sleep.oversleep_ns;
    let late = p99.or(max).unwrap_or(0).max(1);
    let fits = |hertz: &u64| i64::try_from(1_000_000_000 / hertz).unwrap_or(i64::MAX) >= 2 * late;
    RATES.iter().rposition(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::result::Sleeps;
    use super::*;

    fn late(p50: i64, p99: Option<i64>) -> Vec<Round> {
        (0..5).map(|n| Round { count: 1_000, p50: Some(p50 + n), p99: p99.map(|late| late + n) }).collect()
    }

    fn cpu(cpu: usize, p99: Option<i64>, auto: i64) -> CpuMeasured {
        let counts = vec![(10_000, 9_900), (30_000, 95), (90_000, 5)];
        let oversleep_ns = Spread {
            count: 10_000,
            p90: Some(10_000),
            p99: Some(10_000),
            p99_9: Some(30_000),
            counts,
            ..Spread::default()
        };
        let sleep = Sleeps { oversleep_ns, passed_over: 0, rounds: late(10_000, p99) };
        let ticks = |spin: &str, p50, spin_cpu_max| Ticks {
            spin: spin.into(),
            spin_cpu_max,
            rounds: late(p50, None),
            ..Ticks::default()
        };
        let ticks = vec![ticks("off", 11_000, None), ticks("auto", auto, Some(0.05))];
        CpuMeasured {
            cpu,
            conditions: vec![Condition { sleep, ticks, ..Condition::default() }],
            ..CpuMeasured::default()
        }
    }

    #[test]
    fn the_cpu_that_is_late_least_is_recommended_and_said_to_be_so_only_if_that_is_no_noise() {
        let of = |cpus: &[CpuMeasured]| advise(cpus, 1_000_000).map(|advice| (advice.cpu, advice.clearly));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[cpu(3, Some(30_000), 100)]), Some((3, None)));
        assert_eq!(of(&[cpu(0, Some(30_000), 100), cpu(1, Some(20_000), 100)]), Some((1, Some(true))));
        assert_eq!(of(&[cpu(0, Some(20_001), 100), cpu(1, Some(20_000), 100)]), Some((1, Some(false))));
        assert_eq!(
            of(&[cpu(0, None, 100), cpu(1, Some(9), 100)]),
            Some((0, Some(false))),
            "p50 where p99 is not known"
        );
    }

    #[test]
    fn a_tail_costs_what_the_sleeps_leave_of_it() {
        let advice = advise(&[cpu(0, Some(30_000), 100)], 1_000_000).unwrap();
        let prices: Vec<_> =
            advice.tails.iter().map(|price| (price.length_ns, (price.cpu_share * 1e6).round())).collect();
        // 2 µs of spinning after 99 of 100 sleeps. For the longer tail: 22 µs after those, and 2 µs after nearly one in 100.
        assert_eq!(prices, [(12_000, 1_980.0), (12_000, 1_980.0), (32_000, 21_799.0)]);
        assert_eq!((advice.spin, advice.spin_cpu_max), (true, Some(0.05)));
        let slow = advise(&[cpu(0, Some(30_000), 100)], 30_000).unwrap();
        assert_eq!(slow.tails.len(), 2, "none that is longer than the period: {slow:?}");
        let useless = advise(&[cpu(0, Some(30_000), 11_000)], 1_000_000).unwrap();
        assert_eq!((useless.spin, useless.spin_cpu_max), (false, None));
    }

    #[test]
    fn a_tail_that_makes_ticks_miss_or_the_latest_later_does_not_pay() {
        let spin = |change: &dyn Fn(&mut [Ticks])| {
            let mut cpu = cpu(0, Some(30_000), 100);
            change(&mut cpu.conditions[0].ticks);
            advise(&[cpu], 1_000_000).unwrap().spin
        };
        assert!(spin(&|ticks| (ticks[0].counts.missed, ticks[1].counts.missed) = (12, 20)), "as it may come");
        assert!(!spin(&|ticks| (ticks[0].counts.missed, ticks[1].counts.missed) = (12, 286)));
        assert!(!spin(
            &|ticks| (ticks[0].rounds, ticks[1].rounds) = (late(11_000, Some(150_000)), late(100, Some(4_490_000)))
        ));
        assert!(spin(
            &|ticks| (ticks[0].rounds, ticks[1].rounds) = (late(11_000, Some(150_000)), late(100, Some(150_000)))
        ));
    }

    #[test]
    fn the_first_rate_leaves_twice_the_lateness() {
        let of = |late| {
            let oversleep_ns = Spread { count: 1, max: Some(late), ..Spread::default() };
            let sleep = Sleeps { oversleep_ns, ..Sleeps::default() };
            RATES[first_rate(&Condition { sleep, ..Condition::default() })]
        };
        assert_eq!([of(0), of(50_000), of(51_000), of(1_000_000_000)], [100_000, 10_000, 8_000, 10]);
    }
}
