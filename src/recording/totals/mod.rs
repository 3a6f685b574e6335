//! Sums up the ticks of a recording for a report: counts, causes, histograms, and the worst ticks.
//!
//! Reading blocks on the file; everything else is pure. The number of [`Bin`]s kept is bounded, no matter how long the file is.

mod read;
mod sum;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use read::{Part, Summed, WorstSecond, sum_up};
pub(crate) use sum::{TaskTotals, Totals};
pub(crate) use tally::{Bin, Miss};
