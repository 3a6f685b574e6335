//! How late wake-ups were: small histograms that fade, by the length of the sleep.
//!
//! The longer a processor was idle the later it wakes up, so sleeps of different lengths have histograms of their own. Nothing here
//! reads a clock, blocks or allocates.

use crate::time::Span;

/// Sleeps are told apart by these lengths.
const LENGTHS: [Span; CLASSES - 1] =
    [Span::from_micros(300), Span::from_millis(3), Span::from_millis(30), Span::from_millis(300)];

/// Classes of sleeps by their length.
pub(super) const CLASSES: usize = 5;

/// With fewer sleeps a class says nothing of percentiles.
const ENOUGH: u32 = 16;

/// The class of a sleep.
pub(super) fn class(length: Span) -> usize {
    LENGTHS.iter().position(|longest| length < *longest).unwrap_or(CLASSES - 1)
}

/// How late wake-ups from sleeps of each class were.
#[derive(Clone, Debug)]
pub(super) struct Oversleeps([Recent; CLASSES]);

impl Oversleeps {
    pub(super) const fn new() -> Self {
        Self([const { Recent::new() }; CLASSES])
    }

    pub(super) fn add(&mut self, class: usize, late: Span) {
        self.0[class].add(late);
    }

    /// What is known of a class: its own sleeps, or, as long as these are few, those of the nearest class that has more.
    /// `None`: nothing is known.
    pub(super) fn of(&self, class: usize) -> Option<&Recent> {
        let enough = |class: &usize| self.0[*class].total >= ENOUGH;
        (0..CLASSES).filter(enough).min_by_key(|other| other.abs_diff(class)).map(|class| &self.0[class])
    }

    /// Sleeps of all classes that have not been taken.
    pub(super) fn new_ones(&self) -> u32 {
        self.0.iter().map(|recent| recent.new).sum()
    }

    /// Sleeps of a class since this was last asked.
    pub(super) fn take_new(&mut self, class: usize) -> u32 {
        std::mem::take(&mut self.0[class].new)
    }
}

/// Buckets an eighth of a power of two wide, from 256 ns to 1 ms; values outside count at the edge.
const BUCKETS: usize = 12 * 8;
const FIRST_BUCKET: u32 = 8;

/// At this total all counts are halved, so that old values fade. The 99.9th percentile then rests on four sleeps at least.
const FADE_AT: u32 = 8_192;

/// How late recent wake-ups were.
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

    /// The upper edge of the bucket that holds this many thousandths of the sleeps.
    pub(super) fn quantile(&self, thousandths: u32) -> Span {
        let rank = (self.total * thousandths).div_ceil(1_000);
        let mut seen = 0;
        let holds = |count: &u16| {
            seen += u32::from(*count);
            *count > 0 && seen >= rank
        };
        self.counts.iter().position(holds).map_or(Span::ZERO, upper_edge)
    }

    /// The upper edge of the last bucket up to `most` that holds any; zero: there is none.
    pub(super) fn greatest_up_to(&self, most: Span) -> Span {
        let edges =
            self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, _)| upper_edge(bucket));
        edges.take_while(|edge| *edge <= most).last().unwrap_or(Span::ZERO)
    }

    /// How long a wake-up comes before the release on average, in nanoseconds, if the sleep ends this long before it.
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

/// Eighths of powers of two: the exponent and the three bits below the leading one.
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
        // Three of four wake up 40 µs early, within the width of a bucket.
        let mean = recent.mean_awake(Span::from_micros(50));
        assert!((29_000.0..31_000.0).contains(&mean), "{mean}");
        assert!(recent.mean_awake(Span::from_micros(5)) < 1.0);
    }
}
