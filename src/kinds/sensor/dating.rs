//! Dates samples without timestamps, from the period and the time of the read. Arithmetic only.
//!
//! A sample follows the previous one by a period, and is never later than its read. If none is missing, less than a period lies between the
//! newest sample and the read:
//!
//! ```text
//! samples  |    |    |    |    .    .    |    |
//! reads              ^       ^                  ^
//! dated    1    2    3    4              5    6        4 by count; then two are missing
//! ```
//!
//! A full buffer keeps the oldest samples. Those that should have followed by the time of the read were dropped.

/// How much slower the device's clock may run than ours, as a fraction.
const DRIFT: f64 = 0.05;

/// Dates samples, all times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dating {
    last: Option<i64>, // time of the last sample
    excess: f64,       // periods by which the last read seemed to lack samples, which the next one may bring
    slack: f64,        // periods, up to 1, that a slow clock may have lost since a read last lacked samples
    dropped: u64,      // samples that the kernel dropped between the last read's samples and that read
}

/// The times of the samples of one read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dates {
    start: i64,
    step: f64,
    pub(super) missing: u64, // samples missing before the first of these
}

impl Dates {
    /// All samples at the same time.
    pub(super) fn at(now: i64) -> Self {
        Self { start: now, step: 0.0, missing: 0 }
    }

    /// The time of a sample, by its index in the read.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "reads are shorter than 2^53 ns")]
    pub(super) fn of(&self, index: usize) -> i64 {
        self.start.saturating_add((self.step * (index + 1) as f64).round() as i64)
    }
}

impl Default for Dating {
    fn default() -> Self {
        Self { last: None, excess: 0.0, slack: 1.0, dropped: 0 }
    }
}

