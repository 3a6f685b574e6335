//! The frames that a task has seen of its camera. Every number of the driver's sequence counts as a frame or as missing.
//!
//! Arithmetic only. The driver counts in 32 bits, from 0 at each start of the stream. Here a single count continues for as long as the task
//! does:
//! ```text
//! driver   5  6  9 10  lost, reopened   0  1
//! index    0  1  4  5                      7  8
//! gaps     0  0  2  2                      3  3      frames + gaps = index + 1, always
//! ```

use crate::sys::video::Frame;

/// Counts of one task, across all openings of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) frames: u64, // frames delivered by the driver, including damaged and passed-over ones
    /// Missing sequence numbers. An interruption counts as one, because the real number is unknown.
    pub(super) gaps: u64,
    pub(super) damaged: u64,     // frames that the driver reports as damaged
    pub(super) passed_over: u64, // frames skipped in favour of a newer one
    latest: Option<u64>,
    driver: Option<u32>, // its number of the last frame; none: its count restarts
}

impl Count {
    /// The device has been opened: the next frame may have any number.
    pub(super) fn interrupt(&mut self) {
        self.driver = None;
    }

    /// Counts a frame. Returns its index.
    pub(super) fn count(&mut self, frame: &Frame) -> u64 {
        let missing = match (self.latest, self.driver) {
            (None, _) => 0,
            (Some(_), None) => 1,
            // A number that is not ahead (by up to half of all numbers) means that the driver counts from 0 again.
            (Some(_), Some(driver)) => match frame.sequence.wrapping_sub(driver).wrapping_sub(1) {
                ahead @ 0..0x8000_0000 => ahead.into(),
                _ => 1,
            },
        };
        let index = self.latest.map_or(0, |latest| latest + 1 + missing);
        self.frames += 1;
        self.gaps += missing;
        self.damaged += u64::from(frame.damaged);
        (self.latest, self.driver) = (Some(index), Some(frame.sequence));
        index
    }

    /// Index of the last frame.
    pub(super) fn latest(&self) -> Option<u64> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(sequence: u32) -> Frame {
        Frame { buffer: 0, sequence, length: 0, damaged: false, at: None }
    }

    fn indices(count: &mut Count, sequences: &[u32]) -> Vec<u64> {
        sequences.iter().map(|&sequence| count.count(&frame(sequence))).collect()
    }

    #[test]
    fn every_number_is_a_frame_or_a_gap() {
        let mut count = Count::default();
        assert_eq!(indices(&mut count, &[5, 6, 9, 10]), [0, 1, 4, 5]);
        assert_eq!((count.frames, count.gaps), (4, 2));
        count.interrupt();
        assert_eq!(indices(&mut count, &[0, 1]), [7, 8]);
        assert_eq!((count.frames, count.gaps, count.latest()), (6, 3, Some(8)));
    }

    #[test]
    fn the_driver_s_count_wraps() {
        let mut count = Count::default();
        assert_eq!(indices(&mut count, &[u32::MAX - 1, u32::MAX, 0, 2]), [0, 1, 2, 4]);
        assert_eq!((count.frames, count.gaps), (4, 1));
        // Half of all numbers ahead is a gap; more than half is behind.
        let mut count = Count::default();
        assert_eq!(indices(&mut count, &[0, 0x8000_0000, 1]), [0, 0x8000_0000, 0x8000_0002]);
        assert_eq!(count.gaps, 0x8000_0000);
    }

    #[test]
    fn a_number_that_comes_again_is_no_frame_in_its_place() {
        let mut count = Count::default();
        assert_eq!(indices(&mut count, &[7, 7, 3, 4]), [0, 2, 4, 5]);
        assert_eq!(count.gaps, 2);
    }

    proptest! {
        #[test]
        fn frames_and_gaps_add_up(sequences in prop::collection::vec(any::<Option<u32>>(), 1..50)) {
            let (mut count, mut last) = (Count::default(), None);
            for sequence in sequences {
                match sequence {
                    None => count.interrupt(),
                    Some(sequence) => {
                        let index = count.count(&frame(sequence));
                        prop_assert!(last.is_none_or(|last| index > last), "each index once, and in order");
                        prop_assert_eq!(count.frames + count.gaps, index + 1);
                        last = Some(index);
                    }
                }
            }
            prop_assert_eq!(count.latest(), last);
        }
    }
}
