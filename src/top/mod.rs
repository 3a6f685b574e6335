//! The live view of a running daemon, `hertzd top`: snapshots and keys in, lines of text out. Pure.
//!
//! No clock is read, nothing waits and nothing is written: `now` is an argument, the terminal belongs to the command line. What the
//! snapshots lack is worked out between two of them ([`history`]): the rate that was reached, the lateness of the last ten
//! seconds, and what a task takes of a CPU.

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
