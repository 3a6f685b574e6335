//! Values that have not changed for too long. Instants are arguments; only the constructor allocates.

use crate::channels::Reason;
use crate::time::{Instant, Span};

/// Watches the values of a task.
#[derive(Debug)]
pub(crate) struct Stuck {
    after: Span,
    values: Box<[(u64, Instant)]>, // the bits of each, and since when it has had them
}

impl Stuck {
    /// For this many values, each of which counts as stuck once it has stayed the same for `after`.
    pub(crate) fn new(after: Span, columns: usize) -> Self {
        // No value has these bits, so that each first value is a change.
        Self { after, values: vec![(u64::MAX, Instant::ZERO); columns].into() }
    }

    /// Marks what is stuck among the values of a tick that was released at `at`, on the monotonic clock.
    pub(super) fn mark(&mut self, values: &mut [f64], at: Instant) {
        for ((bits, since), value) in self.values.iter_mut().zip(values).filter(|(_, value)| value.is_finite()) {
            if *bits != value.to_bits() {
                (*bits, *since) = (value.to_bits(), at);
            } else if at - *since >= self.after {
                *value = Reason::Stuck.value();
            }
        }
    }

    /// Continues where the same task was before its links changed.
    pub(super) fn goes_on_from(&mut self, before: &Self) {
        if self.values.len() == before.values.len() {
            self.values.copy_from_slice(&before.values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Basis, NONE, Quality};

    #[test]
    fn only_a_value_that_stands_still_is_stuck() {
        let mut stuck = Stuck::new(Span::from_nanos(10), 2);
        let mut mark = |at: i128, values: [f64; 2]| {
            let mut values = values;
            stuck.mark(&mut values, Instant::from_nanos(at));
            values.map(|value| Quality::of(value, Basis::Good, None))
        };
        let (good, bad) = (Quality::Good, Quality::Bad(Reason::Stuck));
        assert_eq!(mark(100, [1.0, 5.0]), [good, good]);
        assert_eq!(mark(109, [1.0, 5.1]), [good, good]);
        assert_eq!(mark(110, [1.0, 5.0]), [bad, good], "it has changed in between");
        assert_eq!(mark(115, [NONE, 5.0]), [Quality::None, good]);
        assert_eq!(mark(119, [1.0, 5.0]), [bad, good], "a tick without a value is no change");
        assert_eq!(mark(120, [1.5, 5.0]), [good, bad]);
        assert_eq!(mark(121, [1.0, 5.0]), [good, bad]);
    }
}
