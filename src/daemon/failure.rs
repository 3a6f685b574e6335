//! Why nothing was run, or why a reload was refused.

use crate::config::Problems;
use std::fmt;
use std::io;

/// Why nothing was run, or why a reload was refused.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong, or what it asks for cannot be built.
    Config(Problems),
    /// `require-realtime` is set, and the kernel refused.
    Permission(String),
    /// The system refused something without which nothing runs.
    System(&'static str, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(problems) => problems.fmt(f),
            Self::Permission(text) => f.write_str(text),
            Self::System(what, reason) => write!(f, "{what}: {reason}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(problems) => Some(problems),
            Self::System(_, reason) => Some(reason),
            Self::Permission(_) => None,
        }
    }
}
