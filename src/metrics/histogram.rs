//! A histogram of spans, and the few numbers that summarise it.
//!
//! Keeps the exact minimum, maximum and mean besides the buckets. Not for hot threads: a value unlike the previous ones may allocate.

use super::buckets::Buckets;
use super::steps::coarse;
use crate::snapshot::{AtMost, Distribution};
use crate::time::Span;

/// The maximum number of spans that one stall adds. Longer stalls are entered in coarser steps, so that a machine that was suspended for a
/// week does not keep the metrics thread busy for minutes.
const FINEST_STEPS: u64 = 10_000;

/// A histogram of spans.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Buckets,
    count: u64,
    min: Span,
    max: Span,
    sum: i128,
}

impl Histogram {
    /// An empty histogram that keeps `digits` significant decimal digits: 1, 2 or 3.
    pub(crate) const fn new(digits: u8) -> Self {
        Self { buckets: Buckets::new(digits), count: 0, min: Span::MAX, max: Span::from_nanos(-i64::MAX), sum: 0 }
    }

    /// Enters one span. A negative span counts as zero in the percentiles, and with its own value elsewhere.
    pub(crate) fn add(&mut self, span: Span) {
        self.add_many(span, 1);
    }

    /// Enters these spans, in nanoseconds. Overwrites the slice with other numbers.
    pub(super) fn add_few(&mut self, nanos: &mut [u64]) {
        let span = |nanos: u64| Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        for nanos in nanos.iter().copied() {
            self.min = self.min.min(span(nanos));
            self.max = self.max.max(span(nanos));
            self.sum += i128::from(nanos);
        }
        self.count = self.count.saturating_add(nanos.len() as u64);
        self.buckets.add_few(nanos);
    }

    /// Enters releases that never ran, each with its lateness when it was given up: the first with `oldest`, each following one with one
    /// `period` less.
    pub(crate) fn add_missed(&mut self, oldest: Span, period: Span, count: u64) {
        let steps = count.min(FINEST_STEPS);
        for step in 0..steps {
            // Divide the `count` spans into `steps` groups of almost equal size, and enter each group with its first span.
            let first = u128::from(step) * u128::from(count) / u128::from(steps);
            let next = u128::from(step + 1) * u128::from(count) / u128::from(steps);
            let back = i128::try_from(first).unwrap_or(i128::MAX).saturating_mul(period.nanos().into());
            let span = Span::from_wide(i128::from(oldest.nanos()).saturating_sub(back));
            self.add_many(span.max(Span::ZERO), u64::try_from(next - first).unwrap_or(u64::MAX));
        }
    }

    fn add_many(&mut self, span: Span, count: u64) {
        self.buckets.add(u64::try_from(span.nanos()).unwrap_or(0), count);
        self.count = self.count.saturating_add(count);
        self.min = self.min.min(span);
        self.max = self.max.max(span);
        self.sum += i128::from(span.nanos()) * i128::from(count);
    }

    /// Adds the content of another histogram with the same number of digits.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.buckets.merge(&other.buckets);
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// The content, as pairs of nanoseconds and a count: the spans at most that long, and longer than in the pair before.
    pub(crate) fn counts(&self) -> Vec<(i64, u64)> {
        let exact = |edge: u64| i64::try_from(edge).unwrap_or(i64::MAX).clamp(self.min.nanos(), self.max.nanos());
        self.buckets.counts().map(|(bucket, count)| (exact(self.buckets.upper_edge(bucket)), count)).collect()
    }

    /// How many spans were entered.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The same in fewer numbers: pairs of an upper edge in nanoseconds and a count of the spans at most that long, and longer than the
    /// edge before.
    pub(crate) fn coarse(&self) -> Vec<(i64, u64)> {
        coarse(self.buckets.counts().map(|(bucket, count)| (self.buckets.upper_edge(bucket), count)))
    }

