//! Formats the summary, a running daemon's snapshot and its log for people, and the snapshot for Prometheus. Pure: numbers in, text out.

mod alarms;
#[cfg(feature = "exporter")]
mod exposition;
mod journal;
mod layout;
mod lines;
mod perfetto;
mod readbacks;
#[cfg(feature = "exporter")]
mod scrape;
mod status;
mod table;
#[cfg(feature = "exporter")]
mod totals;

#[cfg(feature = "top")]
pub(crate) use alarms::alarm_lines;
#[cfg(feature = "exporter")]
pub(crate) use exposition::Format;
pub(crate) use journal::{Widths, entry_json, entry_line, has_cause};
pub(crate) use layout::{columns, wrap};
#[cfg(feature = "top")]
pub(crate) use layout::{count, largest_first, short};
#[cfg(feature = "top")]
pub(crate) use lines::{granted, reading, state, unit};
#[cfg(feature = "mcap")]
pub(crate) use perfetto::TimelineWorker;
pub(crate) use perfetto::{Did, Kernel, Timeline, TimelineMiss, TimelineTask, TimelineTick, Which, draw};
#[cfg(feature = "exporter")]
pub(crate) use scrape::scrape;
pub(crate) use status::{sentence, status};
pub(crate) use table::table;
#[cfg(feature = "exporter")]
pub(crate) use totals::Totals;
