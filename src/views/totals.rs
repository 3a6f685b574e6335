//! Counters that never decrease, computed from snapshots whose tasks come and go.
//!
//! Prometheus takes a counter that shrinks for one that restarted at zero, and counts its whole value as new. So each task's counts
//! continue those of earlier tasks with its name that reloads have ended. No count is shown lower than before, although the daemon's own
//! counts may drop: a release may count as missed by the clock a moment before its tick turns out to be in time, and during a reload the
//! old task's totals are not known yet. Pure.

use crate::snapshot::{Counts, Summary, Sums, TaskSummary};
use std::collections::BTreeMap;

/// The totals last shown, for one daemon process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    of: Option<(u32, i64)>, // its process id, and when it was started
    tasks: BTreeMap<String, Sums>,
}

impl Totals {
    /// Updates the totals to cover all tasks of each name since the daemon started.
    pub(crate) fn go_on(&mut self, snapshot: &Summary) {
        let of = snapshot.daemon.as_ref().map(|daemon| (daemon.pid, daemon.started_utc_ns));
        if self.of != of {
            *self = Self { of, tasks: BTreeMap::new() };
        }
        let mut shown = std::mem::take(&mut self.tasks);
        for task in &snapshot.tasks {
            let mut all = sums(task);
            if let Some(before) = &task.before_reload {
                all.join(before, u64::saturating_add, i128::saturating_add);
            }
            if let Some(last) = shown.remove(&task.task) {
                all.join(&last, u64::max, i128::max);
            }
            // If a removed task returns, the daemon reports its earlier totals.
            self.tasks.insert(task.task.clone(), all);
        }
    }

    /// The totals of all tasks with this name.
    pub(super) fn of(&self, task: &str) -> Option<&Sums> {
        self.tasks.get(task)
    }
}

/// The sums of one task alone. Only causes that have been judged are included.
fn sums(task: &TaskSummary) -> Sums {
    Sums {
        counts: Counts { pending: None, ..task.counts },
        over_budget: task.over_budget,
        errors: task.errors,
        late_chains: task.latency.as_ref().map_or(0, |latency| latency.late_chains),
        causes: task.causes_judged.as_ref().unwrap_or(&task.causes).clone(),
        lateness_ns: task.lateness_ns.added(),
        run_ns: task.run_ns.added(),
        response_ns: task.response_ns.added(),
        age_ns: task.age_ns.as_ref().map(|age| age.added()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(totals: &mut Totals, pid: u32, tasks: Value) -> Option<Sums> {
        let snapshot = json!({"daemon": {"pid": pid, "started_utc_ns": 5}, "tasks": tasks});
        totals.go_on(&serde_json::from_value(snapshot).unwrap());
        totals.of("a").cloned()
    }

    fn late(count: u64) -> Value {
        json!({"count": count, "sum": 1_000 * count, "at_most": [[2_000, count]]})
    }

    #[test]
    fn counts_go_on_over_a_reload_and_never_shrink() {
        let mut totals = Totals::default();
        let task =
            |missed, causes| json!({"task": "a", "missed": missed, "causes": causes, "lateness_ns": late(missed)});
        let first = shown(&mut totals, 7, json!([task(10, json!({"blocked": 10}))])).unwrap();
        assert_eq!(first.counts.missed, 10);
        // The new task runs, and the old one's totals are not known yet.
        let under_way = shown(&mut totals, 7, json!([task(1, json!({"unknown": 1}))])).unwrap();
        assert_eq!((under_way.counts.missed, under_way.causes["blocked"]), (10, 10));
        let mut after = task(3, json!({"blocked": 2, "unknown": 1}));
        (after["max_latency_ns"], after["late_chains"]) = (9.into(), 5.into());
        after["age_ns"] = late(3);
        after["before_reload"] = json!({"missed": 12, "late_chains": 2, "causes": {"blocked": 12}, "lateness_ns": late(12), "age_ns": late(4)});
        after["causes_judged"] = json!({"blocked": 2});
        let all = shown(&mut totals, 7, json!([after])).unwrap();
        assert_eq!((all.counts.missed, all.causes["blocked"], all.late_chains), (15, 14, 7));
        assert_eq!([1_000, 2_000, 1_000_000_000].map(|bound| all.lateness_ns.at_most.at(bound)), [0, 15, 15]);
        assert_eq!(all.age_ns.map(|ages| (ages.count, ages.sum)), Some((7, 7_000)));
        assert_eq!((all.lateness_ns.count, all.lateness_ns.sum), (15, 15_000));
    }

    #[test]
    fn a_daemon_that_was_started_again_begins_from_zero() {
        let mut totals = Totals::default();
        shown(&mut totals, 7, json!([{"task": "a", "missed": 10}]));
        let again = shown(&mut totals, 8, json!([{"task": "a", "missed": 1}]));
        assert_eq!(again.map(|all| all.counts.missed), Some(1));
        assert_eq!(shown(&mut totals, 8, json!([])), None, "a task that is gone takes no memory");
    }
}
