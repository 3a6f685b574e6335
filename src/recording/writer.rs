//! What all recording formats have in common: the contract between the recorder and CSV, WAV and MCAP.

use super::content::RecordedRow;
use super::content::{Content, RecordedTick};
use super::file::Moment;
use super::ledger::WriteCounts;
use crate::channels::Block;
use crate::config::RecordConfig;
use std::fmt::Debug;
use std::io;

/// Writes a recording in one format. Tasks are identified by their numbers.
///
/// An implementation must count everything passed to it exactly once, as written or as lost, and must keep the file valid at every moment.
/// It may block on the disk.
pub(super) trait Writer: Debug + Send {
    /// Adds a task, before any of its data. These limits apply from now on.
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig);

    /// The task will provide no more data.
    fn leave(&mut self, id: u32) {
        let _ = id;
    }

    /// Must be called before any data is added.
    fn begin(&mut self, at: Moment);

    /// Adds the values of a tick that was released at `utc`.
    fn row(&mut self, id: u32, row: &RecordedRow<'_>, utc: i128);

    /// Adds a block. `to_utc` is what to add to the monotonic clock to get UTC.
    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128);

    /// Adds a tick that was released at `utc`.
    fn tick(&mut self, tick: &RecordedTick, utc: i128) {
        let _ = (tick, utc);
    }

    /// Writes what was added; returns true if something was written. Reports the first failure since the last call.
    fn flush(&mut self) -> io::Result<bool>;

    /// Other recordings continue when this one is finished, so it may wait for its disk only briefly then.
    fn hurry(&mut self);

    /// Flushes, writes the end of the file, and closes it. `begin` opens it again.
    fn finish(&mut self) -> io::Result<()>;

    /// What was written of a task, and what was lost.
    fn counts(&self, id: u32) -> WriteCounts;
}
