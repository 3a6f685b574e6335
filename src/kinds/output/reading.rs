//! A target that is read back, as others than its output see it.

use crate::time::Span;
use std::fmt::Debug;

/// What came of reading a target back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// It was written meanwhile, or it is not known what was written last: nothing can be said.
    Unsettled,
    /// It holds what was written last, this raw number.
    Agrees(f64),
    /// It holds this in place of the raw number that was written last.
    Differs { written: f64, read: String },
    /// What decides whether its value has any effect is not as hertzd has set it.
    NotInForce(Lapse),
    /// It could not be read, and why.
    Unreadable(String),
}

/// A file beside a target that is not as hertzd has set it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lapse {
    pub(crate) file: String,
    /// The raw number that hertzd gave it.
    pub(crate) set: f64,
    pub(crate) read: String,
    /// Who may have changed it, and what helps: in a clause.
    pub(crate) advice: String,
}

/// Reads a target back. For cool threads.
pub(crate) trait ReadBack: Debug + Send + Sync {
    /// How often that is to be done.
    fn every(&self) -> Span;

    /// What messages call the target.
    fn shown(&self) -> String;

    /// Reads and compares. May block for as long as the target's driver takes.
    fn read(&self) -> Reading;
}
