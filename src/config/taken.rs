//! What a task reads from other tasks, and when its own values are bad. Plain values.

use super::key::Key;
use crate::channels::{Input, InputSource, ValueName};
use std::ops::Range;

/// A value that a task reads from another task.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The key that names it.
    pub key: &'static str,
    /// Where the task reads it.
    pub input: Input,
    /// Where the task reads a second value of the same producer, if there is one.
    pub(crate) beside: Option<Input>,
    pub(super) span: Range<usize>, // of the value's text in the file
}

impl Taken {
    /// The name of the value.
    pub(crate) fn name(&self) -> &ValueName {
        name_in(&self.input)
    }
}

/// The name of the value that a taken input refers to.
pub(super) fn name_in(input: &Input) -> &ValueName {
    let InputSource::Value(name) = input.source() else { unreachable!("a number is taken from no task") };
    name
}

/// The range outside which a task's values are bad.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Valid {
    /// Any finite number is good.
    #[default]
    Any,
    /// All values share this range.
    All([f64; 2]),
    /// Only these values have a range, by name.
    Named(Vec<(String, [f64; 2])>),
}

/// Other tasks that a section names. All of them must be actuators.
pub(super) struct Fellows {
    pub(super) key: Key,
    pub(super) names: Option<Vec<String>>, // `None`: all actuators there are
}
