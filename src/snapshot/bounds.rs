//! The fixed bounds of every histogram. For each bound it has the exact number of spans up to that length. Such counts add up over time and
//! machines; percentiles do not.
//!
//! Pure arithmetic.

use serde::{Deserialize, Serialize};

/// The bounds in nanoseconds: 1, 2 and 5 of each decade, from 1 µs to 1 s.
pub(crate) const BOUNDS: [u64; 19] = {
    let mut bounds = [0; 19];
    let (mut index, mut decade) = (0, 1_000);
    while index < bounds.len() {
        bounds[index] = decade * [1, 2, 5][index % 3];
        index += 1;
        if index.is_multiple_of(3) {
            decade *= 10;
        }
    }
    bounds
};

/// Maps a power of two to the bound in the octave it starts; 0 if the octave has none. Each bound is at least twice the one before, so an
/// octave holds at most one.
const BY_POWER: [u64; 64] = {
    let mut by_power = [0; 64];
    let mut index = 0;
    while index < BOUNDS.len() {
        by_power[BOUNDS[index].ilog2() as usize] = BOUNDS[index];
        index += 1;
    }
    by_power
};

/// The bound in the same octave (between the same two powers of two) as `value`; 0 if there is none.
pub(crate) fn beside(value: u64) -> u64 {
    BY_POWER[value.max(1).ilog2() as usize]
}

/// How many spans were at most as long as each of [`BOUNDS`], stored compactly as pairs of a bound and its count. A bound with the same
/// count as the bound before is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtMost(Box<[(u64, u64)]>);

impl AtMost {
    /// Creates it from the count at each bound.
    pub(crate) fn of(counts: [u64; BOUNDS.len()]) -> Self {
        let mut before = 0;
        let pairs = BOUNDS.into_iter().zip(counts);
        Self(pairs.filter(|(_, count)| std::mem::replace(&mut before, *count) != *count).collect())
    }

    /// How many spans are at most as long as this bound.
    pub(crate) fn at(&self, bound: u64) -> u64 {
        let known = self.0.partition_point(|(known, _)| *known <= bound);
        known.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// The pairs.
    pub(crate) const fn pairs(&self) -> &[(u64, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_decades_and_none_shares_its_power_of_two() {
        assert_eq!(BOUNDS[..5], [1_000, 2_000, 5_000, 10_000, 20_000]);
        assert_eq!(BOUNDS[17..], [500_000_000, 1_000_000_000]);
        assert!(BOUNDS.iter().all(|bound| beside(*bound) == *bound));
        assert_eq!(BY_POWER.iter().filter(|bound| **bound > 0).count(), BOUNDS.len());
        assert_eq!([0, 1, 1_024, u64::MAX].map(beside), [0, 0, 2_000, 0]);
    }
}
