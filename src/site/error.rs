//! Why a task could not be built. Plain values.

use std::fmt;

/// Why a task could not be built. Reported at `key` in the task's section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The key of the section that caused it.
    pub key: &'static str,
    /// What was attempted, on what, the system's reason, the remedy.
    pub message: String,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for BuildError {}
