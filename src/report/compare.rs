//! Compares two runs: what is significant, and what is noise. Pure.
//!
//! The noise is how much a number varies by itself, so a run has to be measured several times before two can be compared. The counterparts
//! to the rounds of `hertzd measure` are the summaries of several runs in one file. If single ticks are known, they are ten equal stretches
//! of one run, as far as those are long enough. A difference is significant if it exceeds the variation between the rounds of either side,
//! as in [`Rounds::verdict`]. With fewer than five rounds nothing is judged.

use super::model::{Bin, Run, Task, Worker};
use crate::measure::{Rounds, Verdict};
use crate::snapshot::{Distribution, HostSummary};
use serde::Serialize;

/// The number of equal stretches that a run is divided into.
const STRETCHES: i64 = 10;

/// Releases due in a stretch for it to count as a round. The p99 of fewer would be a single value.
const ENOUGH: u64 = 100;

/// What the rounds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RoundsAre {
    /// Separate runs: the variation from run to run is part of the noise.
    Runs,
    /// Stretches of one run: variation from run to run is not included.
    Stretches,
    /// There is only one round.
    One,
}

/// Two runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) rounds: [RoundsAre; 2],
    /// What else differs between them, one sentence each.
    pub(crate) differs: Vec<String>,
    pub(crate) tasks: Vec<Pair>,
    /// Tasks that only one run has.
    pub(crate) only: [Vec<String>; 2],
}

/// A task that both runs have.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) task: String,
    pub(crate) numbers: Vec<Number>,
}

/// One number of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Number {
    pub(crate) what: What,
    /// For the whole run (of several runs, the last): ns, or missed releases per million. `None`: unknown.
    pub(crate) values: [Option<i64>; 2],
    /// Over the rounds, if there are any.
    pub(crate) rounds: [Option<Rounds>; 2],
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    MissedPerMillion,
    LatenessP50,
    LatenessP99,
}

impl What {
    const ALL: [Self; 3] = [Self::MissedPerMillion, Self::LatenessP50, Self::LatenessP99];

    /// Its words in a sentence.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::MissedPerMillion => "missed",
            Self::LatenessP50 => "lateness p50",
            Self::LatenessP99 => "lateness p99",
        }
    }

    fn of_task(self, task: &Task) -> Option<i64> {
        let late = |of: fn(&Distribution) -> i64| {
            task.lateness_ns.known().map(|spread| &spread.all).filter(|all| all.count > 0).map(of)
        };
        match self {
            Self::MissedPerMillion => per_million(task.counts.releases.missed, task.counts.releases.due),
            Self::LatenessP50 => late(|all| all.p50),
            Self::LatenessP99 => late(|all| all.p99),
        }
    }

    /// For a stretch of bins: the median of its bins' percentiles.
    fn of_bins(self, bins: &[&Bin]) -> Option<i64> {
        let sum = |of: fn(&Bin) -> u64| bins.iter().map(|bin| of(bin)).sum::<u64>();
        let median = |of: fn(&Bin) -> i64| Rounds::of(bins.iter().filter(|bin| bin.ticks > 0).map(|bin| of(bin)));
        match self {
            Self::MissedPerMillion => per_million(sum(|bin| bin.releases.missed), sum(|bin| bin.releases.due)),
            Self::LatenessP50 => median(|bin| bin.p50_ns).map(|bins| bins.median_ns),
            Self::LatenessP99 => median(|bin| bin.p99_ns).map(|bins| bins.median_ns),
        }
    }
}

impl Comparison {
    /// Compares what both sides have. Each side has at least one run, in order.
    pub(crate) fn between(a: &[Run], b: &[Run]) -> Self {
        let sides = [a, b];
        let last = sides.map(|runs| &runs[runs.len() - 1]);
        let names = |runs: &Run, other: &Run| {
            let only = runs.tasks.iter().filter(|task| named(other, &task.task).is_none());
            only.map(|task| task.task.clone()).collect::<Vec<_>>()
        };
        let both = last[0].tasks.iter().filter_map(|task| Some((task, named(last[1], &task.task)?)));
        let pair = |(one, other): (&Task, &Task)| Pair {
            task: one.task.clone(),
            numbers: What::ALL.map(|what| number(what, &one.task, sides, [one, other])).into(),
        };
        Self {
            rounds: sides.map(rounds_are),
            differs: differs(last[0], last[1]),
            tasks: both.map(pair).collect(),
            only: [names(last[0], last[1]), names(last[1], last[0])],
        }
    }

