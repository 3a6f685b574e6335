//! The numbers that summarise a histogram, and the subset that can be added up. Plain values.

use super::bounds::{AtMost, BOUNDS};
use serde::{Deserialize, Serialize};

/// The numbers that summarise a histogram of spans, in nanoseconds.
///
/// `min`, `max`, `mean`, `sum` and `at_most` are exact. The percentiles have the number of digits that the histogram keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// How many spans were entered.
    pub count: u64,
    /// The smallest span.
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
    /// The largest span.
    pub max: i64,
    /// Their mean, rounded towards zero.
    pub mean: i64,
    /// Their sum.
    #[serde(with = "sum")]
    pub sum: i128,
    /// How many were at most 1, 2 and 5 of each decade from 1 µs to 1 s.
    pub at_most: AtMost,
}

impl Distribution {
    /// Returns the part that can be added up.
    pub(crate) fn added(&self) -> Added {
        Added { count: self.count, sum: self.sum, at_most: self.at_most.clone() }
    }
}

/// The part of a distribution that can be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Added {
    pub count: u64,
    #[serde(with = "sum")]
    pub sum: i128,
    pub at_most: AtMost,
}

impl Added {
    /// Combines each count with the other's by `number`, and the sums by `sum`.
    pub(super) fn join(&mut self, with: &Self, number: fn(u64, u64) -> u64, sum: fn(i128, i128) -> i128) {
        self.count = number(self.count, with.count);
        self.sum = sum(self.sum, with.sum);
        self.at_most = AtMost::of(BOUNDS.map(|bound| number(self.at_most.at(bound), with.at_most.at(bound))));
    }
}

/// A sum in nanoseconds: exact up to 292 years, rounded above.
mod sum {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Sum {
        Exact(i64),
        Rounded(f64),
    }

    #[expect(clippy::cast_precision_loss, reason = "more than 292 years")]
    pub(super) fn serialize<S: Serializer>(sum: &i128, to: S) -> Result<S::Ok, S::Error> {
        i64::try_from(*sum).map_or(Sum::Rounded(*sum as f64), Sum::Exact).serialize(to)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a float that is too large becomes the largest sum")]
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i128, D::Error> {
        Ok(match Sum::deserialize(from)? {
            Sum::Exact(sum) => sum.into(),
            Sum::Rounded(sum) => sum as i128,
        })
    }
}