    /// The numbers that summarise it; all zero if nothing was entered.
    pub(crate) fn distribution(&self) -> Distribution {
        let count = self.count();
        if count == 0 {
            return Distribution::default();
        }
        let (min, max) = (self.min.nanos(), self.max.nanos());
        // The rank at this share of the spans, given in ten-thousandths; at least one.
        let rank = |share: u128| u64::try_from((u128::from(count) * share).div_ceil(10_000)).unwrap_or(count);
        let values = self.buckets.at_ranks([5_000, 9_000, 9_900, 9_990, 9_999].map(rank));
        let [p50, p90, p99, p99_9, p99_99] =
            values.map(|value| i64::try_from(value).unwrap_or(i64::MAX).clamp(min, max));
        Distribution {
            count,
            min,
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max,
            mean: Span::from_wide(self.sum / i128::from(count)).nanos(),
            sum: self.sum,
            at_most: AtMost::of(self.buckets.at_most()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::BOUNDS;

    #[test]
    fn an_empty_one_is_all_zeros() {
        assert_eq!(Histogram::new(3).distribution(), Distribution::default());
    }

    #[test]
    fn percentiles_lie_between_the_exact_ends() {
        let mut histogram = Histogram::new(3);
        (1..=10_000).for_each(|us| histogram.add(Span::from_micros(us)));
        let got = histogram.distribution();
        assert_eq!((got.count, got.min, got.max, got.mean), (10_000, 1_000, 10_000_000, 5_000_500));
        for (value, wanted) in [(got.p50, 5_000_000), (got.p99, 9_900_000), (got.p99_99, 9_999_000)] {
            assert!((value - wanted).abs() <= wanted / 500, "{value} {wanted}");
        }
    }

    /// The numbers from a widely used implementation with the same buckets.
    #[test]
    fn percentiles_are_those_of_hdrhistogram() {
        for (digits, spread) in [(2, 3), (2, 12), (3, 3), (3, 12)] {
            let mut histogram = Histogram::new(digits);
            let mut reference = hdrhistogram::Histogram::<u64>::new(digits).unwrap();
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            for n in 0..20_000_u64 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n | 1);
                let nanos = (state >> 33) >> (state % spread * 2);
                histogram.add(Span::from_nanos(i64::try_from(nanos).unwrap()));
                reference.record(nanos).unwrap();
                if n % 997 != 0 && n > 300 {
                    continue;
                }
                let got = histogram.distribution();
                let wanted = [0.5, 0.9, 0.99, 0.999, 0.9999].map(|q| reference.value_at_quantile(q));
                let wanted = wanted.map(|value| i64::try_from(value).unwrap().clamp(got.min, got.max));
                assert_eq!([got.p50, got.p90, got.p99, got.p99_9, got.p99_99], wanted, "after {n}");
            }
        }
    }

    #[test]
    fn counts_at_the_bounds_are_exact() {
        for digits in [2, 3] {
            let mut histogram = Histogram::new(digits);
            let near = BOUNDS.iter().flat_map(|bound| (0..40).map(move |off| bound - 20 + off));
            let far = (0..62).flat_map(|power| [1_u64 << power, (3_u64 << power) - 1]);
            let mut values: Vec<_> = near.chain(far).chain([0]).collect();
            for (index, value) in values.iter().enumerate() {
                histogram.add(Span::from_nanos(i64::try_from(*value).unwrap()));
                if index == values.len() / 2 {
                    let half = histogram.clone();
                    histogram.merge(&half);
                    histogram.merge(&half);
                }
            }
            let half = values[..=values.len() / 2].to_vec();
            values.extend(half.iter().chain(&half));
            let got = histogram.distribution();
            let at_most = |bound: &u64| values.iter().filter(|value| *value <= bound).count() as u64;
            assert_eq!(BOUNDS.map(|bound| got.at_most.at(bound)), BOUNDS.each_ref().map(at_most), "{digits}");
            assert_eq!(
                (got.count, got.sum),
                (values.len() as u64, values.iter().map(|value| i128::from(*value)).sum())
            );
        }
        let mut few = Histogram::new(3);
        [1_500, 1_500, 2_000, 40_000_000].into_iter().for_each(|nanos| few.add(Span::from_nanos(nanos)));
        let shown = serde_json::to_value(few.distribution()).unwrap();
        assert_eq!(shown["at_most"], serde_json::json!([[2_000, 3], [50_000_000, 4]]));
        assert_eq!(shown["sum"], 40_005_000);
    }

    #[test]
    fn missed_releases_are_entered_one_period_apart_and_all_counted() {
        let mut histogram = Histogram::new(3);
        histogram.add_missed(Span::from_millis(30), Span::from_millis(10), 3);
        let got = histogram.distribution();
        assert_eq!((got.count, got.min, got.max, got.mean), (3, 10_000_000, 30_000_000, 20_000_000));

        let mut week = Histogram::new(2);
        week.add_missed(Span::from_seconds(604_800), Span::from_millis(1), 604_800_000);
        assert_eq!(week.count(), 604_800_000);
        let got = week.distribution();
        assert!(got.p50 > 295_000_000_000_000 && got.p50 < 310_000_000_000_000, "{got:?}");
    }

    #[test]
    fn merged_ones_are_what_entering_all_would_be_and_their_counts_add_up() {
        let (mut one, mut other, mut both) = (Histogram::new(3), Histogram::new(3), Histogram::new(3));
        for n in 0..5_000_i64 {
            let span = Span::from_nanos(n * n * 7 % 90_001);
            if n % 3 == 0 {
                one.add(span)
            } else {
                other.add(span)
            }
            both.add(span);
        }
        one.merge(&other);
        one.merge(&Histogram::new(3));
        assert_eq!((one.distribution(), one.counts()), (both.distribution(), both.counts()));
        let counts = one.counts();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 5_000);
        assert!(counts.is_sorted() && counts.last().unwrap().0 == one.distribution().max, "{counts:?}");
    }

    #[test]
    fn early_counts_as_zero_but_shows() {
        let mut histogram = Histogram::new(3);
        histogram.add(Span::from_nanos(-40));
        assert_eq!((histogram.distribution().min, histogram.distribution().p50), (-40, -40));
    }
}
