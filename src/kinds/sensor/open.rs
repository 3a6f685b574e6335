//! From settings to a task. May block and allocate; for cool threads.

use super::buffered::Buffered;
use super::polled::Polled;
use super::settings::{SensorSettings, Source};
use crate::config::{BuildError, Preview};
use crate::kinds::device::Label;
use crate::task::Task;
use std::path::Path;

const ROOTS: [&str; 2] = ["/sys", "/dev"];

/// Opens a sensor and reads it once. `task` names its task in the log.
pub(crate) fn open(settings: SensorSettings, task: &str) -> Result<Box<dyn Task>, BuildError> {
    open_under(settings, task, ROOTS.map(Path::new))
}

/// What [`open`] would find; nothing is changed.
pub(crate) fn look(settings: SensorSettings, task: &str) -> Result<Preview, BuildError> {
    look_under(settings, task, ROOTS.map(Path::new))
}

pub(super) fn look_under(settings: SensorSettings, task: &str, roots: [&Path; 2]) -> Result<Preview, BuildError> {
    let label = Label::new(settings.device(), task);
    match settings.source {
        Source::Buffer(wanted, buffer) => Buffered::look(&wanted, buffer, settings.missing, roots, &label),
        _ => Polled::look(settings, roots[0], &label),
    }
}

/// The same, with other folders than `/sys` and `/dev`.
pub fn open_under(settings: SensorSettings, task: &str, roots: [&Path; 2]) -> Result<Box<dyn Task>, BuildError> {
    let label = Label::new(settings.device(), task);
    Ok(match settings.source {
        Source::Buffer(wanted, buffer) => Box::new(Buffered::open(wanted, buffer, settings.missing, roots, label)?),
        _ => Box::new(Polled::open(settings, roots[0], label)?),
    })
}
