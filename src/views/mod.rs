//! The summary for people: pure, numbers in, text out.

mod table;

pub(crate) use table::table;
