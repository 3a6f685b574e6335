//! Counts how many values fell into each of many buckets. Only buckets with a count take memory, and each count takes only as many bytes as
//! it needs.
//!
//! The buckets are those of HdrHistogram: each power of two is divided into equal buckets, and values too small for that have one bucket
//! each. Pure arithmetic. Allocates when a bucket is used for the first time, or when its count outgrows its bytes.

use crate::snapshot::{BOUNDS, beside};
use std::ops::Range;

/// The number of adjacent buckets that share a width: few enough that a lone value costs little, many enough to justify a directory entry.
const CHUNK: usize = 8;

/// The number of the first extra bucket, after all others. Some bounds divide a bucket. The extra bucket `DIVIDED + power` counts the
/// values in such a bucket that are at most the bound, where 2^power is the power of two at or below the bound.
const DIVIDED: usize = 56 << 10;

/// The location of the counts of [`CHUNK`] buckets.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    number: u16, // of its first bucket, divided by CHUNK
    at: u16,     // offset in `bytes`, divided by CHUNK
    width: u8,   // bytes of each count: 1, 2, 4 or 8
}

impl Chunk {
    /// The range in `bytes` that holds one bucket's count.
    fn place(self, within: usize) -> Range<usize> {
        let width = usize::from(self.width);
        let start = usize::from(self.at) * CHUNK + within * width;
        start..start + width
    }
}

/// Counts by bucket.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    precision: u8, // each power of two is divided into 2^precision buckets
    latest: u16,   // position of the chunk used last
    chunks: Vec<Chunk>,
    bytes: Vec<u8>,
}

impl Buckets {
    /// Creates empty buckets, narrow enough to distinguish values with this many significant decimal digits (1, 2 or 3).
    pub(super) const fn new(digits: u8) -> Self {
        // With this precision, the lower edges are at least 10^digits buckets above zero.
        let precision = match digits {
            0 | 1 => 4,
            2 => 7,
            _ => 10,
        };
        Self { precision, latest: 0, chunks: Vec::new(), bytes: Vec::new() }
    }

    /// Counts `count` values of this size.
    pub(super) fn add(&mut self, value: u64, count: u64) {
        self.add_to(self.bucket_of(value), count);
        self.add_divided(value, count);
    }

    /// Counts values in the extra bucket too, if a bound divides their bucket and they are at most as large as the bound.
    fn add_divided(&mut self, value: u64, count: u64) {
        let (power, bound) = (value.max(1).ilog2(), beside(value));
        let shift = power.saturating_sub(self.precision.into());
        if value <= bound && value >> shift == bound >> shift && bound & ((1 << shift) - 1) != (1 << shift) - 1 {
            self.add_to(DIVIDED + power as usize, count);
        }
    }

    /// How many values are at most as large as each of [`BOUNDS`].
    pub(super) fn at_most(&self) -> [u64; BOUNDS.len()] {
        let (mut whole, mut divided) = ([0; BOUNDS.len()], [0; BOUNDS.len()]);
        let add = |into: &mut [u64; BOUNDS.len()], value, count| {
            if let Some(sum) = into.get_mut(BOUNDS.partition_point(|bound| *bound < value)) {
                *sum += count;
            }
        };
        for (bucket, count) in self.all() {
            match bucket.checked_sub(DIVIDED) {
                None => add(&mut whole, self.upper_edge(bucket), count),
                Some(power) => add(&mut divided, 1 << power, count),
            }
        }
        let mut sum = 0;
        std::array::from_fn(|index| {
            sum += whole[index];
            sum + divided[index]
        })
    }

    /// Counts each of these values once, and replaces each value by its bucket. Makes room for all of them in one step.
    pub(super) fn add_few(&mut self, values: &mut [u64]) {
        for value in &mut *values {
            self.add_divided(*value, 1);
            *value = self.bucket_of(*value) as u64;
        }
        values.sort_unstable();
        self.make_room(values);
        let Some(&first) = values.first() else { return };
        let mut position = self.at_or_before(split(first).0);
        self.latest = u16::try_from(position).unwrap_or(0); // no more chunks than chunk numbers
        for &mut bucket in values {
            let (number, within) = split(bucket);
            position = self.from(position, number);
            self.add_at(position, within, 1);
        }
    }

