//! What tasks of a name came to before the one that runs, as the summary shows it. Plain numbers.

use super::bounds::{self, AtMost};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the tasks of a name came to before the one that runs. Each field is as in the summary of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BeforeReload {
    pub due: u64,
    pub met: u64,
    pub missed: u64,
    pub ran: u64,
    pub skipped: u64,
    pub overruns: u64,
    pub over_budget: u64,
    pub errors: u64,
    pub late_chains: u64,
    pub causes: BTreeMap<&'static str, u64>,
    pub lateness_ns: Added,
    pub run_ns: Added,
    pub response_ns: Added,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<Added>,
}

/// What is no longer known by name of tasks that have ended: too many names came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BeforeReloadDropped {
    /// Names; one that was dropped twice counts twice.
    pub names: u64,
    pub due: u64,
    pub met: u64,
    pub missed: u64,
}

/// The part of a distribution that can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Added {
    pub count: u64,
    #[serde(serialize_with = "bounds::serialize_sum")]
    pub sum: i128,
    #[serde(serialize_with = "bounds::serialize")]
    pub at_most: AtMost,
}
