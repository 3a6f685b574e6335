//! Counts that only grow, from snapshots whose tasks come and go.
//!
//! A counter that shrinks is taken for one that began again from zero, and its whole value for new. So each task's counts go on
//! from those of its name that reloads have ended, and none is shown lower than it was before: by the clock a release may count as missed
//! a moment before its tick turns out to be in time, and while a reload is under way what the old task came to is not known yet. Pure.

use super::scraped::{Counts, Scraped, Spans};
use crate::snapshot::BOUNDS;
use std::collections::BTreeMap;

/// What was shown last, of one daemon process.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    of: Option<(u64, i64)>, // its process, and when it was started
    tasks: BTreeMap<String, Counts>,
}

impl Totals {
    /// Makes the counts of all tasks those of all tasks of their names since the daemon started.
    pub(crate) fn go_on(&mut self, snapshot: &mut Scraped) {
        let of = snapshot.daemon.as_ref().map(|daemon| (daemon.pid, daemon.started_utc_ns));
        if self.of != of {
            *self = Self { of, tasks: BTreeMap::new() };
        }
        let mut shown = std::mem::take(&mut self.tasks);
        for task in &mut snapshot.tasks {
            if let Some(judged) = task.causes_judged.take() {
                task.counts.causes = judged;
            }
            if let Some(before) = task.before_reload.take() {
                join(&mut task.counts, before, |now, before| now + before, |now, before| now + before);
            }
            if let Some(last) = shown.remove(&task.task) {
                join(&mut task.counts, last, u64::max, f64::max);
            }
            // The others come again with what the daemon says they came to before.
            self.tasks.insert(task.task.clone(), task.counts.clone());
        }
    }
}

fn join(counts: &mut Counts, mut with: Counts, number: fn(u64, u64) -> u64, sum: fn(f64, f64) -> f64) {
    for (now, with) in counts.numbers_mut().into_iter().zip(with.numbers_mut()) {
        *now = number(*now, *with);
    }
    for (now, with) in counts.spans_mut().into_iter().zip(with.spans_mut()) {
        *now = joined(now, with, number, sum);
    }
    counts.age_ns = match (counts.age_ns.take(), with.age_ns.take()) {
        (Some(now), Some(with)) => Some(joined(&now, &with, number, sum)),
        (now, with) => now.or(with),
    };
    // What a task without the limit came to before it got one is no count.
    counts.late_chains = counts.late_chains.map(|now| number(now, with.late_chains.unwrap_or(0)));
    for (cause, with) in with.causes {
        let now = counts.causes.entry(cause).or_default();
        *now = number(*now, with);
    }
}

fn joined(now: &Spans, with: &Spans, number: fn(u64, u64) -> u64, sum: fn(f64, f64) -> f64) -> Spans {
    let at_most = BOUNDS.map(|bound| (bound, number(now.at_most(bound), with.at_most(bound))));
    Spans { count: number(now.count, with.count), sum: sum(now.sum, with.sum), at_most: at_most.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(totals: &mut Totals, pid: u64, tasks: Value) -> Scraped {
        let mut snapshot: Scraped =
            serde_json::from_value(json!({"daemon": {"pid": pid, "started_utc_ns": 5}, "tasks": tasks})).unwrap();
        totals.go_on(&mut snapshot);
        snapshot
    }

    fn late(count: u64) -> Value {
        json!({"count": count, "sum": 1_000 * count, "at_most": [[2_000, count]]})
    }

    #[test]
    fn counts_go_on_over_a_reload_and_never_shrink() {
        let mut totals = Totals::default();
        let task =
            |missed, causes| json!({"task": "a", "missed": missed, "causes": causes, "lateness_ns": late(missed)});
        let first = shown(&mut totals, 7, json!([task(10, json!({"blocked": 10}))]));
        assert_eq!(first.tasks[0].counts.missed, 10);
        // The new task runs, and what the old one came to is not known yet.
        let under_way = shown(&mut totals, 7, json!([task(1, json!({"unknown": 1}))]));
        assert_eq!((under_way.tasks[0].counts.missed, under_way.tasks[0].counts.causes["blocked"]), (10, 10));
        let mut after = task(3, json!({"blocked": 2, "unknown": 1}));
        after["late_chains"] = 5.into();
        after["age_ns"] = late(3);
        after["before_reload"] = json!({"missed": 12, "late_chains": 2, "causes": {"blocked": 12}, "lateness_ns": late(12), "age_ns": late(4)});
        after["causes_judged"] = json!({"blocked": 2});
        let after = shown(&mut totals, 7, json!([after]));
        let counts = &after.tasks[0].counts;
        assert_eq!((counts.missed, counts.causes["blocked"], counts.late_chains), (15, 14, Some(7)));
        assert_eq!([1_000, 2_000, 1_000_000_000].map(|bound| counts.lateness_ns.at_most(bound)), [0, 15, 15]);
        assert_eq!(counts.age_ns.as_ref().map(|ages| (ages.count, ages.sum)), Some((7, 7_000.0)));
        assert_eq!((counts.lateness_ns.count, counts.lateness_ns.sum), (15, 15_000.0));
    }

    #[test]
    fn a_daemon_that_was_started_again_begins_from_zero() {
        let mut totals = Totals::default();
        shown(&mut totals, 7, json!([{"task": "a", "missed": 10}]));
        assert_eq!(shown(&mut totals, 8, json!([{"task": "a", "missed": 1}])).tasks[0].counts.missed, 1);
        shown(&mut totals, 8, json!([]));
        assert!(totals.tasks.is_empty(), "a task that is gone takes no memory");
    }
}
