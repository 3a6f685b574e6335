//! The log: events as they happen, as text, JSON lines or journal entries.
//!
//! Events go through `tracing`: [`LogOutput`] emits them, [`JsonLayer`] and [`journal`] write them, and [`Message`] lists their kinds.
//! Nothing here runs on a hot thread; it may allocate and lock. Code that logs waits neither for the journal nor for stderr.

mod advice;
mod entry;
mod events;
pub(crate) mod journal;
mod json;
pub(crate) mod lines;
mod message;
mod missed;
mod ready;

#[cfg(test)]
pub(crate) use advice::Advice;
pub(crate) use advice::advice;
pub(crate) use entry::Entry;
pub(crate) use events::{LATE_CHAIN, LogOutput};
pub(crate) use json::JsonLayer;
pub(crate) use message::Message;
pub(crate) use missed::outcome;
pub(crate) use ready::make_ready;

use crate::metrics::Event;
use crate::time::Span;

/// Call before the process ends: waits up to a second for the journal to accept its waiting entries, and up to `within` for stderr's
/// waiting lines.
pub(crate) fn finish(within: Span) {
    journal::finish();
    lines::settle(within);
}

/// Panics of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PanicEvent<'a> {
    /// Name of the task.
    pub task: &'a str,
    /// Name of its worker.
    pub worker: &'a str,
    /// Index of the most recent tick that panicked.
    pub n: u64,
    /// The panic's message and source location.
    pub text: &'a str,
    /// How many panics this stands for.
    pub count: u64,
    /// The task has been disabled.
    pub ended: bool,
}

/// Receives events as they happen.
///
/// An implementation may be slow, but must return: until then nothing drains the records.
pub(crate) trait Output: Send {
    /// Reports an event.
    fn event(&mut self, event: &Event<'_>);

    /// Reports panics of a task.
    fn panicked(&mut self, panic: &PanicEvent<'_>);

    /// `dropped` records of `worker` were dropped since the last call, for lack of room.
    fn dropped(&mut self, worker: &str, dropped: u64);
}