impl Dating {
    /// Dates `count` samples (above zero) that were read at `now`. `capacity`: samples that the kernel's buffer holds.
    #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^53 ns, or it does not matter by how much")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least zero, and saturating")]
    pub(super) fn date(&mut self, count: usize, capacity: usize, now: i64, period: f64) -> Dates {
        let is_full = count >= capacity;
        let length = count as f64 * period;
        let Some(last) = self.last.replace(now) else {
            return Dates { start: now.saturating_sub(length as i64), step: period, missing: 0 };
        };
        // Samples that should have arrived by now, except the one that may arrive at any moment.
        let lack = now.saturating_sub(last) as f64 / period - count as f64 - 1.0;
        let drift = DRIFT * count as f64;
        let excess = if is_full || lack < 0.5 + drift + self.slack { 0.0 } else { lack };
        self.slack = (self.slack + drift - lack.max(0.0)).clamp(0.0, 1.0);
        // Late samples come with the next read, unless they are more than the buffer holds.
        let missing = if excess > capacity as f64 { excess } else { excess.min(self.excess) }.round();
        self.excess = if missing > 0.0 { 0.0 } else { excess };
        let start = last.saturating_add((missing * period) as i64);
        let by_count = start.saturating_add(length as i64);
        let earliest = if is_full || excess > 0.0 { by_count } else { now.saturating_sub(period as i64) };
        let newest = by_count.max(earliest).min(now);
        let missing = missing as u64 + self.dropped;
        let dropped = if is_full { (now.saturating_sub(newest) as f64 / period).floor() } else { 0.0 };
        self.dropped = dropped as u64;
        self.last = Some(newest.saturating_add((dropped * period) as i64));
        Dates { start, step: newest.saturating_sub(start) as f64 / count as f64, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: i64 = 100;

    /// Makes reads of this many samples at these times. Returns the time of the newest sample of each read, and the total missing.
    fn dated(reads: &[(usize, i64)]) -> (Vec<i64>, u64) {
        let (mut dating, mut missing, mut last) = (Dating::default(), 0, i64::MIN);
        let newest = reads.iter().map(|&(count, now)| {
            let dates = dating.date(count, 8, now, PERIOD as f64);
            missing += dates.missing;
            for at in (0..count).map(|index| dates.of(index)) {
                assert!(last < at && at <= now, "{last} {at} {now} in {reads:?}");
                last = at;
            }
            last
        });
        (newest.collect(), missing)
    }

    #[test]
    fn samples_are_a_period_apart() {
        let dates = Dating::default().date(3, 8, 1_000, 100.0);
        assert_eq!([0, 1, 2].map(|index| dates.of(index)), [800, 900, 1_000]);
        let mut dating = Dating::default();
        dating.date(1, 8, 1_000, 100.0);
        let dates = dating.date(4, 8, 1_430, 100.0);
        assert_eq!([0, 1, 2, 3].map(|index| dates.of(index)), [1_100, 1_200, 1_300, 1_400]);
        assert_eq!(Dates::at(7).of(3), 7);
    }

    /// 10,000 reads, two nominal periods apart, of a device with another clock; it drops ten of every 200 samples if it `drops`. Returns
    /// the missing samples according to the dates, and the true number.
    fn missing_of(actual: f64, drops: bool) -> (u64, u64) {
        let (mut dating, mut missing, mut made, mut dropped) = (Dating::default(), 0, 0_u64, 0);
        for now in (1..10_000).map(|read| read * 2 * PERIOD) {
            let mut times = Vec::new();
            while (made as f64) * actual <= now as f64 {
                match drops && made % 200 >= 190 {
                    true => dropped += 1,
                    false => times.push(made as f64 * actual),
                }
                made += 1;
            }
            if !times.is_empty() {
                let dates = dating.date(times.len(), 64, now, PERIOD as f64);
                missing += dates.missing;
                for (index, time) in times.iter().enumerate() {
                    let off = (dates.of(index) as f64 - time).abs() / PERIOD as f64;
                    assert!(off <= if drops { 12.0 } else { 2.0 }, "{off} periods at {time} of {actual}");
                }
            }
        }
        (missing, dropped)
    }

    #[test]
    fn a_clock_that_differs_is_no_gap() {
        for actual in [96.0, 98.0, 99.9, 100.0, 100.1, 102.0, 104.0] {
            assert_eq!(missing_of(actual, false), (0, 0), "{actual}");
            let (missing, dropped) = missing_of(actual, true);
            assert!(missing.abs_diff(dropped) <= dropped / 5, "{missing} of {dropped} at {actual}");
        }
    }

    #[test]
    fn gaps_are_counted_and_late_samples_are_not() {
        for (reads, newest, missing) in [
            (&[(1, 1_000), (2, 1_250), (3, 1_580)][..], &[1_000, 1_200, 1_500][..], 0),
            // Read late, or arrived late: the next read brings what was missing.
            (&[(1, 1_000), (1, 1_399), (4, 1_601)], &[1_000, 1_100, 1_501], 0),
            // Three never came.
            (&[(1, 1_000), (1, 1_500), (1, 1_600)], &[1_000, 1_100, 1_500], 3),
            // The buffer was full, and the number of dropped samples is known at once.
            (&[(1, 1_000), (8, 2_450), (1, 2_550)], &[1_000, 1_800, 2_500], 6),
            (&[(1, 1_000), (8, 2_450), (8, 3_850), (1, 3_950)], &[1_000, 1_800, 3_200, 3_900], 12),
            // A pause longer than the buffer can bridge.
            (&[(1, 1_000), (1, 9_050)], &[1_000, 9_000], 79),
            // A clock that is slower or faster than ours.
            (&[(1, 1_000), (6, 1_725), (6, 2_328), (6, 2_931)], &[1_000, 1_625, 2_228, 2_831], 0),
            (&[(1, 1_000), (6, 1_590), (6, 2_180), (6, 2_770)], &[1_000, 1_590, 2_180, 2_770], 0),
        ] {
            assert_eq!(dated(reads), (newest.to_vec(), missing), "{reads:?}");
        }
    }
}
