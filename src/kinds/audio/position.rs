//! The position of a frame in the stream: frames taken, plus frames lost by the device's count, plus those estimated by the clock for the
//! time without a device. Pure arithmetic; time is an argument.

use crate::time::{Instant, NANOS_PER_SECOND, Span};

/// The position in one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPosition {
    rate: u32,
    next: u64,            // index of the next frame
    end: Option<Instant>, // when the last frame taken ended
}

impl StreamPosition {
    /// The start of a stream; `rate`: frames per second, greater than zero.
    pub(super) fn new(rate: u32) -> Self {
        Self { rate, next: 0, end: None }
    }

    /// The duration of this many frames.
    pub(super) fn lasting(&self, frames: u64) -> Span {
        Span::from_wide(i128::from(frames) * i128::from(NANOS_PER_SECOND) / i128::from(self.rate))
    }

    /// A device was opened, and its first frame is from `at`. The frames missing since the previous device are estimated by the clock, at
    /// least one.
    pub(super) fn begin(&mut self, at: Instant) {
        if let Some(end) = self.end.take() {
            let missing = i128::from((at - end).nanos()) * i128::from(self.rate) / i128::from(NANOS_PER_SECOND);
            self.next += u64::try_from(missing).unwrap_or(0).max(1);
        }
    }

    /// This many frames are lost, by the device's own count.
    pub(super) fn lose(&mut self, frames: u64) {
        self.next += frames;
    }

    /// This many frames were taken, the first of them from `at`. Returns the index of the first.
    pub(super) fn take(&mut self, frames: u64, at: Instant) -> u64 {
        let index = self.next;
        self.next += frames;
        self.end = Some(at + self.lasting(frames));
        index
    }

    /// Index of the next frame.
    pub(super) fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn frames_are_counted_and_holes_are_jumped_over() {
        let mut position = StreamPosition::new(48_000);
        position.begin(ms(0));
        assert_eq!(position.take(480, ms(0)), 0);
        assert_eq!(position.take(481, ms(10)), 480, "independent of the clock");
        position.lose(100);
        assert_eq!(position.take(9, ms(20)), 1_061);
        assert_eq!(position.next(), 1_070);

        // The device was away for a second after its last frame, which ended at 20 ms plus 9 frames.
        position.begin(ms(1_020));
        assert_eq!(position.take(480, ms(1_020)), 1_070 + 48_000 - 9);
        position.begin(ms(500));
        assert_eq!(position.take(1, ms(500)), 49_541 + 1, "even when the clock says nothing is missing");
        let mut late = StreamPosition::new(8_000);
        late.begin(ms(3_600_000));
        assert_eq!(late.take(1, ms(3_600_000)), 0, "it begins with the first device");
        assert_eq!(late.lasting(8_001), Span::from_micros(1_000_125));
    }
}
