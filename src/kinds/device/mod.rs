//! What the kinds that use a device share: a device that comes and goes, who may open it, and one that gives nothing.

pub(crate) mod access;

mod reconnecting;

mod reopen;

mod stalled;

pub(crate) use reconnecting::{IN_USE, Missing, Reconnecting, is_gone, is_handed_over};
pub(super) use stalled::Silence;
