//! A scripted camera: the frames ready at each tick, and the failures.

use super::*;
use crate::channels::{BlockReceiver, Format, ImageFormat, Queue, Shape, blocks};
use crate::sys::video::PixelFormat;
use std::collections::VecDeque;

const GONE: i32 = libc::ENODEV;

/// The reaction of a scripted camera to a request for a frame.
#[derive(Clone, Copy, Debug)]
enum Step {
    Has(u32), // a frame with this number
    Damaged(u32),
    Empty,      // the next tick continues after this
    Fails(i32), // errno
}
use Step::{Damaged, Empty, Fails, Has};

struct Scripted {
    form: PixelFormat,
    steps: VecDeque<Step>,
    driver_has: Vec<bool>,
    queue_fails: bool,
    has_times: bool,
    bytes: Vec<[u8; 4]>,
}

impl Scripted {
    fn new(steps: &[Step]) -> Self {
        let form = PixelFormat { four_cc: *b"GREY", width: 2, height: 2, stride: 2, largest: 4, alternating: false };
        let steps = steps.iter().copied().collect();
        Self { form, steps, driver_has: vec![true; 4], queue_fails: false, has_times: true, bytes: vec![[0; 4]; 4] }
    }
}

impl FrameSource for Scripted {
    fn format(&self) -> &PixelFormat {
        &self.form
    }

    fn buffers(&self) -> usize {
        self.driver_has.len()
    }