    /// The number of judged numbers, and how many of these differ significantly.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let verdicts = || self.tasks.iter().flat_map(|pair| &pair.numbers).map(|number| number.verdict);
        let judged = verdicts().filter(|verdict| *verdict != Verdict::TooFewRounds).count();
        (judged, verdicts().filter(|verdict| *verdict == Verdict::Significant).count())
    }
}

fn named<'a>(run: &'a Run, name: &str) -> Option<&'a Task> {
    run.tasks.iter().find(|task| task.task == name)
}

fn rounds_are(runs: &[Run]) -> RoundsAre {
    match runs {
        [run] if run.bin_ns.is_some() => RoundsAre::Stretches,
        [_] => RoundsAre::One,
        _ => RoundsAre::Runs,
    }
}

fn number(what: What, name: &str, sides: [&[Run]; 2], tasks: [&Task; 2]) -> Number {
    let rounds = sides.map(|runs| Rounds::of(values_of_rounds(what, name, runs)));
    let verdict = match rounds {
        [Some(one), Some(other)] => one.verdict(other),
        _ => Verdict::TooFewRounds,
    };
    Number { what, values: tasks.map(|task| what.of_task(task)), rounds, verdict }
}

fn values_of_rounds(what: What, name: &str, runs: &[Run]) -> Vec<i64> {
    if let ([run], Some(task)) = (runs, named(&runs[0], name)) {
        let (Some(bins), Some(length)) = (task.over_time.known(), run.length_ns) else {
            return what.of_task(task).into_iter().collect();
        };
        let of_stretch = |index: i64| {
            let (from, to) = (length / STRETCHES * index, length / STRETCHES * (index + 1));
            let within: Vec<_> = bins.iter().filter(|bin| (from..to).contains(&bin.begin_ns)).collect();
            let enough = within.iter().map(|bin| bin.releases.due).sum::<u64>() >= ENOUGH;
            if enough { what.of_bins(&within) } else { None }
        };
        return (0..STRETCHES).filter_map(of_stretch).collect();
    }
    runs.iter().filter_map(|run| what.of_task(named(run, name)?)).collect()
}

fn per_million(part: u64, all: u64) -> Option<i64> {
    let per_million = (u128::from(part) * 1_000_000).checked_div(u128::from(all))?;
    i64::try_from(per_million).ok()
}

