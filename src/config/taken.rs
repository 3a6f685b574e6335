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

/// What is set for a task's values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ByValue<T> {
    /// Nothing.
    #[default]
    Any,
    /// The same for all of them.
    All(T),
    /// Only for these, by name.
    Named(Vec<(String, T)>),
}

/// The range outside which a task's values are bad; without one, any finite number is good.
pub(crate) type Valid = ByValue<[f64; 2]>;

impl<T: Copy> ByValue<T> {
    /// What is set for the value of this name.
    pub(crate) fn of(&self, value: &str) -> Option<T> {
        match self {
            Self::Any => None,
            Self::All(set) => Some(*set),
            Self::Named(named) => named.iter().find(|(name, _)| name == value).map(|(_, set)| *set),
        }
    }

    /// The first name that is not among these values.
    pub(crate) fn stranger(&self, values: &[String]) -> Option<&str> {
        let Self::Named(named) = self else { return None };
        named.iter().map(|(name, _)| name.as_str()).find(|name| !values.iter().any(|value| value == name))
    }
}

/// Other tasks that a section names. All of them must be actuators.
pub(super) struct Fellows {
    pub(super) key: Key,
    pub(super) names: Option<Vec<String>>, // `None`: all actuators there are
}
