//! What the kinds that use a device share: reopening a device that comes and goes, permissions and owners, previews, and detection of a
//! device that delivers nothing.

pub(crate) mod access;
mod found;
mod look;
mod reconnecting;
mod reopen;
mod stalled;

use crate::time::Span;
pub(crate) use found::{FoundDevice, IF_IT_MOVES, file_names, first_line, numbered, quoted, task_name};
pub(crate) use look::{Sight, hidden, preview};
#[cfg(any(feature = "audio", feature = "i2c"))]
pub(crate) use reconnecting::is_gone;
pub(crate) use reconnecting::{First, Missing, Reconnecting};
pub(super) use stalled::Stalled;

/// How long a device or a program may take from the start to its first value. Some devices are there only seconds after the boot, and
/// interpreters that load large libraries on small boards take 20 s.
pub(super) const FIRST_VALUE: Span = Span::from_seconds(30);
