//! How much of a file counts as stored, and when to try the next file after a disk has failed to store what it accepted. Arithmetic only.

use std::collections::VecDeque;

/// Data counts as stored after this many successful checks since it was written. There is one check per second: a disk takes a while, and
/// reports errors late.
const LOOKS: usize = 5;

/// What is known about the open file.
#[derive(Debug, Default)]
pub(super) struct Storing {
    stored: u64,         // everything before this offset counts as stored
    ends: VecDeque<u64>, // the file's lengths at successful checks since then, oldest first
    damaged: bool,       // something beyond that offset was not stored
    refuses: bool,       // the disk failed to store something, of this file or an earlier one, and has not recovered
}

impl Storing {
    /// Starts or continues a file with this length.
    pub(super) fn begin(&mut self, length: u64) {
        *self = Self { stored: length, refuses: self.refuses, ..Self::default() };
    }

    /// The file was cut off at this length.
    pub(super) fn shorten(&mut self, length: u64) {
        self.stored = self.stored.min(length);
        self.ends.iter_mut().for_each(|end| *end = length.min(*end));
    }

    /// Whether the disk has failed to store something and has not recovered.
    pub(super) const fn refuses(&self) -> bool {
        self.refuses
    }

    /// Everything beyond this offset counts as lost, because something there was not stored; `None` if no loss is known.
    pub(super) fn lost_from(&self) -> Option<u64> {
        self.damaged.then_some(self.stored)
    }

    /// Something was not stored. Returns true if the next file must begin. That happens only once until the disk recovers. Otherwise each
    /// new file would have holes, and `record-keep` would delete good files in favour of them.
    pub(super) fn refused(&mut self) -> bool {
        self.ends.clear();
        self.damaged = true;
        !std::mem::replace(&mut self.refuses, true)
    }

    /// A check of a file of this length found no error. `is_stored` tells whether everything up to an offset is stored, as far as that can
    /// be known. Returns true if the disk has recovered and the next file must begin, because this one has holes.
    pub(super) fn good(&mut self, length: u64, is_stored: impl FnOnce(u64) -> bool) -> bool {
        self.ends.push_back(length);
        if self.ends.len() <= LOOKS {
            return false;
        }
        // A failing disk may take minutes to report it.
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
