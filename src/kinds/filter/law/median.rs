//! The median of the last values. Pure; allocates only at construction.

/// The last values, by age and by size.
#[derive(Clone, Debug)]
pub(in super::super) struct Median {
    ring: Box<[f64]>,
    oldest: usize,
    sorted: Box<[f64]>,
}

impl Median {
    /// A window of this many values, an odd number.
    pub(in super::super) fn new(ticks: usize) -> Self {
        let zeros = vec![0.0; ticks].into_boxed_slice();
        Self { ring: zeros.clone(), oldest: 0, sorted: zeros }
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ring.len() as u64
    }

    /// Fills the window with this value.
    pub(super) fn fill(&mut self, value: f64) {
        self.ring.fill(value);
        self.sorted.fill(value);
    }

    /// Adds a finite value in place of the oldest. Returns the median.
    pub(super) fn push(&mut self, value: f64) -> f64 {
        let oldest = std::mem::replace(&mut self.ring[self.oldest], value);
        self.oldest = (self.oldest + 1) % self.ring.len();
        let (from, to) = (self.position(oldest), self.position(value));
        // The values between the two positions move by one.
        let to = if to > from {
            self.sorted.copy_within(from + 1..to, from);
            to - 1
        } else {
            self.sorted.copy_within(to..from, to + 1);
            to
        };
        self.sorted[to] = value;
        self.sorted[self.sorted.len() / 2]
    }

    /// The position of the first value that is not smaller than this one.
    fn position(&self, value: f64) -> usize {
        self.sorted.partition_point(|sorted| sorted.total_cmp(&value).is_lt())
    }
}
