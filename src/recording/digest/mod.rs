//! What a recording keeps of its own ticks, so that a day of it is read in seconds: counts, causes, histograms, and the worst
//! of it. `docs/recordings.md` describes its form.
//!
//! ```text
//! recorder: ticks ──▶ Piece, a minute of them ──▶ attachment `hertzd.digest`, behind the chunks that it sums up
//! reader:   attachments, and the ticks of chunks behind the last one ──▶ Digest
//! ```
//!
//! Reading blocks on the file; all else is pure. Of a file of any length a reader keeps a bounded number of [`Bin`]s.

mod piece;
mod read;
mod sum;
mod tally;
#[cfg(test)]
mod tests;
mod text;

pub(super) use piece::Piece;
pub(crate) use read::{Digested, WorstSecond, digest};
pub(crate) use sum::{Digest, TaskDigest};
pub(crate) use tally::{Bin, Miss};
pub(super) use text::{Channels, NAME, write};
