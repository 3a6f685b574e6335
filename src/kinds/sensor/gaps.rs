//! Finds missing samples from the timestamps of the others. Arithmetic only.
//!
//! A full buffer drops samples silently, so only timestamps reveal it. A late sample has a long step before it and a short one after it; a
//! long step without a short one is a gap:
//!
//! ```text
//! samples  |    |    |        ||    |    |         |    |
//! steps    1    1    1.8     .2   1    1    2      1            in periods
//! missing                                   1
//! ```

/// Counts missing samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    last: Option<i64>,
    over: f64, // excess of the last step in periods, until the next one is known
}

impl Gaps {
    /// How many more samples are known to be missing now that a sample has arrived. `at` is its time; `at` and `period` are in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^53 ns, or it does not matter by how much")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least zero, and saturating")]
    pub(super) fn missing_before(&mut self, at: i64, period: f64) -> u64 {
        let Some(last) = self.last.replace(at) else {
            return 0;
        };
        let beyond = at.saturating_sub(last) as f64 / period - 1.0;
        let made_good = if self.over > 0.0 && beyond < 0.0 { beyond } else { 0.0 };
        let missing = (self.over + made_good).round().max(0.0);
        self.over = if beyond >= 0.5 { beyond } else { 0.0 };
        missing as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(times: &[i64]) -> u64 {
        let mut gaps = Gaps::default();
        times.iter().map(|&at| gaps.missing_before(at, 100.0)).sum()
    }

    #[test]
    fn holes_are_counted_and_late_samples_are_not() {
        for (times, wanted) in [
            (&[][..], 0),
            (&[7_000], 0),
            (&[0, 100, 200, 300], 0),
            (&[0, 105, 211, 316, 421], 0), // the device's clock is not ours
            (&[0, 100, 280, 300, 400], 0),
            (&[0, 100, 300, 400], 1),
            (&[0, 100, 330, 400, 500], 1),
            (&[0, 100, 1_200, 1_300], 10),
            (&[0, 200, 400, 500], 2),
            (&[0, 100, 300], 0), // not known yet
            (&[0, 100, 50, 150], 0),
            (&[0, 1, 2, 3], 0),
        ] {
            assert_eq!(missing(times), wanted, "{times:?}");
        }
    }
}
