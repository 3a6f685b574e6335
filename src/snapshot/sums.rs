//! The totals of all tasks with one name, added up over reloads or over readings of a daemon. Plain numbers.

use super::counts::{Causes, Counts};
use super::distribution::Added;
use serde::{Deserialize, Serialize};

/// The totals. Each field has the same meaning as in a task's summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Without `pending`, which cannot be added up.
    #[serde(flatten)]
    pub counts: Counts,
    pub over_budget: u64,
    pub errors: u64,
    pub late_chains: u64,
    pub causes: Causes,
    pub lateness_ns: Added,
    pub run_ns: Added,
    pub response_ns: Added,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<Added>,
}

impl Sums {
    /// Combines each count with the other's by `number`, and the sums of times by `sum`.
    pub(crate) fn join(&mut self, with: &Self, number: fn(u64, u64) -> u64, sum: fn(i128, i128) -> i128) {
        let (own, others) = (&mut self.counts, &with.counts);
        for (own, with) in [
            (&mut own.due, others.due),
            (&mut own.met, others.met),
            (&mut own.missed, others.missed),
            (&mut own.ran, others.ran),
            (&mut own.skipped, others.skipped),
            (&mut own.overruns, others.overruns),
            (&mut self.over_budget, with.over_budget),
            (&mut self.errors, with.errors),
            (&mut self.late_chains, with.late_chains),
        ] {
            *own = number(*own, with);
        }
        for (cause, with) in &with.causes {
            let own = self.causes.entry(cause.clone()).or_default();
            *own = number(*own, *with);
        }
        self.lateness_ns.join(&with.lateness_ns, number, sum);
        self.run_ns.join(&with.run_ns, number, sum);
        self.response_ns.join(&with.response_ns, number, sum);
        if let Some(with) = &with.age_ns {
            self.age_ns.get_or_insert_default().join(with, number, sum);
        }
    }
}

/// Totals of ended tasks that are no longer known by name, because too many names came and went. Only these of their [`Counts`] are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BeforeReloadDropped {
    /// The number of names. A name that was dropped twice counts twice.
    pub names: u64,
    pub due: u64,
    pub met: u64,
    pub missed: u64,
}
