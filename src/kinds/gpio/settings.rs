//! The settings of a `gpio` task. Plain data.

use crate::time::Span;
use gpiocdev::line::{Bias, EdgeDetection};
use std::fmt;

/// A line as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kinds) enum LineId {
    Offset(u32), // on the chip
    Name(String),
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => offset.fmt(f),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// The lines, and how to request them.
#[derive(Clone, Debug)]
pub(super) struct GpioSettings {
    pub(super) chip: Option<String>, // node, name or label of the chip; `None`: the one that has lines of these names
    pub(super) lines: Vec<LineId>,   // 1 to 64
    pub(super) edges: Option<EdgeDetection>,
    pub(super) bias: Option<Bias>,
    pub(super) active_low: bool,
    pub(super) debounce: Option<Span>,
    pub(super) room: u32, // edges that the kernel holds between two ticks
}
