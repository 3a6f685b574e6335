//! What a tick does with its camera: it takes every frame that is ready, and returns the buffers.
//!
//! Time is an argument, and the device is reached only through [`FrameSource`]. Nothing here allocates or waits.

use super::count::Count;
use super::luma::brightness;
use super::settings::FrameChoice;
use crate::channels::{BlockSender, Head, or_none};
use crate::sys::video::{Frame, FrameSource};
use crate::task::Column;
use crate::time::{Instant, Span};
use std::io;

/// The tick that takes frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct TickTime {
    pub(super) n: u64,           // its index
    pub(super) release: Instant, // its release, on the monotonic clock
}

/// The frames that a task has taken so far, and their destination.
#[derive(Debug)]
pub(super) struct FrameReader {
    take: FrameChoice,
    count: Count,
    blocks: Option<BlockSender>,
    shown_at: Option<Instant>, // when the frame of this tick's values was captured, by the kernel
}

impl FrameReader {
    /// `blocks` is the destination of the frames.
    pub(super) fn new(take: FrameChoice, blocks: Option<BlockSender>) -> Self {
        Self { take, count: Count::default(), blocks, shown_at: None }
    }

    /// Frames that the driver delivered so far.
    pub(super) fn frames(&self) -> u64 {
        self.count.frames
    }

    /// When the frame of the most recent tick's values was captured, on the monotonic clock, if there was one and the driver told.
    pub(super) fn shown_at(&self) -> Option<Instant> {
        self.shown_at
    }

    /// The columns, in the order in which [`values`](Self::values) fills them.
    pub(super) fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            ("frames", ""),
            ("gaps", ""),
            ("damaged", ""),
            ("sequence", ""),
            ("brightness", ""),
            ("age", "ms"),
            ("passed-over", ""),
        ];
        if self.take == FrameChoice::Every {
            columns.pop();
        }
        columns.into_iter().map(|(name, unit)| Column { name: name.into(), unit: unit.into() }).collect()
    }

    /// Called when the device has just been opened: frames from before this tick are returned unseen, and counting begins with the next
    /// one.
    pub(super) fn begin(&mut self, camera: &mut impl FrameSource) -> io::Result<()> {
        self.count.interrupt();
        for _ in 0..camera.buffers() {
            match camera.dequeue()? {
                Some(frame) => camera.queue(frame.buffer)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Takes all frames that are ready, but at most as many as there are buffers, and fills in the values. Frames taken before an error are
    /// still counted and passed on.
    pub(super) fn take(
        &mut self,
        camera: &mut impl FrameSource,
        moment: TickTime,
        values: &mut [f64],
    ) -> io::Result<()> {
        // A frame is kept until a newer one arrives.
        let mut newest: Option<(Frame, u64)> = None;
        let mut ended = Ok(());
        for _ in 0..camera.buffers() {
            let frame = match camera.dequeue() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            };
            let index = self.count.count(&frame);
            let done = match frame.damaged {
                true => Some(frame),
                false => newest.replace((frame, index)).map(|(older, index)| {
                    match self.take {
                        FrameChoice::Every => self.pass_on(camera, &older, index, moment),
                        FrameChoice::Latest => self.count.passed_over += 1,
                    }
                    older
                }),
            };
            if let Some(Err(error)) = done.map(|frame| camera.queue(frame.buffer)) {
                ended = Err(error);
                break;
            }
        }
        let (mut light, mut age) = (f64::NAN, f64::NAN);
        self.shown_at = newest.as_ref().and_then(|(frame, _)| frame.at);
        if let Some((frame, index)) = newest {
            self.pass_on(camera, &frame, index, moment);
            light = brightness(camera.format(), camera.bytes(&frame));
            age = self.shown_at.map_or(f64::NAN, |at| milliseconds(moment.release - at));
            // After an error too: the stream may go on.
            ended = ended.and(camera.queue(frame.buffer));
        }
        self.values(light, age, values);
        ended
    }

    fn pass_on(&mut self, camera: &impl FrameSource, frame: &Frame, index: u64, moment: TickTime) {
        if let Some(blocks) = &mut self.blocks {
            let head = Head { n: moment.n, at: frame.at.unwrap_or(moment.release), index };
            blocks.offer(head, &[camera.bytes(frame)]);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "values are floating-point numbers; 2^53 frames take ages")]
    fn values(&self, light: f64, age: f64, values: &mut [f64]) {
        let Count { frames, gaps, damaged, passed_over, .. } = self.count;
        let sequence = self.count.latest().map_or(f64::NAN, |index| index as f64);
        let all = [frames as f64, gaps as f64, damaged as f64, sequence, light, age, passed_over as f64];
        values.iter_mut().zip(all).for_each(|(slot, value)| *slot = or_none(value));
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact for three months")]
fn milliseconds(span: Span) -> f64 {
    span.nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests;
