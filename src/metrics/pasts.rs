//! Totals by name of tasks that reloads have ended, so that counters read from outside continue when a task of the same name returns.
//!
//! Sums; allocates. A name is kept while a task has it, and afterwards until [`KEPT`] others have ended after it. Memory therefore stays
//! bounded even if each reload renames tasks. Dropped totals are counted.

use super::cause::Cause;
use super::task::TaskMetrics;
use crate::channels::Counts;
use crate::snapshot::{self, BeforeReloadDropped, Sums};
use std::collections::{BTreeMap, BTreeSet};

/// How many names without a task are kept, the most recent ones. Dropping starts only at twice as many, so that each search for the oldest
/// names drops many.
const KEPT: usize = 1_024;

/// The totals of all ended tasks.
#[derive(Debug, Default)]
pub(super) struct Pasts {
    by_name: BTreeMap<String, Box<Past>>,
    ended: u64, // number of tasks
    dropped: BeforeReloadDropped,
}

#[derive(Debug, Default)]
struct Past {
    all: Sums,
    latest: u64, // the number of the task of this name that ended last
}

impl Pasts {
    /// Adds a task that has ended.
    pub(super) fn add(&mut self, task: &TaskMetrics) {
        // Use the worker's final counts. If the worker died, they are missing: use the sums of its records.
        let counts = task.finals.as_deref().copied().unwrap_or(Counts {
            ran: task.run.count(),
            skipped: task.skipped,
            overruns: task.overruns,
            ..Counts::default()
        });
        let of_releases = snapshot::Counts::of(counts.ran, counts.skipped, counts.overruns);
        if of_releases.due == 0 {
            return;
        }
        let causes = Cause::ALL.into_iter().zip(task.causes.as_deref().copied().unwrap_or_default());
        let causes = causes.filter(|(_, count)| *count > 0);
        let [lateness_ns, run_ns, response_ns] = task.histograms().map(|all| all.distribution().added());
        let sums = Sums {
            counts: snapshot::Counts { pending: None, ..of_releases },
            over_budget: counts.over_budget,
            errors: counts.errors,
            late_chains: task.late_chains.as_ref().map_or(0, |late| late.counts.late_chains),
            causes: causes.map(|(cause, count)| (cause.word().into(), count)).collect(),
            lateness_ns,
            run_ns,
            response_ns,
            age_ns: task.ages.as_ref().map(|ages| ages.distribution().added()),
        };
        self.of_ended(&task.facts.name).join(&sums, u64::saturating_add, i128::saturating_add);
    }

    /// Counts one more ended task, and returns the totals of its name for updating.
    fn of_ended(&mut self, name: &str) -> &mut Sums {
        self.ended += 1;
        let past = self.by_name.entry(name.to_owned()).or_default();
        past.latest = self.ended;
        &mut past.all
    }

    /// The totals of ended tasks with this name, if there were any.
    pub(super) fn of(&self, name: &str) -> Option<Box<Sums>> {
        self.by_name.get(name).map(|past| Box::new(past.all.clone()))
    }

    /// What has been dropped, if anything.
    pub(super) fn dropped(&self) -> Option<BeforeReloadDropped> {
        (self.dropped.names > 0).then_some(self.dropped)
    }

    /// Whether there may be too many names while this many tasks run.
    pub(super) fn are_many(&self, running: usize) -> bool {
        self.by_name.len() >= running + 2 * KEPT
    }

    /// Drops names that no running task has, except for the most recent.
    pub(super) fn drop_oldest(&mut self, running: &BTreeSet<&str>) {
        let without = self.by_name.iter().filter(|(name, _)| !running.contains(name.as_str()));
        let mut ended: Vec<_> = without.map(|(_, past)| past.latest).collect();
        let Some(surplus) = ended.len().checked_sub(KEPT).filter(|surplus| *surplus > 0) else { return };
        let (_, last, _) = ended.select_nth_unstable(surplus - 1);
        let last = *last;
        let dropped = &mut self.dropped;
        self.by_name.retain(|name, past| {
            let keep = past.latest > last || running.contains(name.as_str());
            if !keep {
                dropped.names += 1;
                dropped.due += past.all.counts.due;
                dropped.met += past.all.counts.met;
                dropped.missed += past.all.counts.missed;
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like reloads that rename each task. One task stays all the time.
    #[test]
    fn names_that_come_and_go_take_bounded_memory_and_what_is_dropped_is_counted() {
        let (mut pasts, mut most) = (Pasts::default(), 0);
        let rounds = 10 * KEPT as u64;
        for round in 0..rounds {
            for name in ["stays", &format!("task-{round}")] {
                let all = &mut pasts.of_ended(name).counts;
                (all.due, all.met, all.missed) = (all.due + 3, all.met + 2, all.missed + 1);
            }
            if pasts.are_many(1) {
                pasts.drop_oldest(&BTreeSet::from(["stays"]));
            }
            most = most.max(pasts.by_name.len());
        }
        assert!(most <= 1 + 2 * KEPT, "{most}");
        assert_eq!(pasts.of("stays").unwrap().counts.due, 3 * rounds, "a task has this name");
        let latest = format!("task-{}", rounds - 1);
        assert_eq!(pasts.of(&latest).unwrap().counts.missed, 1);
        assert_eq!(pasts.of("task-0"), None);
        let dropped = pasts.dropped().unwrap();
        let kept = pasts.by_name.len() as u64 - 1;
        assert_eq!((dropped.names, dropped.due, dropped.missed), (rounds - kept, 3 * (rounds - kept), rounds - kept));
        assert_eq!(dropped.due, dropped.met + dropped.missed);
        assert_eq!(Pasts::default().dropped(), None);
    }
}
