//! The summary, the snapshot of a running daemon, and its log for people: pure, numbers in, text out.

mod journal;
mod layout;
mod perfetto;
mod status;
mod table;

pub(crate) use journal::{Widths, entry_json, entry_line, has_cause};
pub(crate) use layout::{columns, wrap};
#[cfg(feature = "mcap")]
pub(crate) use perfetto::{Did, TimelineMiss, TimelineTask, TimelineTick, TimelineWorker, Which};
pub(crate) use perfetto::{Kernel, Timeline, draw};
pub(crate) use status::{sentence, status};
pub(crate) use table::table;