    /// A position at or before the chunk with this number: the position used last, if possible.
    fn at_or_before(&self, number: u16) -> usize {
        let latest = usize::from(self.latest);
        if self.chunks.get(latest).is_some_and(|chunk| chunk.number <= number) { latest } else { 0 }
    }

    /// The position of the first chunk from `position` on with this number or a higher one. Checks nearby chunks first: values tend to
    /// resemble the previous ones, and a cache line that the search skips need not be loaded.
    fn from(&self, position: usize, number: u16) -> usize {
        let is_before = |chunk: &Chunk| chunk.number < number;
        let chunks = &self.chunks[position..];
        let mut near = 1;
        while chunks.get(near - 1).is_some_and(is_before) {
            near *= 2;
        }
        let (begin, end) = (near / 2, near.min(chunks.len()));
        position + begin + chunks[begin..end].partition_point(is_before)
    }

    /// Creates the missing chunks for these buckets, which are in order.
    fn make_room(&mut self, buckets: &[u64]) {
        let numbers = || buckets.chunk_by(|a, b| split(*a).0 == split(*b).0).map(|same| split(same[0]).0);
        let before = |chunks: &[Chunk], number| chunks.partition_point(|chunk| chunk.number < number);
        let is_at = |chunks: &[Chunk], position: usize, number| {
            chunks.get(position).is_some_and(|chunk| chunk.number == number)
        };
        let mut known = buckets.first().map_or(0, |first| self.at_or_before(split(*first).0));
        let is_missing = |number: &u16| {
            known = self.from(known, *number);
            !is_at(&self.chunks, known, *number)
        };
        let missing = numbers().filter(is_missing).count();
        if missing == 0 {
            return;
        }
        reserve(&mut self.chunks, missing);
        reserve(&mut self.bytes, missing * CHUNK);
        let mut at = u16::try_from(self.bytes.len() / CHUNK).unwrap_or(u16::MAX); // at most 56 << 10
        self.bytes.resize(self.bytes.len() + missing * CHUNK, 0);
        let (mut from, mut gap) = (self.chunks.len(), missing);
        self.chunks.resize(from + missing, Chunk { number: 0, at, width: 1 });
        // From last to first, so that each chunk moves only once.
        for number in numbers().rev() {
            let position = before(&self.chunks[..from], number);
            if is_at(&self.chunks[..from], position, number) {
                continue;
            }
            self.chunks.copy_within(position..from, position + gap);
            (from, gap) = (position, gap - 1);
            self.chunks[position + gap] = Chunk { number, at, width: 1 };
            at += 1;
        }
    }

    /// Adds the other's counts.
    pub(super) fn merge(&mut self, other: &Self) {
        other.all().for_each(|(bucket, count)| self.add_to(bucket, count));
    }

