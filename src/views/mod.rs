//! The summary, and the snapshot of a running daemon, for people: pure, numbers in, text out.

mod layout;
mod status;
mod table;

pub(crate) use status::{sentence, status};
pub(crate) use table::table;
