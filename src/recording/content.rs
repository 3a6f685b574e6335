//! What is recorded of a task. Pure.

use crate::channels::Format;
use crate::config::RecordFormat;
use crate::metrics::Cause;
use crate::task::Column;
use crate::time::{Instant, Span};

/// What a task has to record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// Its name.
    pub task: String,
    /// Its values.
    pub columns: Vec<Column>,
    /// What its blocks hold, if it has any.
    pub format: Option<Format>,
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
    /// Number of the task.
    pub task: u32,
    /// Index of the tick.
    pub n: u64,
    /// When it was meant to start, on the worker's clock.
    pub release: Instant,
    /// Started − release.
    pub lateness: Span,
    /// Finished − release.
    pub response: Span,
    /// Releases given up before it and after it.
    pub skipped: u64,
    /// Why it ended after its deadline; `None`: it did not.
    pub cause: Option<Cause>,
}
