//! Decides whether an output is live. Pure: time comes in as seconds.

/// The last observation of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Watch {
    ticks: u64,
    still: f64, // seconds since this count was first seen
}

impl Watch {
    /// Whether the output is live, `elapsed` seconds after the last call. The tuple: whether it followed its input at its last tick, its
    /// number of ticks, and how many seconds without a tick it stays live.
    pub(super) fn is_live(&mut self, (follows, ticks, safe_after): (bool, u64, f64), elapsed: f64) -> bool {
        match ticks == self.ticks {
            true => self.still += elapsed,
            false => *self = Self { ticks, still: 0.0 },
        }
        follows && self.still <= safe_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_follows_is_live_for_as_long_as_it_ticks() {
        let mut watch = Watch::default();
        let mut at = |follows, ticks| watch.is_live((follows, ticks, 2.0), 1.0);
        assert!(!at(false, 0), "it has not ticked");
        assert!(at(true, 1) && at(true, 5));
        assert_eq!([at(true, 5), at(true, 5), at(true, 5)], [true, true, false], "for 1, 2 and 3 s");
        assert!(at(true, 6), "it ticks again");
        assert!(!at(false, 7), "but is safe");
        assert!(at(true, 8));
        let mut watch = Watch { ticks: 8, still: 0.0 };
        assert!(!watch.is_live((true, 8, 2.0), 2.5), "ticks that were skipped count");
    }
}
