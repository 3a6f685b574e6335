//! Edges from the kernel: counted, checked for gaps, and passed on as samples. Allocates only in [`Edges::new`]; timestamps come from the
//! kernel.

use super::lines::LineRequest;
use crate::channels::{BlockSender, Head};
use crate::time::Instant;
use gpiocdev_uapi::v2::LineEdgeEvent;
use std::io;

/// Maximum number of edges taken by one read.
pub(super) const BATCH: usize = 64;

// The kernel's layout.
const _: () = assert!(size_of::<LineEdgeEvent>() == 48);

/// Words of one edge, as the kernel writes it.
const WORDS: usize = size_of::<LineEdgeEvent>() / size_of::<u64>();

/// Bytes of one sample: time, line, level.
pub(super) const SAMPLE: usize = 24;

/// Maximum number of reads in one tick: four times what the kernel can hold. Later edges wait for the next tick.
const READS: usize = 4 * 1_024 / BATCH;

/// GPIO_V2_LINE_EVENT_RISING_EDGE.
const RISING: u32 = 1;

/// The edges counted so far, and the buffers.
pub(super) struct Edges {
    words: Box<[u64]>,
    samples: Box<[u8]>,
    each: Box<[u64]>, // per line, since the last report
    total: u64,
    lost: u64,
}

impl Edges {
    pub(super) fn new(lines: usize) -> Self {
        Self {
            words: vec![0; BATCH * WORDS].into(),
            samples: vec![0; BATCH * SAMPLE].into(),
            each: vec![0; lines].into(),
            total: 0,
            lost: 0,
        }
    }

    /// Takes all edges that are ready. Edges taken before an error still count.
    pub(super) fn read(
        &mut self,
        lines: &mut LineRequest,
        n: u64,
        mut blocks: Option<&mut BlockSender>,
    ) -> io::Result<()> {
        for _ in 0..READS {
            let words = match lines.read(&mut self.words) {
                Ok(words) => words,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            lines.last = self.take(words, lines.last, |offset| lines.index(offset), n, blocks.as_deref_mut());
            if words < self.words.len() {
                break; // the kernel has no more
            }
        }
        Ok(())
    }

    /// Takes the edges in the first `words` of the buffer. `last`: the number of the previous edge. Returns the number of the last one
    /// taken.
    fn take(
        &mut self,
        words: usize,
        mut last: u32,
        index: impl Fn(u32) -> Option<usize>,
        n: u64,
        mut blocks: Option<&mut BlockSender>,
    ) -> u32 {
        let mut block = None; // the head of the samples gathered so far
        let mut filled = 0;
        for words in self.words[..words].chunks_exact(WORDS) {
            let Ok(edge) = LineEdgeEvent::from_slice(words) else { continue };
            let gap = edge.seqno.wrapping_sub(last.wrapping_add(1));
            last = edge.seqno;
            if gap > 0 {
                self.lost += u64::from(gap);
                // After a gap a new block begins.
                offer(&mut blocks, block.take(), &self.samples[..filled]);
                filled = 0;
            }
            let at = Instant::from_nanos(edge.timestamp_ns.into());
            block.get_or_insert(Head { n, at, index: self.total + self.lost });
            self.total += 1;
            if let Some(count) = index(edge.offset).and_then(|index| self.each.get_mut(index)) {
                *count += 1;
            }
            let level = f64::from(u8::from(edge.kind == RISING));
            let sample = [edge.timestamp_ns.to_ne_bytes(), f64::from(edge.offset).to_ne_bytes(), level.to_ne_bytes()];
            let words = self.samples[filled..].as_chunks_mut().0;
            words.iter_mut().zip(sample).for_each(|(word, bytes)| *word = bytes);
            filled += SAMPLE;
        }
        offer(&mut blocks, block, &self.samples[..filled]);
        last
    }

    /// Fills in the counts: per line since the last report, then the total and the lost ones.
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(super) fn report(&mut self, slots: &mut [f64]) {
        let counts = self.each.iter().copied().chain([self.total, self.lost]);
        slots.iter_mut().zip(counts).for_each(|(slot, count)| *slot = count as f64);
        self.each.fill(0);
    }
}

fn offer(blocks: &mut Option<&mut BlockSender>, head: Option<Head>, samples: &[u8]) {
    if let (Some(blocks), Some(head)) = (blocks, head) {
        blocks.offer(head, &[samples]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Format, Queue, Shape, blocks};

    /// Fills the buffer with edges: time, kind, offset and number.
    fn edges(edges: &mut Edges, these: &[(u64, u32, u32, u32)]) -> usize {
        for (words, &(time, kind, offset, number)) in edges.words.chunks_exact_mut(WORDS).zip(these) {
            let pair = |low: u32, high: u32| {
                let (low, high) = (low.to_ne_bytes(), high.to_ne_bytes());
                u64::from_ne_bytes([low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]])
            };
            words[..3].copy_from_slice(&[time, pair(kind, offset), pair(number, number)]);
        }
        these.len() * WORDS
    }

    fn index(offset: u32) -> Option<usize> {
        [7, 3].iter().position(|&line| line == offset)
    }

    #[test]
    fn edges_are_counted_and_gaps_as_well() {
        let mut seen = Edges::new(2);
        let shape = Shape { format: Format::Samples(Vec::new()), largest: BATCH * SAMPLE, bytes_per_second: 0.0 };
        let (mut sender, mut receiver) = blocks(Queue::Fifo, &shape);
        let words = edges(&mut seen, &[(100, 1, 7, 1), (200, 2, 7, 2), (300, 1, 3, 6)]);
        assert_eq!(seen.take(words, 0, index, 5, Some(&mut sender)), 6);
        let mut slots = [f64::NAN; 4];
        seen.report(&mut slots);
        assert_eq!(slots, [2.0, 1.0, 3.0, 3.0]);

        // The samples before and after the gap.
        let sample =
            |time: u64, line: f64, level: f64| [time.to_ne_bytes(), line.to_ne_bytes(), level.to_ne_bytes()].concat();
        let block = receiver.take().unwrap();
        assert_eq!(block.head, Head { n: 5, at: Instant::from_nanos(100), index: 0 });
        assert_eq!(block.bytes, [sample(100, 7.0, 1.0), sample(200, 7.0, 0.0)].concat());
        let block = receiver.take().unwrap();
        assert_eq!(block.head, Head { n: 5, at: Instant::from_nanos(300), index: 5 });
        assert_eq!(block.bytes, sample(300, 3.0, 1.0));
        assert!(receiver.take().is_none());

        // The chip came back: its numbers start again, the counts continue.
        let words = edges(&mut seen, &[(900, 2, 3, 1)]);
        assert_eq!(seen.take(words, 0, index, 9, None), 1);
        seen.report(&mut slots);
        assert_eq!(slots, [0.0, 1.0, 4.0, 3.0]);
    }

    #[test]
    fn numbers_of_edges_wrap_around() {
        let mut seen = Edges::new(2);
        let words = edges(&mut seen, &[(1, 1, 7, u32::MAX), (2, 2, 7, 0), (3, 1, 7, 2)]);
        assert_eq!(seen.take(words, u32::MAX - 1, index, 0, None), 2);
        assert_eq!((seen.total, seen.lost), (3, 1));
    }
}
