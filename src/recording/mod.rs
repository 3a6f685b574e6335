//! The files that tasks are recorded to, in CSV, WAV or MCAP. A file grows until it is finished and the next one follows. It is valid at
//! every moment, and locked while it is written.
//!
//! ```text
//! Recorder ──▶ Recording ──▶ AppendFile (csv, wav) ──▶ RecordingFile ──▶ rotation
//!              (shared)      Mcap ──▶ Chunks ────────▶   └▶ Claim (lock)
//! ```
//!
//! The code that builds the tasks opens the recordings; the recorder's thread writes them. Both may block. Time is an argument.

mod append;
mod claim;
mod content;
mod csv;
mod file;
mod layout;
mod ledger;
mod lines;
mod look;
#[cfg(feature = "mcap")]
mod mcap;
#[cfg(feature = "mcap")]
mod mcap_file;
#[cfg(feature = "mcap")]
mod mcap_record;
#[cfg(feature = "mcap")]
mod message;
mod noted;
mod output;
mod own;
mod past;
mod progress;
#[cfg(feature = "mcap")]
mod read;
mod recorder;
mod recordings;
mod rotation;
mod samples;
mod storing;
#[cfg(test)]
mod tests;
#[cfg(feature = "mcap")]
mod totals;
mod wav;
mod writer;

pub(crate) use claim::{Identity, in_use};
pub(crate) use content::{Content, RecordedTick, Why, Whys};
pub(crate) use look::{Seen, look};
pub(crate) use noted::WatchedInput;
pub(crate) use output::{OutputState, PastLoss, TaskOutput};
#[cfg(any(test, feature = "mcap"))]
pub(crate) use past::PastTick;
pub(crate) use past::{Past, PastTask};
pub(crate) use progress::Progress;
#[cfg(feature = "mcap")]
pub(crate) use read::read;
pub(crate) use recorder::Recorder;
pub(crate) use recordings::Recordings;
#[cfg(feature = "mcap")]
pub(crate) use totals::{Bin, Miss, Part, Summed, TaskTotals, Totals, WorstSecond, sum_up};
