//! The summary, the snapshot of a running daemon, and its log for people: pure, numbers in, text out.

mod journal;
mod layout;
mod status;
mod table;

pub(crate) use journal::{Widths, entry_json, entry_line, has_cause};
pub(crate) use layout::{columns, wrap};
pub(crate) use status::{sentence, status};
pub(crate) use table::table;
