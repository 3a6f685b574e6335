//! What a reload would change: a pure comparison of two sets of sections.
//!
//! Names are identity. A worker whose section has changed restarts, along with its tasks. A task is kept if, and only if, its section and
//! its worker are unchanged.

use super::digest::{Digest, Keys, Names};
use crate::config::{Config, Scheduling, TaskConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A digest of each section of a configuration, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Sections {
    /// A digest of each `[worker.NAME]` in canonical form.
    pub workers: BTreeMap<Arc<str>, Digest>,
    /// A digest of each `[task.NAME]` in canonical form, and the task's worker.
    pub tasks: BTreeMap<Arc<str>, (Digest, Arc<str>)>,
    /// A digest of each key of `[worker.NAME]`, by worker name and key.
    #[serde(default)]
    pub worker_keys: BTreeMap<Arc<str>, Keys>,
    /// The same for `[task.NAME]`.
    #[serde(default)]
    pub task_keys: BTreeMap<Arc<str>, Keys>,
}

impl Sections {
    /// The sections of `config`.
    pub(crate) fn of(config: &Config) -> Self {
        let mut names = Names::default();
        let mut sections = Self::default();
        for worker in &config.workers {
            // A deadline worker's bandwidth depends on its tasks' rates too.
            let says = match worker.scheduling {
                Scheduling::Deadline { .. } => format!("{}{:?}", worker.identity, worker.scheduling),
                _ => worker.identity.clone(),
            };
            let name = names.shared(&worker.name);
            sections.workers.insert(name.clone(), Digest::of(&says));
            sections.worker_keys.insert(name, Keys::of(&worker.identity, &mut names));
        }
        for TaskConfig { name, worker, identity, .. } in &config.tasks {
            let name: Arc<str> = name.as_str().into();
            let worker = names.shared(&config.workers[*worker].name);
            sections.tasks.insert(name.clone(), (Digest::of(identity), worker));
            sections.task_keys.insert(name, Keys::of(identity, &mut names));
        }
        sections
    }
}

impl Sections {
    /// Whether this task's section is the same in both, except perhaps for its worker. Such a task restarts only because of its worker.
    pub(crate) fn differ_in_worker_at_most(&self, other: &Self, task: &str) -> bool {
        let keys = self.task_keys.get(task).zip(other.task_keys.get(task));
        keys.is_some_and(|(own, others)| own.differing(others).into_iter().all(|key| key == "worker"))
    }
}

/// What happens to a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is untouched.
    Kept,
    /// It restarts.
    Restarted,
    /// It is new.
    Added,
    /// It ends.
    Removed,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kept => "is unchanged",
            Self::Restarted => "restarts",
            Self::Added => "is added",
            Self::Removed => "is removed",
        })
    }
}

/// What a reload would do to each worker and task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    /// By name.
    pub workers: BTreeMap<Arc<str>, Change>,
    /// By name.
    pub tasks: BTreeMap<Arc<str>, Change>,
}

impl Diff {
    /// What changes from `old` to `new`.
    pub(crate) fn between(old: &Sections, new: &Sections) -> Self {
        let workers = compare(&old.workers, &new.workers, |_| true);
        let kept_worker = |worker: &Arc<str>| workers.get(worker) == Some(&Change::Kept);
        let tasks = compare(&old.tasks, &new.tasks, |(_, worker)| kept_worker(worker));
        Self { workers, tasks }
    }

    /// The number of tasks with this change.
    pub(crate) fn count(&self, change: Change) -> usize {
        self.tasks.values().filter(|of| **of == change).count()
    }
}

fn compare<T: PartialEq>(
    old: &BTreeMap<Arc<str>, T>,
    new: &BTreeMap<Arc<str>, T>,
    may_stay: impl Fn(&T) -> bool,
) -> BTreeMap<Arc<str>, Change> {
    let fate = |name: &Arc<str>| match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) if old == new && may_stay(new) => Change::Kept,
        (Some(_), Some(_)) => Change::Restarted,
        (Some(_), None) => Change::Removed,
        _ => Change::Added,
    };
    old.keys().chain(new.keys()).map(|name| (name.clone(), fate(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(workers: &[(&str, &str)], tasks: &[(&str, &str, &str)]) -> Sections {
        Sections {
            workers: workers.iter().map(|(name, text)| ((*name).into(), Digest::of(text))).collect(),
            tasks: tasks
                .iter()
                .map(|(name, text, worker)| ((*name).into(), (Digest::of(text), (*worker).into())))
                .collect(),
            ..Sections::default()
        }
    }

    #[test]
    fn a_task_goes_on_if_it_and_its_worker_are_unchanged() {
        let old = sections(
            &[("a", "1"), ("b", "1"), ("c", "1")],
            &[("on-a", "x", "a"), ("edited", "x", "a"), ("on-b", "x", "b"), ("moved", "x", "a"), ("gone", "x", "c")],
        );
        let new = sections(
            &[("a", "1"), ("b", "2"), ("d", "1")],
            &[("on-a", "x", "a"), ("edited", "y", "a"), ("on-b", "x", "b"), ("moved", "x", "b"), ("new", "x", "d")],
        );
        let diff = Diff::between(&old, &new);
        let change = |name: &str| diff.tasks[name];
        assert_eq!(change("on-a"), Change::Kept);
        for restarted in ["edited", "on-b", "moved"] {
            assert_eq!(change(restarted), Change::Restarted, "{restarted}");
        }
        assert_eq!((change("gone"), change("new")), (Change::Removed, Change::Added));
        assert_eq!(
            diff.workers.values().copied().collect::<Vec<_>>(),
            [Change::Kept, Change::Restarted, Change::Removed, Change::Added]
        );
        assert_eq!(diff.count(Change::Restarted), 3);
    }
}
