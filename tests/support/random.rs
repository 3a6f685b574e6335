//! A small random number generator.

#![allow(dead_code, reason = "each test file is a separate crate and uses a part of this")]

/// SplitMix64: the same sequence for the same seed on every machine, so that a failing seed can be reported.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..below`.
    pub(crate) fn below(&mut self, below: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(below).unwrap()).unwrap()
    }

    /// Up to `most` numbers (at least one) in `0..below`.
    pub(crate) fn some_below(&mut self, most: i64, below: i64) -> Vec<i64> {
        let count = 1 + self.below(most);
        (0..count).map(|_| self.below(below)).collect()
    }
}
