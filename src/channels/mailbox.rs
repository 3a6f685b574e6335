//! A mailbox for the newest item, as 64-bit words. A new item replaces one that was not taken, and neither side waits.
//!
//! It is a triple buffer: the writer owns one copy, the reader owns one, and the third lies between them and is exchanged in one atomic
//! step. A side fills its own copy with relaxed stores, and the exchange publishes them.

use crate::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// Bit of the exchange byte: the copy in between has not been taken.
const FRESH: u8 = 4;

#[derive(Debug)]
struct Shared {
    copies: [Copy; 3],
    between: AtomicU8, // index of the copy in between, and FRESH
}

#[derive(Debug)]
struct Copy {
    words: Box<[AtomicU64]>,
    length: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct Sender {
    shared: Arc<Shared>,
    mine: u8,
}

#[derive(Debug)]
pub(super) struct Receiver {
    shared: Arc<Shared>,
    mine: u8,
}

/// A mailbox for up to `room` words at a time.
pub(super) fn mailbox(room: usize) -> (Sender, Receiver) {
    let words = || (0..room).map(|_| AtomicU64::new(0)).collect();
    let copies = [(); 3].map(|()| Copy { words: words(), length: AtomicUsize::new(0) });
    let shared = Arc::new(Shared { copies, between: AtomicU8::new(1) });
    (Sender { shared: shared.clone(), mine: 0 }, Receiver { shared, mine: 2 })
}

impl Sender {
    /// Replaces the item in the mailbox with these words, truncated to its room. Returns whether the old item was lost before it was taken.
    pub(super) fn post(&mut self, words: impl Iterator<Item = u64>) -> bool {
        let copy = &self.shared.copies[usize::from(self.mine)];
        let mut length = 0;
        for (stored, word) in copy.words.iter().zip(words) {
            stored.store(word, Ordering::Relaxed);
            length += 1;
        }
        copy.length.store(length, Ordering::Relaxed);
        let old = self.shared.between.swap(self.mine | FRESH, Ordering::AcqRel);
        self.mine = old & !FRESH;
        old & FRESH != 0
    }
}

impl Receiver {
    /// Takes the item, unless it was already taken.
    pub(super) fn take(&mut self) -> Option<impl Iterator<Item = u64>> {
        if self.shared.between.load(Ordering::Relaxed) & FRESH == 0 {
            return None;
        }
        self.mine = self.shared.between.swap(self.mine, Ordering::AcqRel) & !FRESH;
        let copy = &self.shared.copies[usize::from(self.mine)];
        let length = copy.length.load(Ordering::Relaxed);
        Some(copy.words[..length].iter().map(|word| word.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_whole_and_never_older() {
        exchange(200_000);
    }

    #[test]
    #[ignore = "takes minutes; by hand: cargo test --release --lib mailbox -- --ignored"]
    fn what_is_taken_is_whole_and_never_older_in_a_billion_exchanges() {
        exchange(1_000_000_000);
    }

    fn exchange(posts: u64) {
        let (mut sender, mut receiver) = mailbox(5);
        let writer = std::thread::spawn(move || {
            (1..=posts).filter(|&n| sender.post(std::iter::repeat_n(n, usize::try_from(n % 5 + 1).unwrap()))).count()
        });
        let (mut last, mut taken) = (0, 0);
        while last < posts {
            let Some(words) = receiver.take() else { continue };
            let (mut first, mut count) = (None, 0);
            for word in words {
                assert_eq!(*first.get_or_insert(word), word, "all are of one post");
                count += 1;
            }
            let first = first.unwrap();
            assert_eq!(count, first % 5 + 1);
            assert!(first > last);
            (last, taken) = (first, taken + 1);
        }
        let replaced = writer.join().unwrap() as u64;
        assert_eq!(taken + replaced, posts);
    }
}
