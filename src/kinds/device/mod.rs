//! What the kinds that use a device share: a device that comes and goes, who may open it and who has it, a look at one
//! beforehand, and one that gives nothing.

pub(crate) mod access;
mod found;
mod look;
mod reconnecting;
mod reopen;
mod stalled;

pub(crate) use found::{FoundDevice, file_names, first_line, numbered, quoted, task_name};
pub(crate) use look::{Sight, hidden, preview};
#[cfg(feature = "audio")]
pub(crate) use reconnecting::is_gone;
pub(crate) use reconnecting::{First, Missing, Reconnecting};
pub(super) use stalled::Stalled;
