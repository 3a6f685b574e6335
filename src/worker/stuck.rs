//! Values that have not changed for too long. Instants are arguments; only the constructor allocates.

use crate::channels::Reason;
use crate::time::{Instant, Span};

/// Watches the values of a task.
#[derive(Debug)]
pub(crate) struct Stuck {
    values: Box<[Watched]>,
}

/// A value, and since when it has been the same.
#[derive(Clone, Copy, Debug)]
struct Watched {
    after: Option<Span>, // `None`: it may stay the same
    bits: u64,
    since: Instant,
}

impl Stuck {
    /// For each value, the time after which it counts as stuck.
    pub(crate) fn new(after: Vec<Option<Span>>) -> Self {
        // No finite value has these bits, so that each first value is a change.
        let watched = |after| Watched { after, bits: u64::MAX, since: Instant::ZERO };
        Self { values: after.into_iter().map(watched).collect() }
    }

    /// Marks what is stuck among the values of a tick that was released at `at`, on the monotonic clock.
    pub(super) fn mark(&mut self, values: &mut [f64], at: Instant) {
        for (watched, value) in self.values.iter_mut().zip(values).filter(|(_, value)| value.is_finite()) {
            if watched.bits != value.to_bits() {
                (watched.bits, watched.since) = (value.to_bits(), at);
            } else if watched.after.is_some_and(|after| at - watched.since >= after) {
                *value = Reason::Stuck.value();
            }
        }
    }

    /// Continues where the same task was before its links changed.
    pub(super) fn goes_on_from(&mut self, before: &Self) {
        for (watched, before) in self.values.iter_mut().zip(&before.values) {
            (watched.bits, watched.since) = (before.bits, before.since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Basis, NONE, Quality};

    #[test]
    fn only_a_value_that_stands_still_is_stuck() {
        let mut stuck = Stuck::new(vec![Some(Span::from_nanos(10)); 2]);
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
