//! Finds out what a start or a reload would open, without changing anything, for `hertzd check`. May block.

use crate::channels::ValueName;
use crate::config::{Config, Preview, Problems, TaskConfig};
use crate::daemon::change::assemble::{content, not_recorded, share_recordings};
use crate::daemon::change::joints::misfits;
use crate::recording::{self, Seen};
use crate::site::Site;
use crate::task::Column;
use std::collections::BTreeMap;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Problems for which a start would be refused.
    pub(crate) problems: Option<Problems>,
    /// Conditions that may keep a task from starting.
    pub(crate) warnings: Vec<Problems>,
    /// The state in which tasks leave their devices.
    pub(crate) safe: Vec<String>,
    /// Files that have to be written again and again.
    pub(crate) fresh: Vec<String>,
    /// Tasks whose readings come from a device that may give the same one for ever.
    pub(crate) may_freeze: Vec<String>,
    /// Devices and files that a running hertzd has in use.
    pub(crate) taken: Vec<String>,
    /// Questions that only a start can answer.
    pub(crate) unknown: Vec<String>,
    /// The values of each task whose values are known.
    pub(crate) columns: BTreeMap<String, Vec<Column>>,
}

impl Looked {
    fn refuse(&mut self, problems: Problems) {
        self.problems = Some(match self.problems.take() {
            Some(others) => others.and(problems),
            None => problems,
        });
    }
}

/// Examines the tasks of `config` whose names `begins` selects. The others run already, and keep what they have. Recordings of the process
/// `daemon` will be handed to the tasks that begin.
pub(crate) fn look(config: &mut Config, begins: impl Fn(&str) -> bool, daemon: Option<u32>) -> Looked {
    let mut looked = Looked { problems: share_recordings(&mut config.tasks), ..Looked::default() };
    // Keep all previews until every task was examined, so that what they hold stays taken. For running tasks nothing else matters: they
    // have already opened what they need.
    let (begin, run): (Vec<_>, Vec<_>) = config.tasks.iter_mut().partition(|task| begins(&task.name));
    let (mut previews, mut site) = (Vec::new(), Site::default());
    for task in run {
        if let Some(Ok(preview)) = task.blueprint.look(&mut site) {
            looked.columns.extend(preview.columns.clone().map(|columns| (task.name.clone(), columns)));
            previews.push(preview);
        }
    }
    for task in begin {
        let found = look_at(task, &mut site, daemon).unwrap_or_else(|problems| {
            looked.refuse(problems);
            Preview::default()
        });
        let of_task = |text: &String| format!("task {}: {text}", task.name);
        let warning = |text: &String| Problems::at(&task.section, "", text);
        looked.warnings.extend(found.warnings.iter().map(warning));
        looked.safe.extend(found.safe.iter().map(of_task));
        looked.fresh.extend(found.fresh.iter().map(of_task));
        looked.may_freeze.extend(found.may_freeze.then(|| task.name.clone()));
        looked.taken.extend(found.taken.iter().map(of_task));
        looked.unknown.extend(found.unknown.iter().map(of_task));
        looked.columns.extend(found.columns.clone().map(|columns| (task.name.clone(), columns)));
        previews.push(found);
    }
    let names = |columns: &Vec<Column>| columns.iter().map(|column| column.name.clone()).collect();
    let names: BTreeMap<&str, Vec<String>> =
        looked.columns.iter().map(|(task, columns)| (task.as_str(), names(columns))).collect();
    let misfits = misfits(config, |task| names.get(task).map(Vec::as_slice));
    let unknown = |task: &TaskConfig| {
        let taken = task.taken.iter().map(|(taken, _)| taken.name());
        let unknown = taken.filter(|name| !names.contains_key(name.task.as_str()));
        let whether =
            |name: &ValueName| format!("task {}: whether {} has the value {:?}", task.name, name.task, name.value);
        unknown.map(whether).collect::<Vec<_>>()
    };
    let unknown: Vec<_> = config.tasks.iter().flat_map(unknown).collect();
    looked.unknown.extend(unknown);
    if let Some(problems) = misfits {
        looked.refuse(problems);
    }
    looked
}

