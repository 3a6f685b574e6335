//! What the ticks of a recording add up to, for a report: counts, causes, histograms, and the worst of them.
//!
//! Reading blocks on the file; all else is pure. Of a file of any length a reader keeps a bounded number of [`Bin`]s.

mod read;
mod sum;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use read::{Part, Summed, WorstSecond, sum_up};
pub(crate) use sum::{TaskTotals, Totals};
pub(crate) use tally::{Bin, Miss};
