//! Compares two measurements: what is significant, and what is noise. Pure.
//!
//! The rounds of a measurement repeat the same thing, so the differences between them are the noise. A difference between two measurements
//! is significant if two conditions hold: all rounds of one lie on one side of all rounds of the other, and their medians are further apart
//! than the spread of either. With five rounds each, chance alone puts one measurement entirely above the other in one of 126 cases. With
//! ten rounds or more, the outermost tenth on each side is ignored, because one disturbed round proves nothing.

use super::result::{Condition, Measured, Round};
use serde::Serialize;

/// With fewer rounds, no verdict is given.
pub(crate) const ENOUGH_ROUNDS: usize = 5;

/// Whether two measurements differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Significant,
    Noise,
    TooFewRounds,
}

/// The rounds of one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Rounds {
    pub(crate) count: usize,
    pub(crate) median_ns: i64,
    pub(crate) least_ns: i64,
    pub(crate) most_ns: i64,
}

impl Rounds {
    /// `None`: there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = i64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_unstable();
        let (count, outer) = (values.len(), values.len() / 10);
        let median_ns = i64::midpoint(*values.get(count.checked_sub(1)? / 2)?, values[count / 2]);
        Some(Self { count, median_ns, least_ns: values[outer], most_ns: values[count - 1 - outer] })
    }

    const fn width(self) -> i64 {
        self.most_ns - self.least_ns
    }

    pub(crate) fn verdict(self, other: Self) -> Verdict {
        if self.count.min(other.count) < ENOUGH_ROUNDS {
            return Verdict::TooFewRounds;
        }
        let apart = self.most_ns < other.least_ns || other.most_ns < self.least_ns;
        let further = (self.median_ns - other.median_ns).abs() > self.width().max(other.width());
        if apart && further { Verdict::Significant } else { Verdict::Noise }
    }
}

/// One number that both measurements have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Quantity {
    pub(crate) what: String,
    /// `None`: not about a particular CPU.
    pub(crate) cpu: Option<usize>,
    pub(crate) load: bool,
    pub(crate) before: Rounds,
    pub(crate) now: Rounds,
    /// `now` divided by `before`. `None`: `before` was zero.
    pub(crate) ratio: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// A measurement compared with an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) against: String,
    /// Conditions that were not the same in both; one sentence each.
    pub(crate) differs: Vec<String>,
    pub(crate) quantities: Vec<Quantity>,
}

impl Comparison {
    /// Compares every number that both have.
    pub(crate) fn between(against: &str, before: &Measured, now: &Measured) -> Self {
        let mut quantities = Vec::new();
        let mut add = |what: &str, cpu, load, before: Option<Rounds>, now: Option<Rounds>| {
            if let (Some(before), Some(now)) = (before, now) {
                let verdict = before.verdict(now);
                quantities.push(Quantity {
                    what: what.into(),
                    cpu,
                    load,
                    before,
                    now,
                    ratio: ratio(before, now),
                    verdict,
                });
            }
        };
        for new in &now.cpus {
            let Some(old) = before.cpus.iter().find(|old| old.cpu == new.cpu) else { continue };
            for condition in &new.conditions {
                let Some(past) = old.conditions.iter().find(|past| past.load == condition.load) else { continue };
                for ((what, past), (_, rounds)) in numbers(past).into_iter().zip(numbers(condition)) {
                    add(&what, Some(new.cpu), condition.load, past, rounds);
                }
            }
        }
        let costs = |of: &Measured| [of.costs.clock_reading_ns.clone(), of.costs.channel_push_ns.clone()];
        for ((what, before), now) in ["clock reading", "channel push"].into_iter().zip(costs(before)).zip(costs(now)) {
            add(what, None, false, Rounds::of(before), Rounds::of(now));
        }
        Self { against: against.to_owned(), differs: differs(before, now), quantities }
    }
}

