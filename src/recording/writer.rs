//! What every format of recording does: the contract between the recorder and CSV, WAV and MCAP.

use super::content::{Content, RecordedTick};
use super::file::Moment;
use super::ledger::WriteCounts;
use crate::channels::{Block, Row};
use crate::config::RecordConfig;
use std::fmt::Debug;
use std::io;

/// Writes a recording in one format. Tasks are identified by their numbers.
///
/// An implementation must count everything that is put in once, as written or as lost, and must keep the file valid at
/// every moment. It may block on the disk.
pub(super) trait Writer: Debug + Send {
    /// Adds a task, before anything of it is put in. These limits hold from now on.
    fn join(&mut self, id: u32, content: &Content, limits: &RecordConfig);

    /// Nothing more of the task will be put in.
    fn leave(&mut self, id: u32) {
        let _ = id;
    }

    /// Must be called before anything is put in.
    fn begin(&mut self, at: Moment);

    /// Puts in the values of a tick, released at `utc`.
    fn row(&mut self, id: u32, row: &Row<'_>, utc: i128);

    /// Puts in a block. `to_utc` is what to add to the monotonic clock.
    fn block(&mut self, id: u32, block: &Block<'_>, to_utc: i128);

    /// Puts in a tick, released at `utc`.
    fn tick(&mut self, tick: &RecordedTick, utc: i128) {
        let _ = (tick, utc);
    }

    /// Writes what was put in; true: something was written. Returns what has failed since the last call.
    fn flush(&mut self) -> io::Result<bool>;

    /// Other recordings continue when this one is finished: only for a moment is its disk waited for then.
    fn hurry(&mut self);

    /// Flushes, writes what belongs at the end of the file, and closes it. `begin` opens it again.
    fn finish(&mut self) -> io::Result<()>;

    /// What was written of a task and what was lost.
    fn counts(&self, id: u32) -> WriteCounts;
}
