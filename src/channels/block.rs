//! Blocks of samples, sound or pictures, each with its position in the stream.
//!
//! No clock is read; only [`blocks`] allocates; neither side ever waits.

use super::word;
use super::{Queue, Receiver, Sender, Shape, Traffic, channel, size};
use crate::time::Instant;
use std::sync::Arc;

/// The position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Index of the tick that read the block.
    pub n: u64,
    /// When its first sample was taken, on the monotonic clock, even if the worker uses another clock.
    pub at: Instant,
    /// Position in the stream, counted by the device from the start of the run: of the first frame of sound, of the first sample, or of the
    /// picture. If it does not continue the previous block, something is missing between them.
    pub index: u64,
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Its position.
    pub head: Head,
    /// Its contents, as the stream's [`Format`](super::Format) describes them.
    pub bytes: &'a [u8],
}

/// Bytes before a block's contents: index of the tick, time, position, length.
const HEAD: usize = 4 * size_of::<u64>();

/// The hot end of a task's queue of blocks.
#[derive(Debug)]
pub struct BlockSender {
    queue: Sender<u8>,
    largest: usize,
    traffic: Arc<Traffic>,
}

/// The cool end of a task's queue of blocks.
#[derive(Debug)]
pub struct BlockReceiver {
    queue: Receiver<u8>,
    head: Option<[u64; 4]>, // of a block whose bytes have not arrived yet; only for a FIFO
    buffer: Vec<u8>,
    traffic: Arc<Traffic>,
}

/// The blocks that a task produces in addition to its values.
#[derive(Debug)]
pub struct Stream {
    /// The contents of the blocks.
    pub shape: Shape,
    /// The receiver of the blocks; `None` if nothing records them.
    pub blocks: Option<BlockReceiver>,
}

/// A queue for the blocks of a stream of this shape. On 32 bits, a block larger than 128 MiB counts as dropped.
pub(crate) fn blocks(queue: Queue, shape: &Shape) -> (BlockSender, BlockReceiver) {
    let traffic = Arc::new(Traffic::default());
    let largest = size::largest_block(shape);
    let words = (HEAD + largest).div_ceil(size_of::<u64>());
    let (sender, receiver) = channel(queue, size::bytes_of_blocks(shape, HEAD), words);
    let buffer = Vec::with_capacity(largest);
    let sender = BlockSender { queue: sender, largest, traffic: traffic.clone() };
    (sender, BlockReceiver { queue: receiver, head: None, buffer, traffic })
}

impl BlockSender {
    /// Sends a block as a whole or not at all; its contents are `pieces`, one after the other. Counted as dropped: a block without room, a
    /// replaced block, and a block larger than the [`Shape`] allows. Wait-free; costs a copy of the bytes.
    ///
    /// Returns whether the block was accepted.
    pub fn offer(&mut self, head: Head, pieces: &[&[u8]]) -> bool {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if length > self.largest {
            self.traffic.count(false);
            return false;
        }
        let head = [head.n, word(head.at.nanos()), head.index, length as u64];
        match &mut self.queue {
            Sender::Fifo(producer) => {
                let room = producer.slots() >= HEAD + length;
                if room {
                    // The reader takes nothing until a block is complete. The room was checked, so these pushes cannot fail.
                    for word in head {
                        let _ = producer.push_entire_slice(&word.to_ne_bytes());
                    }
                    for piece in pieces {
                        let _ = producer.push_entire_slice(piece);
                    }
                }
                self.traffic.count(room);
                room
            }
            Sender::Mailbox(sender) => {
                self.traffic.count_posted(sender.post(head.into_iter().chain(words(pieces))));
                true
            }
        }
    }
}

impl BlockReceiver {
    /// Takes the next block, if any.
    pub fn take(&mut self) -> Option<Block<'_>> {
        let [n, at, index, length] = match &mut self.queue {
            Receiver::Fifo(consumer) => {
                let head = match self.head {
                    Some(head) => head,
                    None => *self.head.insert(read_head(consumer)?),
                };
                self.buffer.resize(usize::try_from(head[3]).ok()?, 0);
                consumer.pop_entire_slice(&mut self.buffer).ok()?;
                self.head = None;
                head
            }
            Receiver::Mailbox(receiver) => {
                let mut words = receiver.take()?;
                let head = [words.next()?, words.next()?, words.next()?, words.next()?];
                self.buffer.clear();
                words.for_each(|word| self.buffer.extend_from_slice(&word.to_ne_bytes()));
                head
            }
        };
        let at = Instant::from_nanos(at.cast_signed().into());
        let bytes = self.buffer.get(..usize::try_from(length).ok()?)?;
        Some(Block { head: Head { n, at, index }, bytes })
    }

    /// How many blocks have gone through so far.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }
}

