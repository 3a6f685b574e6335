//! From settings to a task. May block and allocate; for cool threads.

use super::buffered::Buffered;
use super::polled::Polled;
use super::settings::{SensorSettings, Source};
use crate::config::{BuildError, Preview};
use crate::site::{Built, Label, Site};

/// Opens a sensor and reads it once. `task` names its task in the log.
pub(super) fn open(site: &mut Site, settings: SensorSettings, task: &str) -> Result<Built, BuildError> {
    let label = Label::new(settings.device(), task);
    Ok(match settings.source {
        Source::Buffer(wanted, buffer) => Buffered::open(site, wanted, buffer, settings.missing, label)?.into(),
        _ => Polled::open(site, settings, label)?.into(),
    })
}

/// What [`open`] would find. Changes nothing.
pub(super) fn look(site: &Site, settings: SensorSettings, task: &str) -> Result<Preview, BuildError> {
    let label = Label::new(settings.device(), task);
    match settings.source {
        Source::Buffer(wanted, buffer) => Buffered::look(site, &wanted, buffer, settings.missing, &label),
        _ => Polled::look(site, settings, &label),
    }
}
