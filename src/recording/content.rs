//! What is recorded of a task. Pure.

use crate::channels::Format;
use crate::config::RecordFormat;
use crate::metrics::Cause;
use crate::task::Column;
use crate::time::{Instant, Span};

/// What a task has to record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub task: String,
    pub columns: Vec<Column>,   // its values
    pub format: Option<Format>, // what its blocks hold, if it has any
}

impl Content {
    /// Whether a recording of this format takes the blocks.
    pub(crate) fn has_blocks_for(&self, recording: RecordFormat) -> bool {
        match (recording, &self.format) {
            (_, None) => false,
            (RecordFormat::Csv, Some(format)) => matches!(format, Format::Samples(_)),
            (RecordFormat::Wav | RecordFormat::Mcap, Some(_)) => true,
        }
    }

    /// Whether a recording of this format takes the values of each tick.
    pub(crate) fn has_rows_for(&self, recording: RecordFormat) -> bool {
        match recording {
            RecordFormat::Csv => !matches!(self.format, Some(Format::Samples(_))),
            RecordFormat::Wav => false,
            RecordFormat::Mcap => !self.columns.is_empty(),
        }
    }
}

/// One tick, as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedTick {
    pub task: u32,
    pub n: u64,                  // index of the tick
    pub release: Instant,        // when it was meant to start, on the worker's clock
    pub lateness: Span,          // started − release
    pub response: Span,          // finished − release
    pub skipped: u64,            // releases given up before it and after it
    pub woke: Span,              // when the worker's latest sleep ended, relative to the release
    pub oversleep: Option<Span>, // how late that was, if this is the first tick after it
    pub cause: Option<Cause>,    // why it ended after its deadline; `None`: it did not
}