fn read_head(consumer: &mut rtrb::Consumer<u8>) -> Option<[u64; 4]> {
    let mut bytes = [0; HEAD];
    consumer.pop_entire_slice(&mut bytes).ok()?;
    let mut head = [0; 4];
    for (word, bytes) in head.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(head)
}

/// The bytes of all pieces as words, the last one padded with zeros. Whole words are copied at once, because a picture has a hundred
/// thousand of them, and this is the hot thread.
fn words(pieces: &[&[u8]]) -> impl Iterator<Item = u64> {
    let mut pieces = pieces.iter().copied();
    let mut rest: &[u8] = &[];
    std::iter::from_fn(move || {
        if let Some((word, after)) = rest.split_first_chunk() {
            rest = after;
            return Some(u64::from_ne_bytes(*word));
        }
        // A word that spans pieces, or the last word.
        let (mut word, mut filled) = ([0; size_of::<u64>()], 0);
        while filled < word.len() {
            if rest.is_empty() {
                match pieces.next() {
                    Some(piece) => rest = piece,
                    None if filled == 0 => return None,
                    None => break,
                }
            }
            let taken = rest.len().min(word.len() - filled);
            word[filled..filled + taken].copy_from_slice(&rest[..taken]);
            (filled, rest) = (filled + taken, &rest[taken..]);
        }
        Some(u64::from_ne_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    fn head(index: u64) -> Head {
        Head { n: index + 1, at: Instant::from_nanos(-5), index }
    }

    fn shape(largest: usize) -> Shape {
        Shape { format: Format::Samples(Vec::new()), largest, bytes_per_second: 0.0 }
    }

    #[test]
    fn blocks_arrive_whole_and_in_order() {
        let (mut sender, mut receiver) = blocks(Queue::Fifo, &shape(2_000));
        let long = vec![7; 1_999];
        let taken = (0..6).filter(|&index| sender.offer(head(index), &[&long, &[9]])).count();
        assert!(!sender.offer(head(9), &[&long, &long]), "it is larger than was said");
        assert!(taken >= 4);
        for index in 0..taken as u64 {
            let block = receiver.take().unwrap();
            assert_eq!((block.head, block.bytes.len(), block.bytes[1_999]), (head(index), 2_000, 9));
        }
        assert_eq!(receiver.take(), None);
        sender.offer(head(77), &[]);
        assert_eq!(receiver.take(), Some(Block { head: head(77), bytes: &[] }));
        assert_eq!((receiver.traffic().sent(), receiver.traffic().dropped()), (taken as u64 + 1, 7 - taken as u64));
    }

    #[test]
    fn a_mailbox_has_the_latest_block() {
        let (mut sender, mut receiver) = blocks(Queue::Mailbox, &shape(11));
        for index in 0..3 {
            sender.offer(head(index), &[b"hello ", b"", b"world"]);
        }
        assert_eq!(receiver.take(), Some(Block { head: head(2), bytes: b"hello world" }));
        assert_eq!(receiver.take(), None);
        assert_eq!(receiver.traffic().dropped(), 2);
    }

    #[test]
    fn words_go_over_the_ends_of_pieces() {
        let bytes: Vec<u8> = (1..=40).collect();
        let whole: Vec<u64> = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        for cut in 0..=40 {
            for second in cut..=40 {
                let pieces = [&bytes[..cut], &bytes[cut..second], &bytes[second..]];
                assert_eq!(words(&pieces).collect::<Vec<_>>(), whole, "{cut} {second}");
            }
        }
        assert_eq!(words(&[&[1, 0, 0], &[0]]).collect::<Vec<_>>(), [u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(words(&[&[], &[]]).count(), 0);
    }
}
