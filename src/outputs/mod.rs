//! What leaves the process: events as they happen, rows of values, the summary at the end.
//!
//! Events go through `tracing`: [`LogOutput`] says them, [`JsonLayer`] and [`journal`] are two ways to write them down,
//! and [`Message`] is what kinds there are.
//!
//! Everything here runs on cool threads, and may block and allocate; what it costs is records dropped and counted, never
//! a late tick.

mod entry;

pub mod journal;

mod json;

mod log;

mod message;

mod recorder;

mod recording;

mod table;

pub use entry::Entry;
pub use json::JsonLayer;
pub use log::LogOutput;
pub use message::Message;
pub use recorder::{Recorder, Stream, Streamed};
pub use recording::{Content, Moment, Recording, Recordings, Tally, TickLine, place};
pub use table::table;

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