    fn dequeue(&mut self) -> io::Result<Option<Frame>> {
        let (sequence, damaged) = match self.steps.pop_front() {
            Some(Has(sequence)) => (sequence, false),
            Some(Damaged(sequence)) => (sequence, true),
            Some(Fails(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(Empty) | None => return Ok(None),
        };
        let index = self.driver_has.iter().position(|has| *has).expect("the driver has a buffer to fill");
        self.driver_has[index] = false;
        self.bytes[index] = [sequence.to_le_bytes()[0]; 4];
        let at = Instant::ZERO + Span::from_millis(10 * i64::from(sequence));
        Ok(Some(Frame {
            buffer: u32::try_from(index).unwrap(),
            sequence,
            length: 4,
            damaged,
            at: self.has_times.then_some(at),
        }))
    }

    fn bytes(&self, frame: &Frame) -> &[u8] {
        let index = usize::try_from(frame.buffer).unwrap();
        assert!(!self.driver_has[index], "a buffer that the driver has is not looked at");
        &self.bytes[index]
    }

    fn queue(&mut self, buffer: u32) -> io::Result<()> {
        if self.queue_fails {
            return Err(io::Error::from_raw_os_error(GONE));
        }
        let has = &mut self.driver_has[usize::try_from(buffer).unwrap()];
        assert!(!*has, "a buffer is handed back once");
        *has = true;
        Ok(())
    }
}

/// A tick 7 ms after the frame of number `n`: its values, or the error.
fn tick(frames: &mut FrameReader, camera: &mut Scripted, n: u64) -> Result<[f64; 7], Option<i32>> {
    let release = Instant::ZERO + Span::from_millis(10 * i64::try_from(n).unwrap() + 7);
    let mut values = [f64::NAN; 7];
    let taken = frames.take(camera, TickTime { n, release }, &mut values);
    if taken.is_ok() {
        assert_eq!(camera.driver_has, [true; 4], "all buffers are handed back");
    }
    taken.map(|()| values).map_err(|error| error.raw_os_error())
}

fn connected(take: FrameChoice) -> (FrameReader, BlockReceiver) {
    let image = ImageFormat { width: 2, height: 2, stride: 2, four_cc: *b"GREY" };
    let shape = Shape { format: Format::Image(image), largest: 4, bytes_per_second: 4_096.0 };
    let (sender, receiver) = blocks(Queue::Fifo, &shape);
    (FrameReader::new(take, Some(sender)), receiver)
}

/// Tick, index and first byte of every available block.
fn taken(receiver: &mut BlockReceiver) -> Vec<(u64, u64, u8)> {
    std::iter::from_fn(|| receiver.take().map(|block| (block.head.n, block.head.index, block.bytes[0]))).collect()
}

#[test]
fn every_frame_is_taken_in_order() {
    let (mut frames, mut receiver) = connected(FrameChoice::Every);
    let mut camera = Scripted::new(&[Has(0), Empty, Empty, Has(1), Has(2), Has(4), Empty]);
    let mut row = |n| tick(&mut frames, &mut camera, n).unwrap();
    assert_eq!(row(0)[..6], [1.0, 0.0, 0.0, 0.0, 0.0, 7.0]);
    let empty = row(1);
    assert_eq!(empty[..4], [1.0, 0.0, 0.0, 0.0], "what adds up stays");
    assert!(empty[4].is_nan() && empty[5].is_nan(), "and there is no frame to tell of");
    assert_eq!(row(4)[..6], [4.0, 1.0, 0.0, 4.0, 4.0, 7.0]);
    assert_eq!(taken(&mut receiver), [(0, 0, 0), (4, 1, 1), (4, 2, 2), (4, 4, 4)]);
    assert_eq!(frames.columns().len(), 6);
}

#[test]
fn of_those_ready_the_latest_is_taken() {
    let (mut frames, mut receiver) = connected(FrameChoice::Latest);
    let mut camera = Scripted::new(&[Has(0), Has(1), Has(2), Empty, Has(3), Damaged(4), Empty]);
    assert_eq!(tick(&mut frames, &mut camera, 2).unwrap(), [3.0, 0.0, 0.0, 2.0, 2.0, 7.0, 2.0]);
    assert_eq!(frames.shown_at(), Some(Instant::ZERO + Span::from_millis(20)));
    // A damaged frame is not better than the one before it.
    assert_eq!(tick(&mut frames, &mut camera, 3).unwrap(), [5.0, 0.0, 1.0, 4.0, 3.0, 7.0, 2.0]);
    assert_eq!(taken(&mut receiver), [(2, 2, 2), (3, 3, 3)]);
    assert_eq!(frames.columns()[6].name, "passed-over");
}

#[test]
fn a_damaged_frame_is_counted_and_not_handed_on() {
    let (mut frames, mut receiver) = connected(FrameChoice::Every);
    let mut camera = Scripted::new(&[Damaged(0), Empty, Damaged(1), Has(2), Damaged(3), Empty]);
    let row = tick(&mut frames, &mut camera, 0).unwrap();
    assert_eq!(row[..4], [1.0, 0.0, 1.0, 0.0]);
    assert!(row[4].is_nan());
    assert_eq!(tick(&mut frames, &mut camera, 2).unwrap()[..6], [4.0, 0.0, 3.0, 3.0, 2.0, 7.0]);
    assert_eq!(taken(&mut receiver), [(2, 2, 2)]);
}

#[test]
fn a_tick_takes_no_more_than_there_are_buffers() {
    let mut frames = FrameReader::new(FrameChoice::Latest, None);
    let mut camera = Scripted::new(&(0..100).map(Has).collect::<Vec<_>>());
    assert_eq!(tick(&mut frames, &mut camera, 3).unwrap()[0], 4.0);
    assert_eq!(camera.steps.len(), 96);
}

#[test]
fn what_was_taken_before_a_failure_counts() {
    for take in [FrameChoice::Every, FrameChoice::Latest] {
        let (mut frames, mut receiver) = connected(take);
        let mut camera = Scripted::new(&[Has(0), Empty, Has(1), Fails(GONE)]);
        assert!(tick(&mut frames, &mut camera, 0).is_ok());
        assert_eq!(tick(&mut frames, &mut camera, 1), Err(Some(GONE)));
        // The camera is reopened: frames from before the tick are not seen, and one index is left out.
        let mut camera = Scripted::new(&[Has(0), Has(1), Empty, Has(2), Empty, Has(3)]);
        frames.begin(&mut camera).unwrap();
        assert_eq!(tick(&mut frames, &mut camera, 2).unwrap()[..6], [3.0, 1.0, 0.0, 3.0, 2.0, 7.0], "{take:?}");
        assert_eq!(tick(&mut frames, &mut camera, 3).unwrap()[..4], [4.0, 1.0, 0.0, 4.0]);
        assert_eq!(taken(&mut receiver), [(0, 0, 0), (1, 1, 1), (2, 3, 2), (3, 4, 3)], "{take:?}");
    }
}

#[test]
fn after_one_error_the_stream_goes_on_with_all_its_buffers() {
    let (mut frames, mut receiver) = connected(FrameChoice::Every);
    let mut camera = Scripted::new(&[Has(0), Has(1), Fails(libc::EIO), Has(2), Empty]);
    assert_eq!(tick(&mut frames, &mut camera, 1), Err(Some(libc::EIO)));
    assert_eq!(camera.driver_has, [true; 4]);
    assert_eq!(tick(&mut frames, &mut camera, 2).unwrap()[..4], [3.0, 0.0, 0.0, 2.0]);
    assert_eq!(taken(&mut receiver), [(1, 0, 0), (1, 1, 1), (2, 2, 2)]);
}

#[test]
fn a_buffer_that_cannot_be_handed_back_is_a_failure() {
    let (mut frames, mut receiver) = connected(FrameChoice::Every);
    let mut camera = Scripted::new(&[Has(0), Has(1), Empty]);
    camera.queue_fails = true;
    assert_eq!(tick(&mut frames, &mut camera, 0), Err(Some(GONE)));
    // The second frame was held when returning the first failed.
    assert_eq!(taken(&mut receiver), [(0, 0, 0), (0, 1, 1)]);
    let mut camera = Scripted::new(&[Has(0), Empty]);
    camera.queue_fails = true;
    assert!(frames.begin(&mut camera).is_err());
}

#[test]
fn without_a_time_from_the_driver_the_release_is_used() {
    let (mut frames, mut receiver) = connected(FrameChoice::Every);
    let mut camera = Scripted { has_times: false, ..Scripted::new(&[Has(0)]) };
    let release = Instant::from_nanos(99);
    let mut values = [0.0; 6];
    frames.take(&mut camera, TickTime { n: 0, release }, &mut values).unwrap();
    assert!(values[5].is_nan());
    assert_eq!(receiver.take().unwrap().head, Head { n: 0, at: release, index: 0 });
}
