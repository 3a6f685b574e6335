//! How much of a file counts as stored, and when a disk that has not stored what it had taken is tried with the next file. Arithmetic only.

use std::collections::VecDeque;

/// That many good looks after it was written, something counts as stored. A look each second: a disk takes a while, and reports late.
const LOOKS: usize = 5;

/// What is known of the file that is open.
#[derive(Debug, Default)]
pub(super) struct Storing {
    stored: u64,         // what is before this offset counts as stored
    ends: VecDeque<u64>, // of the file, at the good looks since, the oldest first
    damaged: bool,       // something behind that offset is not stored
    refuses: bool, // the disk has not stored something, of this file or the one before, and has not been good since
}

impl Storing {
    /// A file begins, or continues, with this length.
    pub(super) fn begin(&mut self, length: u64) {
        *self = Self { stored: length, refuses: self.refuses, ..Self::default() };
    }

    /// The file was cut off.
    pub(super) fn shorten(&mut self, length: u64) {
        self.stored = self.stored.min(length);
        self.ends.iter_mut().for_each(|end| *end = length.min(*end));
    }

    /// Whether the disk has not stored something, and has not been good since.
    pub(super) const fn refuses(&self) -> bool {
        self.refuses
    }

    /// What lies behind this counts as lost, since something there is not stored; `None`: nothing is known to be lost.
    pub(super) fn lost_from(&self) -> Option<u64> {
        self.damaged.then_some(self.stored)
    }

    /// Something was not stored. True: the next file must begin. Not again before the disk is good: each file would have its holes, and
    /// `record-keep` would delete good ones for them.
    pub(super) fn refused(&mut self) -> bool {
        self.ends.clear();
        self.damaged = true;
        !std::mem::replace(&mut self.refuses, true)
    }

    /// A look at a file of this length found nothing wrong; `is_stored`: all up to there, if that can be known. True: the disk is good
    /// again, and the next file must begin, as this one has holes.
    pub(super) fn good(&mut self, length: u64, is_stored: impl FnOnce(u64) -> bool) -> bool {
        self.ends.push_back(length);
        if self.ends.len() <= LOOKS {
            return false;
        }
        // A disk that fails may take minutes to report it.
        if !self.ends.front().is_some_and(|end| is_stored(*end)) {
            self.ends.remove(1);
            return false;
        }
        let before = self.ends.pop_front();
        self.refuses = false;
        if !self.damaged {
            self.stored = before.unwrap_or(self.stored);
        }
        self.damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_refuses_for_long_gets_two_files_and_the_next_one_once_it_is_good() {
        let mut storing = Storing::default();
        storing.begin(100);
        for length in (1..=20).map(|n| 100 + n * 10) {
            assert!(!storing.good(length, |_| true));
        }
        assert_eq!(storing.lost_from(), None);
        assert!(storing.refused());
        assert_eq!((storing.lost_from(), storing.refuses()), (Some(250), true), "five looks before");
        storing.begin(7);
        assert_eq!(storing.lost_from(), None);
        for _ in 0..100 {
            assert!(!storing.refused());
            assert!((0..4).all(|_| !storing.good(1_000, |_| true)));
        }
        assert_eq!(storing.lost_from(), Some(7), "what lies behind a hole");
        assert!(!storing.refused());
        assert_eq!((1..=6).map(|n| storing.good(1_000 + n, |_| true)).position(|turn| turn), Some(5));
        assert!(!storing.refuses());
        storing.begin(7);
        storing.good(50, |_| true);
        for length in 51..90 {
            assert!(!storing.good(length, |end| end < 50), "the disk has not stored that yet");
        }
        storing.shorten(3);
        assert!(storing.refused(), "it was good meanwhile");
        assert_eq!(storing.lost_from(), Some(3));
    }
}
