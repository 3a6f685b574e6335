//! The log: events as they happen, as text, as JSON lines, and as entries of the journal.
//!
//! Events go through `tracing`: [`LogOutput`] says them, [`JsonLayer`] and [`journal`] are two ways to write them down,
//! and [`Message`] is what kinds there are. Everything here runs on cool threads, and may block and allocate.

mod entry;

mod events;

pub(crate) mod journal;

mod json;

mod message;

pub(crate) use entry::Entry;
pub(crate) use events::LogOutput;
pub(crate) use json::JsonLayer;
pub use message::Message;

use crate::metrics::Event;

/// Takes events as they happen.
///
/// An implementation may be slow, but must come back: while it is busy nobody drains the records.
pub trait Output: Send {
    /// Tells of an event.
    fn event(&mut self, event: &Event<'_>);

    /// A task panicked at tick `n` with this message, and has been disabled.
    fn panicked(&mut self, task: &str, worker: &str, n: u64, text: &str);

    /// Records of `worker` found no room: `dropped` of them since the last time.
    fn dropped(&mut self, worker: &str, dropped: u64);
}
