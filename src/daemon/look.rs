//! A look at what a start or a reload would open, which changes nothing: what `hertzd check` does. May block.

use super::assemble::{content, not_recorded, share_recordings};
use crate::config::{Config, Preview, Problems, TaskConfig};
use crate::recording::{self, Seen};

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// A start would be refused.
    pub(crate) problems: Option<Problems>,
    /// What may keep a task from a start, but need not.
    pub(crate) warnings: Vec<String>,
    /// What a hertzd that runs has of it.
    pub(crate) taken: Vec<String>,
    /// What only a start finds out.
    pub(crate) unknown: Vec<String>,
}

/// Looks at those tasks of `config` that `begins` chooses by name. Recordings of the process `daemon` are handed over to them.
pub(crate) fn look(config: &mut Config, begins: impl Fn(&str) -> bool, daemon: Option<u32>) -> Looked {
    let mut looked = Looked { problems: share_recordings(&mut config.tasks), ..Looked::default() };
    // What they hold is held until all have been looked at.
    let mut previews = Vec::new();
    for task in config.tasks.iter_mut().filter(|task| begins(&task.name)) {
        let found = look_at(task, daemon).unwrap_or_else(|problems| {
            looked.problems = Some(match looked.problems.take() {
                Some(others) => others.and(problems),
                None => problems,
            });
            Preview::default()
        });
        let of_task = |text: &String| format!("task {}: {text}", task.name);
        looked.warnings.extend(found.warnings.iter().map(of_task));
        looked.taken.extend(found.taken.iter().map(of_task));
        looked.unknown.extend(found.unknown.iter().map(of_task));
        previews.push(found);
    }
    looked
}

fn look_at(task: &mut TaskConfig, daemon: Option<u32>) -> Result<Preview, Problems> {
    let mut preview = match task.blueprint.look() {
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
