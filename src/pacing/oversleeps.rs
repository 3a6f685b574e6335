//! How late wake-ups were: small fading histograms, one per class of sleep length.
//!
//! The longer a processor was idle, the later it wakes up, so sleeps of different lengths have separate histograms. Nothing here reads a
//! clock, blocks or allocates.

use crate::time::Span;

/// Upper bounds (exclusive) of the sleep-length classes; the last class has none.
const LENGTHS: [Span; CLASSES - 1] =
    [Span::from_micros(300), Span::from_millis(3), Span::from_millis(30), Span::from_millis(300)];

/// Number of sleep-length classes.
pub(super) const CLASSES: usize = 5;

/// A class with fewer sleeps is too small for percentiles.
const ENOUGH: u32 = 16;

/// The class of a sleep of this length.
pub(super) fn class(length: Span) -> usize {
    LENGTHS.iter().position(|longest| length < *longest).unwrap_or(CLASSES - 1)
}

/// The lateness of wake-ups, for each class of sleeps.
#[derive(Clone, Debug)]
pub(super) struct Oversleeps([Recent; CLASSES]);

impl Oversleeps {
    pub(super) const fn new() -> Self {
        Self([const { Recent::new() }; CLASSES])
    }

    pub(super) fn add(&mut self, class: usize, late: Span) {
        self.0[class].add(late);
    }

    /// The data for a class: its own sleeps or, while these are too few, the sleeps of the nearest class with enough. `None` if no class
    /// has enough.
    pub(super) fn of(&self, class: usize) -> Option<&Recent> {
        let enough = |class: &usize| self.0[*class].total >= ENOUGH;
        (0..CLASSES).filter(enough).min_by_key(|other| other.abs_diff(class)).map(|class| &self.0[class])
    }

    /// New sleeps in all classes since the last [`take_new`](Self::take_new).
    pub(super) fn new_ones(&self) -> u32 {
        self.0.iter().map(|recent| recent.new).sum()
    }

    /// New sleeps of a class since the last call for it.
    pub(super) fn take_new(&mut self, class: usize) -> u32 {
        std::mem::take(&mut self.0[class].new)
    }
}

/// Buckets an eighth of a power of two wide, from 256 ns to 1 ms. Values outside count in the first or the last bucket.
const BUCKETS: usize = 12 * 8;
const FIRST_BUCKET: u32 = 8;

/// When the total reaches this, all counts are halved, so that old values fade. The 99.9th percentile then rests on at least four sleeps.
const FADE_AT: u32 = 8_192;

/// The lateness of recent wake-ups.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    counts: [u16; BUCKETS],
    total: u32,
    new: u32,
}

impl Recent {
    const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0, new: 0 }
    }

    fn add(&mut self, late: Span) {
        self.counts[bucket(late)] += 1;
        self.total += 1;
        self.new += 1;
        if self.total >= FADE_AT {
            self.total = 0;
            for count in &mut self.counts {
                *count /= 2;
                self.total += u32::from(*count);
            }
        }
    }

    /// The upper edge of the bucket that contains this quantile, in thousandths of the sleeps.
    pub(super) fn quantile(&self, thousandths: u32) -> Span {
        let rank = (self.total * thousandths).div_ceil(1_000);
        let mut seen = 0;
        let holds = |count: &u16| {
            seen += u32::from(*count);
            *count > 0 && seen >= rank
        };
        self.counts.iter().position(holds).map_or(Span::ZERO, upper_edge)
    }

    /// The upper edge of the highest non-empty bucket whose edge is at most `most`; zero if there is none.
    pub(super) fn greatest_up_to(&self, most: Span) -> Span {
        let edges =
            self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, _)| upper_edge(bucket));
        edges.take_while(|edge| *edge <= most).last().unwrap_or(Span::ZERO)
    }

    /// The mean time between wake-up and release, in nanoseconds, if sleeps are set to end `margin` before the release. A wake-up after the
    /// release counts as zero.
    #[expect(clippy::cast_precision_loss, reason = "an average, of which the first digits matter")]
    pub(super) fn mean_awake(&self, margin: Span) -> f64 {
        let mut sum = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let early = margin - middle(bucket);
            if early <= Span::ZERO {
                break;
            }
            sum += early.nanos() * i64::from(*count);
        }
        sum as f64 / f64::from(self.total.max(1))
    }
}

/// The bucket of an oversleep, in eighths of powers of two: the exponent and the three bits below the leading one.
fn bucket(late: Span) -> usize {
    let nanos = u64::try_from(late.nanos()).unwrap_or(0).max(1 << FIRST_BUCKET);
    let exponent = nanos.ilog2();
    let eighth = (nanos >> (exponent - 3)) & 7;
    let index = u64::from(exponent - FIRST_BUCKET) * 8 + eighth;
    usize::try_from(index).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn upper_edge(bucket: usize) -> Span {
    let (exponent, eighth) = (bucket / 8 + FIRST_BUCKET as usize, bucket % 8);
    Span::from_nanos(i64::try_from((9 + eighth) << (exponent - 3)).unwrap_or(i64::MAX))
}

fn middle(bucket: usize) -> Span {
    let half = 1_i64 << (bucket / 8 + FIRST_BUCKET as usize - 4);
    upper_edge(bucket) - Span::from_nanos(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_lies_below_the_upper_edge_of_its_bucket() {
        for nanos in (0..900_000).step_by(37) {
            let late = Span::from_nanos(nanos);
            let edge = upper_edge(bucket(late));
            assert!(late <= edge, "{late} {edge}");
            assert!(nanos < 300 || edge.nanos() * 8 <= nanos * 9 + 8, "{late} {edge}");
            let from_middle = (late - middle(bucket(late))).nanos().abs();
            assert!(nanos < 256 || from_middle <= (edge - middle(bucket(late))).nanos(), "{late}");
        }
        assert_eq!(bucket(Span::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_class_of_few_sleeps_is_like_the_nearest_one() {
        let mut oversleeps = Oversleeps::new();
        let quantile = |oversleeps: &Oversleeps, class| oversleeps.of(class).map(|recent| recent.quantile(500));
        assert_eq!(quantile(&oversleeps, 0), None);
        let short = class(Span::from_micros(100));
        let long = class(Span::from_millis(10));
        for _ in 0..ENOUGH {
            oversleeps.add(short, Span::from_micros(10));
        }
        assert_eq!(quantile(&oversleeps, long), quantile(&oversleeps, short));
        for _ in 0..ENOUGH {
            oversleeps.add(long, Span::from_micros(50));
        }
        assert!(quantile(&oversleeps, long) > quantile(&oversleeps, short));
        assert_eq!(quantile(&oversleeps, long + 1), quantile(&oversleeps, long));
        assert_eq!((oversleeps.take_new(long), oversleeps.take_new(long)), (ENOUGH, 0));
    }

    #[test]
    fn the_time_awake_is_what_the_sleeps_left_of_the_margin() {
        let mut recent = Recent::new();
        (0..3).for_each(|_| recent.add(Span::from_micros(10)));
        recent.add(Span::from_micros(400));
        // Three of four wake up 40 µs early, give or take a bucket's width.
        let mean = recent.mean_awake(Span::from_micros(50));
        assert!((29_000.0..31_000.0).contains(&mean), "{mean}");
        assert!(recent.mean_awake(Span::from_micros(5)) < 1.0);
    }
}
