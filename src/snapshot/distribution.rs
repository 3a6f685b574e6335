//! The numbers that summarise a histogram. Plain values.

use super::bounds::{self, AtMostPairs};
use serde::Serialize;

/// The numbers that summarise a histogram of spans, in nanoseconds.
///
/// `min`, `max`, `mean`, `sum` and `at_most` are exact, the percentiles to the digits the histogram keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// How many spans were entered.
    pub count: u64,
    /// The smallest.
    pub min: i64,
    /// Half are at most this.
    pub p50: i64,
    /// 90 % are at most this.
    pub p90: i64,
    /// 99 % are at most this.
    pub p99: i64,
    /// 99.9 % are at most this.
    pub p99_9: i64,
    /// 99.99 % are at most this.
    pub p99_99: i64,
    /// The largest.
    pub max: i64,
    /// Their mean, rounded towards zero.
    pub mean: i64,
    /// Their sum.
    #[serde(serialize_with = "bounds::serialize_sum")]
    pub sum: i128,
    /// How many were at most 1, 2 and 5 of each decade from 1 µs to 1 s.
    pub at_most: AtMostPairs,
}
