//! From settings to a task. May block and allocate; for cool threads.

use super::buffered::Buffered;
use super::polled::Polled;
use super::settings::{SensorSettings, Source};
use crate::config::BuildError;
use crate::kinds::device::Label;
use crate::task::Task;
use std::path::Path;

/// Opens a sensor and reads it once. `task` names its task in the log.
pub(crate) fn open(settings: SensorSettings, task: &str) -> Result<Box<dyn Task>, BuildError> {
    open_under(settings, task, ["/sys", "/dev"].map(Path::new))
}

/// The same, with other folders than `/sys` and `/dev`.
pub fn open_under(settings: SensorSettings, task: &str, roots: [&Path; 2]) -> Result<Box<dyn Task>, BuildError> {
    let label = Label::new(settings.device(), task);
    Ok(match settings.source {
        Source::Buffer(wanted, buffer) => Box::new(Buffered::open(wanted, buffer, settings.missing, roots, label)?),
        _ => Box::new(Polled::open(settings, roots[0], label)?),
    })
}
