//! Repeated overruns, judged by how close together they are, never by their total.
//!
//! Each overrun adds to a leaky bucket. An overflow deserves a warning or a stop; the same number of overruns spread over a
//! week does not. Time is an argument; nothing blocks or allocates.
//!
//! ```text
//! leak            |---------|---------|      |-- ...
//! overruns        x   x                      x    x    x      x
//! in the bucket   1   2     1         0      1    2    0      1      with a limit of 2: the third of three overflows
//! ```

use crate::time::{Instant, Span};

/// Counts overruns, and forgets one of them after every `leak`.
///
/// The first overrun in an empty bucket starts the time of the leak, so overruns further apart than `leak` never add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    limit: u32,
    leak: i64, // nanoseconds; at least 1
    level: u32,
    since: Instant, // the leak is applied up to here; meaningless while the bucket is empty
}

impl LeakyBucket {
    /// An empty bucket that holds `limit` overruns. With a limit of 0 every overrun overflows it. A `leak` of zero or less counts as one
    /// nanosecond.
    pub fn new(limit: u32, leak: Span) -> Self {
        Self { limit, leak: leak.nanos().max(1), level: 0, since: Instant::ZERO }
    }

    /// Adds the overrun of a tick that finished at `now`. Returns whether the bucket overflowed; an overflow empties it.
    ///
    /// If `now` is earlier than a previous one (the clock was stepped back), nothing leaks, and the leak continues from `now`.
    pub fn overrun(&mut self, now: Instant) -> bool {
        self.drain(now);
        if self.level >= self.limit {
            self.level = 0;
            return true;
        }
        self.level += 1;
        false
    }

    fn drain(&mut self, now: Instant) {
        let elapsed = now.since(self.since).nanos().max(0);
        let leaked = u32::try_from(elapsed / self.leak).unwrap_or(u32::MAX);
        if leaked >= self.level {
            self.level = 0;
            self.since = now;
        } else {
            self.level -= leaked;
            // A partly elapsed leak interval counts towards the next one.
            self.since = now.min(self.since + Span::from_nanos(i64::from(leaked) * self.leak));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn second(limit: u32) -> LeakyBucket {
        LeakyBucket::new(limit, Span::from_seconds(1))
    }

    fn level(bucket: &mut LeakyBucket, now: Instant) -> u32 {
        bucket.drain(now);
        bucket.level
    }

    #[test]
    fn each_leak_forgives_one() {
        let mut bucket = second(3);
        assert!([0, 1, 2].iter().all(|millis| !bucket.overrun(at(*millis))));
        assert_eq!(level(&mut bucket, at(999)), 3);
        assert_eq!(level(&mut bucket, at(1_000)), 2);
        assert_eq!(level(&mut bucket, at(1_999)), 2, "the rest of a leak is not lost, and counts once");
        assert_eq!(level(&mut bucket, at(2_000)), 1);
        assert_eq!(level(&mut bucket, at(900_000)), 0);
        assert!(!bucket.overrun(at(900_500)));
        assert_eq!(level(&mut bucket, at(901_499)), 1, "the leak of an empty bucket has not gone on");
    }

    #[test]
    fn time_that_goes_back_neither_leaks_nor_blocks_the_leak() {
        let mut bucket = second(2);
        assert!(!bucket.overrun(at(10_000)) && !bucket.overrun(at(0)));
        assert_eq!(level(&mut bucket, at(999)), 2);
        assert_eq!(level(&mut bucket, at(1_000)), 1);
        assert!(!bucket.overrun(Instant::from_nanos(i128::MIN)));
        assert!(!bucket.overrun(Instant::MAX), "all has leaked by then");
        assert_eq!(level(&mut LeakyBucket::new(1, Span::ZERO), at(0)), 0);
    }

    /// The reference model: the same bucket, simulated nanosecond by nanosecond.
    fn model(limit: u32, leak: i64, gaps: &[i64]) -> Vec<bool> {
        let (mut level, mut passed, mut overflows) = (0, 0, Vec::new());
        for gap in gaps {
            for _ in 0..*gap {
                passed += 1;
                if passed == leak {
                    (level, passed) = (u32::saturating_sub(level, 1), 0);
                }
            }
            if level == 0 {
                passed = 0;
            }
            level += 1;
            overflows.push(level > limit);
            if level > limit {
                (level, passed) = (0, 0);
            }
        }
        overflows
    }

    proptest! {
        #[test]
        fn overruns_slower_than_the_leak_never_overflow(
            limit in 1..1_000_000_u32,
            leak in 1..10_000_000_000_i64,
            more in vec(0..10_000_000_000_i64, 1..200),
        ) {
            let mut bucket = LeakyBucket::new(limit, Span::from_nanos(leak));
            let mut now = Instant::ZERO;
            for more in more {
                now = now + Span::from_nanos(leak) + Span::from_nanos(more);
                prop_assert!(!bucket.overrun(now));
            }
        }

        #[test]
        fn one_more_than_the_limit_at_once_overflows_and_empties_it(limit in 0..5_000_u32, leak in 1..i64::MAX, now in any::<i64>()) {
            let mut bucket = LeakyBucket::new(limit, Span::from_nanos(leak));
            let now = Instant::from_nanos(i128::from(now));
            for _ in 0..3 {
                prop_assert!((0..limit).all(|_| !bucket.overrun(now)));
                prop_assert!(bucket.overrun(now));
            }
        }

        #[test]
        fn it_counts_as_a_bucket_that_is_watched_all_the_time(
            limit in 0..6_u32,
            leak in 1..20_i64,
            gaps in vec(0..30_i64, 1..100),
        ) {
            let mut bucket = LeakyBucket::new(limit, Span::from_nanos(leak));
            let mut now = Instant::ZERO;
            let found: Vec<bool> = gaps.iter().map(|gap| {
                now = now + Span::from_nanos(*gap);
                bucket.overrun(now)
            }).collect();
            prop_assert_eq!(found, model(limit, leak, &gaps));
        }

        #[test]
        fn an_overflow_takes_a_full_bucket_whatever_the_clock_does(
            limit in 0..50_u32,
            leak in any::<i64>(),
            instants in vec(any::<i128>(), 1..200),
        ) {
            let mut bucket = LeakyBucket::new(limit, Span::from_nanos(leak));
            let mut since = 0;
            for nanos in instants {
                since += 1;
                if bucket.overrun(Instant::from_nanos(nanos)) {
                    prop_assert!(since > limit);
                    since = 0;
                }
            }
        }
    }
}
