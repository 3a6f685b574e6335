//! Outputs of users' own kinds that earlier processes left without their safe values. No plan can describe such a write: only a task of the
//! same name can make it, before its first tick. Until then they stay in the plan. Nothing blocks.

use crate::safety::{Guard, LiveOutputs, Owing};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info};

/// The outputs of users' own kinds that are still left.
#[derive(Debug)]
pub(super) struct LeftOwn {
    left: Vec<(String, Owing)>, // by task name
    plan: PathBuf,              // where this process keeps its plan
    is_said: bool,
}

impl LeftOwn {
    /// Empty at first. `plan`: where this process keeps its plan.
    pub(super) fn new(plan: &Path) -> Self {
        Self { left: Vec::new(), plan: plan.into(), is_said: false }
    }

    /// Adds a plan's tasks of users' own kinds.
    pub(super) fn add(&mut self, tasks: Vec<String>, live: &Arc<LiveOutputs>) {
        for task in tasks {
            if self.left.iter().all(|(left, _)| *left != task) {
                let owing = live.owing(&task);
                self.left.push((task, owing));
            }
        }
    }

    /// The tasks still left, given the guards of this process. `says`: the start can no longer be refused, so they are logged.
    pub(super) fn still(&mut self, guards: &[Arc<Guard>], says: bool) -> impl Iterator<Item = &str> {
        self.left.retain(|(task, _)| {
            let has_begun = |guard: &Guard| guard.has_no_plan() && guard.has_begun() && guard.task() == task;
            let is_over = guards.iter().any(|guard| has_begun(guard));
            if is_over {
                info!(task, "{task}: runs again, so what an earlier run may have left unwritten is its own now");
            }
            !is_over
        });
        if says && !std::mem::replace(&mut self.is_said, true) {
            for (task, _) in &self.left {
                error!(task, "{}", self.says(task));
            }
        }
        self.left.iter().map(|(task, _)| task.as_str())
    }

    fn says(&self, task: &str) -> String {
        let plan = self.plan.display();
        format!(
            "{task}: what it puts out may be as an earlier run has left it: only its own process could write its safe value, and has tried that if it \
             crashed, not if it was killed; run this task again, or make it safe by hand, stop hertzd and remove {plan}"
        )
    }

    /// The same for every task, for the status.
    pub(super) fn trouble(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|(task, _)| self.says(task))
    }
}