    /// The non-empty buckets in ascending order, each with its count.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.all().take_while(|(bucket, _)| *bucket < DIVIDED)
    }

    /// Like [`counts`](Self::counts), followed by the extra buckets for bounds.
    fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.chunks.iter().flat_map(|&chunk| (0..CHUNK).map(move |within| (chunk, within)));
        all.map(|(chunk, within)| (usize::from(chunk.number) * CHUNK + within, self.count(chunk, within)))
            .filter(|(_, count)| *count > 0)
    }

    fn add_to(&mut self, bucket: usize, count: u64) {
        let (number, within) = split(bucket as u64);
        let position = self.chunk(number);
        self.add_at(position, within, count);
    }

    /// Counts values of a bucket in the chunk at `position`.
    fn add_at(&mut self, position: usize, within: usize, count: u64) {
        let sum = self.count(self.chunks[position], within).saturating_add(count);
        while bytes_for(sum) > usize::from(self.chunks[position].width) {
            self.widen(position);
        }
        let place = self.chunks[position].place(within);
        // A copy of a known length is a single instruction; a copy of any length is a call.
        let bytes = sum.to_le_bytes();
        match &mut self.bytes[place] {
            [only] => *only = bytes[0],
            two @ [_, _] => two.copy_from_slice(&bytes[..2]),
            four @ [_, _, _, _] => four.copy_from_slice(&bytes[..4]),
            all => all.copy_from_slice(&bytes),
        }
    }

    /// For each rank, in ascending order, the upper edge of the bucket that holds the value with this rank. Rank 1 is the smallest value.
    /// Zero for a rank that does not exist.
    pub(super) fn at_ranks<const N: usize>(&self, ranks: [u64; N]) -> [u64; N] {
        let mut values = [0; N];
        let (mut found, mut passed) = (0, 0_u64);
        for &chunk in self.chunks.iter().take_while(|chunk| usize::from(chunk.number) < DIVIDED / CHUNK) {
            for within in 0..CHUNK {
                passed = passed.saturating_add(self.count(chunk, within));
                while found < N && ranks[found] <= passed {
                    values[found] = self.upper_edge(usize::from(chunk.number) * CHUNK + within);
                    found += 1;
                }
            }
        }
        values
    }

    /// The bucket that a value falls into.
    fn bucket_of(&self, value: u64) -> usize {
        let shift = value.max(1).ilog2().saturating_sub(self.precision.into());
        let bucket = (u64::from(shift) << self.precision) + (value >> shift);
        usize::try_from(bucket).unwrap_or(usize::MAX) // at most 55 << 10
    }

    /// The largest value that falls into a bucket.
    pub(super) fn upper_edge(&self, bucket: usize) -> u64 {
        let shift = (bucket >> self.precision).saturating_sub(1);
        let mantissa = (bucket - (shift << self.precision)) as u64;
        (mantissa << shift) | ((1 << shift) - 1)
    }

    /// The position of a chunk, which is created if it does not exist.
    fn chunk(&mut self, number: u16) -> usize {
        // Most values resemble the previous one.
        if self.chunks.get(usize::from(self.latest)).is_some_and(|chunk| chunk.number == number) {
            return self.latest.into();
        }
        let position = self.found(number);
        self.latest = u16::try_from(position).unwrap_or(0); // no more chunks than chunk numbers
        position
    }

    fn found(&mut self, number: u16) -> usize {
        self.chunks.binary_search_by_key(&number, |chunk| chunk.number).unwrap_or_else(|position| {
            reserve(&mut self.chunks, 1);
            reserve(&mut self.bytes, CHUNK);
            let at = u16::try_from(self.bytes.len() / CHUNK).unwrap_or(u16::MAX); // at most 57 << 10
            self.chunks.insert(position, Chunk { number, width: 1, at });
            self.bytes.resize(self.bytes.len() + CHUNK, 0);
            position
        })
    }

    fn count(&self, chunk: Chunk, within: usize) -> u64 {
        match self.bytes[chunk.place(within)] {
            [only] => only.into(),
            [a, b] => u16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => 0, // no other width exists
        }
    }

    /// Doubles the number of bytes per count in a chunk.
    fn widen(&mut self, position: usize) {
        let before = self.chunks[position];
        let counts: [u64; CHUNK] = std::array::from_fn(|within| self.count(before, within));
        let width = usize::from(before.width);
        reserve(&mut self.bytes, CHUNK * width);
        let wider = counts.iter().flat_map(|count| count.to_le_bytes().into_iter().take(2 * width));
        drop(self.bytes.splice(before.place(0).start..before.place(CHUNK).start, wider));
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.at > before.at) {
            chunk.at += u16::from(before.width);
        }
        self.chunks[position].width *= 2;
    }
}

/// The number of a bucket's chunk, and the bucket's index within the chunk.
fn split(bucket: u64) -> (u16, usize) {
    let chunk = CHUNK as u64;
    (u16::try_from(bucket / chunk).unwrap_or(u16::MAX), usize::try_from(bucket % chunk).unwrap_or(0)) // at most 56 << 7
}

