//! What a task takes from others, and when what it gives is bad. Plain values.

use super::key::Key;
use crate::channels::{Input, InputSource, ValueName};
use std::ops::Range;

/// A value that a task takes from another one.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The key that names it.
    pub key: &'static str,
    /// Where that task reads it.
    pub input: Input,
    /// Where it reads another value of the same task, if that has one.
    pub(crate) beside: Option<Input>,
    pub(super) span: Range<usize>, // of what is written
}

impl Taken {
    /// The value that is taken.
    pub(crate) fn name(&self) -> &ValueName {
        name_in(&self.input)
    }
}

/// The value that an input which was taken names.
pub(super) fn name_in(input: &Input) -> &ValueName {
    let InputSource::Value(name) = input.source() else { unreachable!("a number is taken from no task") };
    name
}

/// The range outside which a task's values are bad.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Valid {
    /// Any number is good.
    #[default]
    Any,
    /// All values have this one.
    All([f64; 2]),
    /// Those of this name have one.
    Named(Vec<(String, [f64; 2])>),
}

/// Other tasks that a section names; all of them have to act.
pub(super) struct Fellows {
    pub(super) key: Key,
    pub(super) names: Option<Vec<String>>, // `None`: all that there are
}
