//! From settings to a task. May block and allocate; for cool threads.

use super::buffered::Buffered;
use super::polled::Polled;
use super::settings::{SensorSettings, Source};
use crate::config::{BuildError, Preview};
use crate::site::{Built, Label, Site};
use std::path::Path;

const ROOTS: [&str; 2] = ["/sys", "/dev"];

/// Opens a sensor and reads it once. `task` names its task in the log.
pub(crate) fn open(site: &Site, settings: SensorSettings, task: &str) -> Result<Built, BuildError> {
    open_under(site, settings, task, ROOTS.map(Path::new))
}

/// What [`open`] would find; nothing is changed.
pub(crate) fn look(site: &Site, settings: SensorSettings, task: &str) -> Result<Preview, BuildError> {
    look_under(site, settings, task, ROOTS.map(Path::new))
}

pub(super) fn look_under(
    site: &Site,
    settings: SensorSettings,
    task: &str,
    roots: [&Path; 2],
) -> Result<Preview, BuildError> {
    let label = Label::new(settings.device(), task);
    match settings.source {
        Source::Buffer(wanted, buffer) => Buffered::look(site, &wanted, buffer, settings.missing, roots, &label),
        _ => Polled::look(site, settings, roots[0], &label),
    }
}

/// The same, with other folders than `/sys` and `/dev`.
pub fn open_under(site: &Site, settings: SensorSettings, task: &str, roots: [&Path; 2]) -> Result<Built, BuildError> {
    let label = Label::new(settings.device(), task);
    Ok(match settings.source {
        Source::Buffer(wanted, buffer) => Buffered::open(site, wanted, buffer, settings.missing, roots, label)?.into(),
        _ => Polled::open(site, settings, roots[0], label)?.into(),
    })
}
