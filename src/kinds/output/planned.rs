//! The writes of a plan, made by a process that finds nothing open. May block.

use super::guard::PlannedWrite;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};

impl PlannedWrite {
    /// Makes it.
    ///
    /// # Errors
    /// The kernel refused it, or its path leads to another device now.
    pub(crate) fn make(&self) -> io::Result<()> {
        let Self::File { path, witness, text, cut } = self;
        if let Some((beside, wanted)) = witness {
            let found = fs::read_to_string(beside)?;
            if found.trim_end() != wanted {
                let text = format!(
                    "{} says {:?} now, and not {wanted:?}: it is another device",
                    beside.display(),
                    found.trim_end()
                );
                return Err(io::Error::other(text));
            }
        }
        OpenOptions::new().write(true).truncate(*cut).open(path)?.write_all(text.as_bytes())
    }
}

impl fmt::Display for PlannedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::File { path, text, .. } = self;
        write!(f, "{} to {}", text.trim_end(), path.display())
    }
}
