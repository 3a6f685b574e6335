//! The live view of a running daemon, `hertzd top`: snapshots and keys in, lines of text out. Pure.
//!
//! No clock is read, nothing waits and nothing is written: `now` is passed in, and the terminal belongs to the command line. What a single
//! snapshot lacks is computed from two of them ([`history`]): the achieved rate, the lateness of the last ten seconds, and a task's CPU
//! usage.

mod columns;
mod detail;
mod figures;
mod frame;
mod history;
mod look;
mod state;

pub(crate) use look::Look;
pub(crate) use state::{Key, Top};

#[cfg(test)]
mod tests;