/// How many bytes a count needs.
const fn bytes_for(count: u64) -> usize {
    match count {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Makes room for `more` elements, or for an eighth of the current length if that is more. Doubling would waste megabytes with thousands of
/// histograms.
pub(super) fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    if vec.capacity() - vec.len() < more {
        vec.reserve_exact(more.max(vec.len() / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeatable pseudo-random numbers: the high bits after multiplying by an odd constant.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn every_bucket_ends_where_the_next_one_begins_and_is_as_narrow_as_promised() {
        for (digits, share) in [(1, 10), (2, 100), (3, 1_000)] {
            let buckets = Buckets::new(digits);
            let mut first = 0;
            for bucket in 0.. {
                let last = buckets.upper_edge(bucket);
                assert_eq!((buckets.bucket_of(first), buckets.bucket_of(last)), (bucket, bucket), "{first}..={last}");
                assert!((last - first) * share <= first, "{first}..={last}");
                if last == u64::MAX {
                    break;
                }
                first = last + 1;
            }
        }
    }

    #[test]
    fn ranks_are_those_of_the_sorted_values() {
        for digits in [1, 2, 3] {
            let (mut buckets, mut state) = (Buckets::new(digits), 1);
            // Spread over many powers of two; some values occur often, most of them once.
            let mut values: Vec<_> = (0..3_000).map(|_| random(&mut state) >> (random(&mut state) % 30)).collect();
            values.iter().for_each(|value| buckets.add(*value, 1));
            for (value, count) in [(7_000, 300), (90_000, 7_000), (91_000, 9)] {
                buckets.add(value, count);
                values.extend(std::iter::repeat_n(value, usize::try_from(count).unwrap()));
            }
            values.sort_unstable();
            let count = values.len();
            for rank in (1..=count).step_by(37).chain([count]) {
                let exact = values[rank - 1];
                let [got] = buckets.at_ranks([rank as u64]);
                assert_eq!(got, buckets.upper_edge(buckets.bucket_of(exact)), "rank {rank} of {count}");
            }
            assert_eq!(buckets.at_ranks([count as u64 + 1]), [0]);
        }
    }

    #[test]
    fn values_that_are_added_a_few_at_a_time_are_counted_as_if_one_by_one() {
        for digits in [1, 2, 3] {
            let (mut few, mut single, mut state) = (Buckets::new(digits), Buckets::new(digits), 7);
            for round in 0..2_000 {
                let value = |state: &mut u64| random(state) >> (random(state) % if round % 3 == 0 { 30 } else { 4 });
                let mut values: Vec<_> = (0..random(&mut state) % 12).map(|_| value(&mut state)).collect();
                values.iter().for_each(|value| single.add(*value, 1));
                few.add_few(&mut values);
            }
            assert!(few.chunks.is_sorted_by_key(|chunk| chunk.number));
            assert!(few.counts().eq(single.counts()));
        }
    }

    #[test]
    fn counts_stay_exact_at_any_width() {
        let mut buckets = Buckets::new(2);
        let large = u64::from(u32::MAX) + 5;
        for (value, count) in [(1_100, 1), (50, 255), (51, 256), (3_000_000, 65_535), (1_100, large), (50, 1)] {
            buckets.add(value, count);
        }
        let count_of = |value| {
            let bucket = buckets.bucket_of(value);
            let chunk = buckets.chunks.iter().find(|chunk| usize::from(chunk.number) == bucket / CHUNK).unwrap();
            buckets.count(*chunk, bucket % CHUNK)
        };
        assert_eq!([50, 51, 1_100, 3_000_000].map(count_of), [256, 256, large + 1, 65_535]);
        assert_eq!(buckets.bytes.len(), CHUNK * (2 + 8 + 2), "50 and 51 share a chunk");
        buckets.add(1_100, u64::MAX);
        assert_eq!(buckets.at_ranks([256 + 256 + 1, u64::MAX]), [buckets.upper_edge(buckets.bucket_of(1_100)); 2]);
    }

    #[test]
    fn a_few_values_take_a_few_bytes() {
        let mut buckets = Buckets::new(2);
        for tick in 0..1_000_000 {
            buckets.add(40_000 + tick % 20_000, 1);
        }
        // There are 103 buckets from 40 to 60 µs; their counts take two bytes each.
        let bytes = buckets.bytes.capacity() + size_of::<Chunk>() * buckets.chunks.capacity();
        assert!((206..412).contains(&bytes), "{bytes}");
    }
}
