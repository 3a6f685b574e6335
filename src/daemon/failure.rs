//! Why nothing was run, or why a reload was refused.

use crate::config::Problems;
use std::fmt;
use std::io;

/// Why nothing was run, or why a reload was refused.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong, or asks for something that cannot be built.
    Config(Problems),
    /// The command-line options contradict the configuration.
    Usage(String),
    /// `require-realtime` is set, but the kernel refused it.
    Permission(String),
    /// The system refused something that hertzd cannot run without.
    System(&'static str, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(problems) => problems.fmt(f),
            Self::Usage(text) | Self::Permission(text) => f.write_str(text),
            Self::System(what, reason) => write!(f, "{what}: {reason}"),
        }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::Config(problems)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(problems) => Some(problems),
            Self::System(_, reason) => Some(reason),
            Self::Usage(_) | Self::Permission(_) => None,
        }
    }
}