/// What else differs.
fn differs(a: &Run, b: &Run) -> Vec<String> {
    let mut all = Vec::new();
    let mut compare = |what: &str, one: Option<String>, other: Option<String>| match (one, other) {
        (Some(one), Some(other)) if one != other => all.push(format!("{what}: {one} in A, {other} in B.")),
        (Some(one), None) => all.push(format!("{what}: {one} in A; not available in B.")),
        (None, Some(other)) => all.push(format!("{what}: {other} in B; not available in A.")),
        _ => {}
    };
    let facts = |run: &Run| {
        let HostSummary { kernel, cpus, preempt, clocksource } = run.machine.known()?;
        Some([kernel.clone(), cpus.to_string(), preempt.clone(), clocksource.clone()])
    };
    let (of_a, of_b) = (facts(a), facts(b));
    for (index, what) in ["Kernel", "CPUs online", "Preemption", "Clock source"].into_iter().enumerate() {
        let fact = |facts: &Option<[String; 4]>| facts.as_ref().map(|facts| facts[index].clone());
        compare(what, fact(&of_a), fact(&of_b));
    }
    let granted = |run: &Run| {
        let workers = run.workers.known()?.iter();
        let of = |worker: &Worker| format!("{} {} {}", worker.worker, worker.policy.name, worker.policy.priority);
        Some(workers.map(of).collect::<Vec<_>>().join(", "))
    };
    compare("Workers, their policy and priority", granted(a), granted(b));
    for task in &a.tasks {
        if let (Some(one), Some(other)) = (&task.rate, named(b, &task.task).and_then(|task| task.rate.as_ref()))
            && one != other
        {
            compare(&format!("Rate of {}", task.task), Some(one.clone()), Some(other.clone()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::summary::of_summary;
    use super::*;
    use crate::snapshot::Share;
    use serde_json::json;

    fn run(missed: u64, p50: i64) -> Run {
        let late = json!({"count": 1_000, "min": 1, "p50": p50, "p90": p50, "p99": 9 * p50, "p99_9": 9 * p50, "max": 9 * p50, "at_most": []});
        let task = json!({"task": "a", "due": 1_000, "met": 1_000 - missed, "missed": missed, "lateness_ns": late});
        of_summary(&json!({"version": 1, "tasks": [task]}), "x").unwrap()
    }

    fn verdicts(a: &[Run], b: &[Run]) -> Vec<Verdict> {
        Comparison::between(a, b).tasks[0].numbers.iter().map(|number| number.verdict).collect()
    }

    #[test]
    fn runs_of_their_own_are_rounds() {
        let runs = |p50s: [i64; 5]| p50s.map(|p50| run(p50.cast_unsigned() % 3, p50));
        let (a, like_a, slower) =
            (runs([100, 104, 98, 101, 103]), runs([99, 105, 102, 100, 101]), runs([120, 121, 119, 122, 118]));
        assert_eq!(verdicts(&a, &like_a), [Verdict::Noise; 3]);
        assert_eq!(verdicts(&a, &slower), [Verdict::Noise, Verdict::Significant, Verdict::Significant]);
        assert_eq!(verdicts(&a[..4], &slower), [Verdict::TooFewRounds; 3]);
        assert_eq!(verdicts(&a[..1], &slower[..1]), [Verdict::TooFewRounds; 3], "one summary is one round");
        assert_eq!(Comparison::between(&a, &slower).counts(), (3, 2));
    }

    /// A run of 100 s in stretches of a second. Its lateness starts at `p50` and grows by 9 ns.
    fn stretches(p50: i64) -> Run {
        let mut run = run(0, p50);
        let bin = |second: i64| Bin {
            begin_ns: second * 1_000_000_000,
            releases: Share { due: 100, missed: 0 },
            ticks: 100,
            p50_ns: p50 + second / 10,
            p99_ns: 2 * p50,
            max_ns: 3 * p50,
        };
        (run.length_ns, run.bin_ns) = (Some(100_000_000_000), Some(1_000_000_000));
        run.tasks[0].over_time = super::super::model::Available::Known((0..100).map(bin).collect());
        run
    }

    #[test]
    fn stretches_of_one_run_are_rounds() {
        let (a, b) = (stretches(100), stretches(150));
        let comparison = Comparison::between(std::slice::from_ref(&a), &[b]);
        assert_eq!(comparison.rounds, [RoundsAre::Stretches; 2]);
        assert_eq!(comparison.tasks[0].numbers[1].rounds[0].map(|rounds| rounds.count), Some(10));
        assert_eq!(comparison.counts(), (3, 2));
        assert_eq!(verdicts(std::slice::from_ref(&a), &[stretches(101)])[1], Verdict::Noise);
        assert_eq!(verdicts(&[a], &[run(0, 900)]), [Verdict::TooFewRounds; 3]);
    }

    #[test]
    fn what_only_one_has_is_named() {
        let (a, mut b) = (run(0, 5), run(0, 5));
        b.tasks[0].task = "b".into();
        let comparison = Comparison::between(&[a], &[b]);
        assert_eq!(comparison.only, [vec!["a".to_owned()], vec!["b".to_owned()]]);
        assert!(comparison.tasks.is_empty());
    }
}
