//! Readback of a target, as others than its output see it.

use crate::time::Span;
use std::fmt::Debug;

/// The result of reading a target back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// The target was written meanwhile, or the last write is unknown: no conclusion.
    Unsettled,
    /// The target holds the raw number written last. `None`: only its settings were checked, and they are as they were set.
    Agrees(Option<f64>),
    /// The target is a fan given back to its chip, which sets the value itself: the reading proves nothing.
    GivenBack,
    /// It holds `read` in place of the raw number written last.
    Differs { written: f64, read: String },
    /// A setting that decides whether the value has any effect is not as hertzd set it.
    NotInForce(Lapse),
    /// It could not be read, for this reason.
    Unreadable(String),
}

/// A file beside a target that is not as hertzd set it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lapse {
    pub(crate) file: String,
    /// What hertzd wrote there, or found at the start and relies on.
    pub(crate) set: String,
    /// The same, if it is a number.
    pub(crate) number: Option<f64>,
    pub(crate) read: String,
    /// The consequence, as a clause.
    pub(crate) effect: String,
    /// Who may have changed it, and the remedy, as a clause.
    pub(crate) advice: String,
}

/// Reads a target back. For cool threads.
pub(crate) trait ReadBack: Debug + Send + Sync {
    /// How often to read.
    fn every(&self) -> Span;

    /// The target's name in messages.
    fn shown(&self) -> String;

    /// Reads and compares. May block for as long as the target's driver takes.
    fn read(&self) -> Reading;
}
