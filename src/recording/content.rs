//! What is recorded of a task. Pure.

use crate::channels::{Format, Quality, Row};
use crate::config::RecordFormat;
use crate::metrics::Cause;
use crate::task::Column;
use crate::time::{Instant, Span};

/// What a task provides for recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub task: String,
    pub columns: Vec<Column>,   // its values
    pub raw: bool,              // the numbers of bad values are recorded too
    pub valid: Vec<[f64; 2]>,   // the range of each value; empty: any number
    pub format: Option<Format>, // the content of its blocks, if it has any
}

impl Content {
    /// The values of each row in a recording.
    pub(crate) fn recorded(&self) -> Vec<Column> {
        let raw = |column: &Column| Column { name: format!("{} raw", column.name), unit: column.unit.clone() };
        let raw = self.columns.iter().filter(|_| self.raw).map(raw);
        self.columns.iter().cloned().chain(raw).collect()
    }

    /// Whether a recording in this format includes the values of each tick.
    pub(crate) fn has_rows_for(&self, recording: RecordFormat) -> bool {
        match recording {
            RecordFormat::Csv => !matches!(self.format, Some(Format::Samples(_))),
            RecordFormat::Wav => false,
            RecordFormat::Mcap => !self.columns.is_empty(),
        }
    }
}

/// The values of a tick, as they are recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedRow<'a> {
    /// The row. Values that must not be used are `NaN`.
    pub row: Row<'a>,
    /// What each value is worth; empty: all are good.
    pub qualities: &'a [Quality],
}

/// One tick, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedTick {
    pub task: u32,
    pub n: u64,                    // index of the tick
    pub release: Instant,          // when it was meant to start, on the worker's clock
    pub lateness: Span,            // started − release
    pub response: Span,            // finished − release
    pub skipped: u64,              // releases given up before it and after it
    pub woke: Span,                // when the worker's last sleep ended, relative to the release
    pub oversleep: Option<Span>,   // how late that sleep ended, if this is the first tick after it
    pub missed: Option<Box<Whys>>, // what was missed in the tick; `None`: nothing
}

#[cfg(feature = "mcap")]
impl RecordedTick {
    /// Why the tick ended after its deadline; `None` if it did not.
    pub(crate) fn overrun(&self) -> Option<&Why> {
        self.missed.as_ref()?.overrun.as_ref()
    }
}

/// What was missed in a tick, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whys {
    /// The releases given up before the tick.
    pub before: Option<Why>,
    /// The tick itself, if it ended after its deadline.
    pub overrun: Option<Why>,
    /// The releases given up when the tick had finished.
    pub after: Option<Why>,
}

#[cfg(feature = "mcap")]
impl Whys {
    /// All of them, in the order of the releases.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Why> {
        [&self.before, &self.overrun, &self.after].into_iter().flatten()
    }

    /// How many releases were missed.
    pub(crate) fn count(&self) -> u64 {
        self.iter().map(|why| why.count).sum()
    }
}

/// Why releases were missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    /// `None` if it was not recorded.
    pub cause: Option<Cause>,
    /// The culprit, if known.
    pub by: Option<Box<str>>,
    /// How many releases it covers; at least 1.
    pub count: u64,
}
