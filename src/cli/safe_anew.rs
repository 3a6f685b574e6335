//! `hertzd safe CONFIG`: writes the safe values of the outputs that a configuration names, where no daemon has left a plan of them.

use super::{App, Source, Stop, print};
use crate::config::{Problems, TaskConfig};
use crate::kinds::output;
use std::fmt::Write as _;

/// What became of one output.
enum Became {
    /// Its safe value was written, or would be; or it is to be left alone.
    Well(String),
    /// It does not have its safe value.
    Failed(String),
    /// Another process has its target.
    Held(String),
}

/// Writes them, one after the other; a failure keeps none of the others from it.
pub(super) fn safe(app: &App, source: &Source, dry_run: bool) -> Result<(), Stop> {
    let config = app.load(source).map_err(|problems: Problems| problems.ending_in("nothing was written"))?;
    let (mut text, mut failed, mut held) = (String::new(), Vec::new(), Vec::new());
    for mut task in config.tasks.into_iter().filter(|task| task.kind == "output") {
        let task_name = task.name.clone();
        match make(&mut task, dry_run) {
            // Writing to a String does not fail.
            Became::Well(line) => _ = writeln!(text, "{task_name}: {line}"),
            Became::Failed(why) => failed.push(format!("{task_name}: {why}")),
            Became::Held(by) => held.push(format!("{task_name}: {by}")),
        }
    }
    if text.is_empty() && failed.is_empty() && held.is_empty() {
        text = format!("{source} has no outputs: nothing to do\n");
    }
    print(&text)?;
    match (&failed[..], &held[..]) {
        ([], []) => Ok(()),
        ([], held) => Err(Stop::Permission(format!(
            "nothing was written where another process has the output, and writes its safe value itself when it is stopped: {}",
            held.join("; ")
        ))),
        (failed, held) => {
            let all = failed.iter().chain(held).map(String::as_str).collect::<Vec<_>>().join("; ");
            Err(Stop::Unwell(format!("not every output has its safe value: {all}")))
        }
    }
}

/// Opens an output, and writes its safe value.
fn make(task: &mut TaskConfig, dry_run: bool) -> Became {
    let refused = |error: crate::config::BuildError| Became::Failed(format!("{}: {}", error.key, error.message));
    let safe = match task.blueprint.look() {
        Some(Ok(preview)) => match (preview.taken.first(), preview.safe.into_iter().next()) {
            (Some(taken), _) => return Became::Held(taken.clone()),
            (None, safe) => safe.unwrap_or_default(),
        },
        Some(Err(error)) => return refused(error),
        None => return Became::Failed("there is nothing to look at".into()),
    };
    if safe.starts_with("\"restore\"") {
        let why = "safe = \"restore\": what it held before is known only to the plan of the daemon that had it; it is left alone";
        return Became::Failed(why.into());
    }
    if safe.starts_with("\"hold\"") {
        return Became::Well("left alone: safe = \"hold\"".into());
    }
    if dry_run {
        return Became::Well(format!("would be made safe by {safe}"));
    }
    output::opened();
    let opened = match task.blueprint.build() {
        Ok(opened) => opened,
        Err(error) => return refused(error),
    };
    let guards: Vec<_> = output::opened().iter().filter_map(std::sync::Weak::upgrade).collect();
    let mut became = Became::Failed("it cannot be made safe by another than its task".into());
    for guard in &guards {
        became = match guard.trip() {
            Ok(()) => Became::Well(format!("wrote {}", guard.says())),
            Err(error) => Became::Failed(format!("{}: {error}", guard.says())),
        };
    }
    drop(opened);
    became
}
