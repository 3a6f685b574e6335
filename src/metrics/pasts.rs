//! What tasks came to that reloads have ended, by name: so that counts which are read from outside go on where a task of the same
//! name comes again.
//!
//! Sums; allocates. It knows a name for as long as the process lives.

use super::before::{Added, BeforeReload};
use super::health::Progress;
use super::histogram::Histogram;
use super::task::TaskMetrics;
use super::{Cause, Distribution};
use crate::channels::Counts;
use std::collections::BTreeMap;

/// All that have ended.
#[derive(Debug, Default)]
pub(super) struct Pasts(BTreeMap<String, Box<BeforeReload>>);

impl Pasts {
    /// Adds a task that has ended.
    pub(super) fn add(&mut self, task: &TaskMetrics) {
        // Without those of the worker, which has died, what its records add up to.
        let counts = task.finals.as_deref().copied().unwrap_or(Counts {
            ran: task.run.count(),
            skipped: task.skipped,
            overruns: task.overruns,
            ..Counts::default()
        });
        let Progress { due, met, missed, .. } = Progress::finished(counts);
        if due == 0 {
            return;
        }
        let all = self.0.entry(task.facts.name.clone()).or_default();
        all.due += due;
        all.met += met;
        all.missed += missed;
        all.ran += counts.ran;
        all.skipped += counts.skipped;
        all.overruns += counts.overruns;
        all.over_budget += counts.over_budget;
        all.errors += counts.errors;
        for (cause, count) in Cause::ALL.into_iter().zip(task.causes.as_deref().copied().unwrap_or_default()) {
            if count > 0 {
                *all.causes.entry(cause.word()).or_default() += count;
            }
        }
        add(&mut all.lateness_ns, &task.lateness);
        add(&mut all.run_ns, &task.run);
        add(&mut all.response_ns, &task.response);
    }

    /// What the ended ones of this name came to, if there were any.
    pub(super) fn of(&self, name: &str) -> Option<Box<BeforeReload>> {
        self.0.get(name).cloned()
    }
}

fn add(all: &mut Added, histogram: &Histogram) {
    let Distribution { count, sum, at_most, .. } = histogram.distribution();
    all.count += count;
    all.sum += sum;
    all.at_most.iter_mut().zip(at_most.expanded()).for_each(|(all, more)| *all += more);
}
