//! The log: events as they happen, as text, JSON lines or journal entries.
//!
//! Events go through `tracing`: [`LogOutput`] emits them, [`JsonLayer`] and [`journal`] write them, and [`Message`] lists their
//! kinds. Nothing here runs on a hot thread; it may allocate, and lock. Whoever logs waits neither for the journal nor for stderr.

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

/// Call before the process ends: waits up to a second for the journal to take what waits for it, or for this long until stderr has.
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
    /// Index of the latest tick that panicked.
    pub n: u64,
    /// Its message and where in the source it happened.
    pub text: &'a str,
    /// How many panics this stands for.
    pub count: u64,
    /// The task has been disabled.
    pub ended: bool,
}

/// Takes events as they happen.
///
/// An implementation may be slow, but must return: until then nothing drains the records.
pub(crate) trait Output: Send {
    /// Reports an event.
    fn event(&mut self, event: &Event<'_>);

    /// A task panicked.
    fn panicked(&mut self, panic: &PanicEvent<'_>);

    /// `dropped` records of `worker` have found no room since the last call.
    fn dropped(&mut self, worker: &str, dropped: u64);
}