/// The numbers of a condition that are compared.
fn numbers(condition: &Condition) -> Vec<(String, Option<Rounds>)> {
    let of = |rounds: &[Round], which: fn(&Round) -> Option<i64>| Rounds::of(rounds.iter().filter_map(which));
    let both = |what: &str, rounds: &[Round]| {
        [(format!("{what} p50"), of(rounds, |round| round.p50)), (format!("{what} p99"), of(rounds, |round| round.p99))]
    };
    let mut all = both("sleep", &condition.sleep.rounds).to_vec();
    for spin in ["off", "auto"] {
        let ticks = condition.ticks.iter().find(|ticks| ticks.spin == spin);
        all.extend(both(&format!("tick {spin}"), ticks.map_or(&[], |ticks| &ticks.rounds)));
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a ratio, of which three digits are shown")]
fn ratio(before: Rounds, now: Rounds) -> Option<f64> {
    (before.median_ns > 0).then(|| now.median_ns as f64 / before.median_ns as f64)
}

fn differs(before: &Measured, now: &Measured) -> Vec<String> {
    let granted = |of: &Measured| {
        let one = |granted: &super::result::Granted| format!("{} {}", granted.policy.name, granted.policy.priority);
        let mut all: Vec<_> = of.cpus.iter().map(|cpu| one(&cpu.granted)).collect();
        all.dedup();
        all.join(", ")
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let facts = |of: &Measured| {
        [
            ("kernel", of.host.kernel.clone()),
            ("preemption", of.host.preempt.clone()),
            ("clock source", of.host.clocksource.clone()),
            ("policy and priority granted", granted(of)),
            ("memory locked", yes(of.memory_locked)),
            ("idle states kept shallow", yes(of.cpu_latency_held)),
            ("CPUs measured at once", of.asked.cpus.len().to_string()),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(now)).filter(|((_, before), (_, now))| before != now);
    pairs.map(|((what, before), (_, now))| format!("{what}: {before} before, {now} now")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(before: &[i64], now: &[i64]) -> Verdict {
        let rounds = |values: &[i64]| Rounds::of(values.iter().copied()).unwrap();
        rounds(before).verdict(rounds(now))
    }

    #[test]
    fn what_the_rounds_themselves_differ_by_is_noise() {
        let before = [100, 104, 98, 101, 103];
        assert_eq!(verdict(&before, &before), Verdict::Noise);
        assert_eq!(verdict(&before, &[99, 105, 102, 100, 101]), Verdict::Noise);
        assert_eq!(
            verdict(&before, &[105, 106, 107, 105, 106]),
            Verdict::Noise,
            "apart, but not by more than 98 to 104"
        );
        assert_eq!(verdict(&before, &[120, 121, 119, 122, 118]), Verdict::Significant);
        assert_eq!(verdict(&[120, 121, 119, 122, 118], &before), Verdict::Significant);
        assert_eq!(verdict(&before, &[120, 121, 119, 122, 103]), Verdict::Noise, "one round is like before");
        assert_eq!(verdict(&before[..4], &[500; 9]), Verdict::TooFewRounds);
    }

    #[test]
    fn one_disturbed_round_of_ten_does_not_hide_a_difference() {
        let mut before = vec![100; 10];
        before[3] = 9_000;
        assert_eq!(verdict(&before, &[200; 10]), Verdict::Significant);
        before[4] = 9_000;
        assert_eq!(verdict(&before, &[200; 10]), Verdict::Noise);
    }

    #[test]
    fn rounds_are_summed_up_by_their_median() {
        assert_eq!(Rounds::of([]), None);
        assert_eq!(Rounds::of([7]), Some(Rounds { count: 1, median_ns: 7, least_ns: 7, most_ns: 7 }));
        assert_eq!(Rounds::of([9, 1, 3, 5]), Some(Rounds { count: 4, median_ns: 4, least_ns: 1, most_ns: 9 }));
    }
}
