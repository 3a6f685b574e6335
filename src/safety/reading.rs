//! A target that is read back, as others than its output see it.

use crate::time::Span;
use std::fmt::Debug;

/// What came of reading a target back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// It was written meanwhile, or it is not known what was written last: nothing can be said.
    Unsettled,
    /// It holds what was written last, this raw number; or what gives it its effect is as it was set, and it is not compared itself.
    Agrees(Option<f64>),
    /// It is a fan that was given back to its chip, which sets it by itself: what it holds says nothing.
    GivenBack,
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
    /// What hertzd gave it, or found at the start and relies upon.
    pub(crate) set: String,
    /// The same, if it is a number.
    pub(crate) number: Option<f64>,
    pub(crate) read: String,
    /// What that does, in a clause.
    pub(crate) effect: String,
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