fn look_at(task: &mut TaskConfig, site: &mut Site, daemon: Option<u32>) -> Result<Preview, Problems> {
    let mut preview = match task.blueprint.look(site) {
        Some(Ok(preview)) => preview,
        Some(Err(error)) => return Err(Problems::at(&task.section, error.key, error.message)),
        None => {
            let unknown = vec![format!("whether its kind, {}, can open what it needs", task.kind)];
            Preview { unknown, ..Preview::default() }
        }
    };
    let columns = preview.columns.clone();
    let content = columns.map(|columns| content(task, columns, preview.stream.as_ref())).transpose()?;
    let Some(record) = &task.record else { return Ok(preview) };
    match recording::look(record, content.as_ref()) {
        Ok(Seen::Free) => {}
        Ok(Seen::Taken(holder)) if daemon.is_none_or(|daemon| daemon == holder.pid) => {
            preview.taken.push(format!("{} is in use by {holder}", record.path.display()));
        }
        Ok(Seen::Taken(holder)) => return Err(not_recorded(task, record, &recording::in_use(Some(&holder)))),
        Ok(Seen::Hidden(why)) => preview.warnings.push(why),
        Err(error) => return Err(not_recorded(task, record, &error)),
    }
    Ok(preview)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Blueprint, Facts, Kind, Kinds, Section};
    use crate::kinds::device::{Missing, Sight, preview};
    use crate::site::{DeviceId, Label};

    /// Tasks of kind `toy` all want one device; those of kind `own` do not say what they open.
    fn kinds() -> Kinds {
        let build = |_: &mut Site| unreachable!("a look builds nothing");
        let toy = move |section: &mut Section<'_>| {
            let label = Label::new("toy", section.name());
            let sight = || Sight::of("kind", vec![DeviceId::Named("toy of this test".into())]);
            Some(Blueprint::new(build).looking(move |site| Ok(preview(site, &label, Missing::Refuse, Ok(sight()))?)))
        };
        let own = move |_: &mut Section<'_>| Some(Blueprint::new(build));
        Kinds::empty().add(Kind::new("toy", "", &[], toy)).add(Kind::new("own", "", &[], own))
    }

    fn looked(tasks: &[(&str, &str)], begins: impl Fn(&str) -> bool) -> Looked {
        let text: String =
            tasks.iter().map(|(name, kind)| format!("[task.{name}]\nkind = \"{kind}\"\nrate = 1\n")).collect();
        let facts = Facts { online_cpus: vec![0], cpu_set_size: 8 };
        look(&mut Config::parse(&text, "test.toml", &kinds(), &facts).unwrap(), begins, None)
    }

    #[test]
    fn a_device_of_a_task_that_runs_or_comes_first_is_taken() {
        let refused = |tasks: &[_], begins: &dyn Fn(&str) -> bool| {
            let problems = looked(tasks, begins).problems;
            problems.map(|problems| problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>())
        };
        let by_a = "task.b: kind = \"toy\"; toy is in use by task a; only one task at a time can have it";
        assert_eq!(refused(&[("a", "toy"), ("b", "toy")], &|_| true), Some(vec![by_a.to_owned()]));
        assert_eq!(refused(&[("b", "toy"), ("a", "toy")], &|task| task == "b"), Some(vec![by_a.to_owned()]));
        assert_eq!(refused(&[("a", "toy"), ("b", "own")], &|_| true), None);
        // A task that ends hands the device over: it is no longer in the configuration.
        assert_eq!(refused(&[("b", "toy")], &|task| task == "b"), None);
    }

    #[test]
    fn what_a_kind_does_not_say_is_left_to_the_start() {
        let unknown = looked(&[("a", "own")], |_| true).unknown;
        assert_eq!(unknown, ["task a: whether its kind, own, can open what it needs"]);
        assert!(looked(&[("a", "own")], |_| false).unknown.is_empty());
    }
}
