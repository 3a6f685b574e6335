//! A priority queue ordered by instants that costs next to nothing when entries mostly arrive in order.
//!
//! Tasks of one rate overtake each other only after a delay. So an entry that sorts after the last one of a plain sequence is appended
//! there. If only the last one is in the way, it moves to a heap and the entry takes its place. All other entries go into the heap. An
//! operation is constant-time in the best case and log(tasks) in the worst. Time is an argument; nothing blocks, and nothing allocates
//! after construction.

use crate::time::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// An instant, a tie-breaker, and the position of a task. Among otherwise equal entries, the task declared first wins.
pub(super) type Entry<Tie> = (Instant, Tie, usize);

/// Entries, sorted: the least comes first.
#[derive(Clone, Debug)]
pub(super) struct Queue<Tie> {
    sequence: VecDeque<Entry<Tie>>, // ascending
    others: BinaryHeap<Reverse<Entry<Tie>>>,
}

impl<Tie: Copy + Ord> Queue<Tie> {
    /// With room for `entries` entries, in any order.
    pub(super) fn with_room_for(entries: usize) -> Self {
        Self { sequence: VecDeque::with_capacity(entries), others: BinaryHeap::with_capacity(entries) }
    }

    pub(super) fn push(&mut self, entry: Entry<Tie>) {
        let after = |last: Option<&Entry<Tie>>| last.is_some_and(|last| *last > entry);
        if after(self.sequence.back()) {
            let before_last = self.sequence.len().checked_sub(2).and_then(|index| self.sequence.get(index));
            if after(before_last) {
                self.others.push(Reverse(entry));
                return;
            }
            // Only the last one is in the way. A task due long after all others would otherwise keep them out of the sequence.
            self.others.extend(self.sequence.pop_back().map(Reverse));
        }
        self.sequence.push_back(entry);
    }

    /// The least entry.
    pub(super) fn first(&self) -> Option<Entry<Tie>> {
        match (self.sequence.front(), self.others.peek()) {
            (Some(&first), Some(&Reverse(other))) => Some(first.min(other)),
            (first, other) => first.copied().or(other.map(|&Reverse(other)| other)),
        }
    }

    /// A guess, in constant time, at the task that comes out after `others` more entries. It is exact only if entries arrived in order.
    pub(super) fn peek(&self, others: usize) -> Option<usize> {
        self.sequence.get(others).map(|(.., task)| *task)
    }

    /// Removes the least entry.
    #[inline] // otherwise a tick takes 60 instructions more
    pub(super) fn pop(&mut self) -> Option<Entry<Tie>> {
        match (self.sequence.front(), self.others.peek()) {
            (Some(first), Some(Reverse(other))) if other < first => self.pop_other(),
            (None, _) => self.pop_other(),
            _ => self.sequence.pop_front(),
        }
    }

    fn pop_other(&mut self) -> Option<Entry<Tie>> {
        self.others.pop().map(|Reverse(other)| other)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sequence.is_empty() && self.others.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.sequence.clear();
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_list(steps in prop::collection::vec(prop::option::of((0..40_i128, 0..3_u64, 0..9_usize)), 0..200)) {
            let mut queue = Queue::with_room_for(200);
            let room = (queue.sequence.capacity(), queue.others.capacity());
            let mut sorted = Vec::new();
            for step in steps {
                match step {
                    Some((nanos, tie, task)) => {
                        queue.push((Instant::from_nanos(nanos), tie, task));
                        sorted.push((Instant::from_nanos(nanos), tie, task));
                        sorted.sort_unstable();
                    }
                    None => {
                        let least = (!sorted.is_empty()).then(|| sorted.remove(0));
                        prop_assert_eq!(queue.pop(), least);
                    }
                }
                prop_assert_eq!(queue.first(), sorted.first().copied());
                prop_assert_eq!(queue.is_empty(), sorted.is_empty());
                if queue.others.is_empty() {
                    let peeked: Vec<_> = (0..).map_while(|others| queue.peek(others)).collect();
                    prop_assert_eq!(peeked, sorted.iter().map(|(.., task)| *task).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!((queue.sequence.capacity(), queue.others.capacity()), room, "it has not grown");
        }
    }
}
