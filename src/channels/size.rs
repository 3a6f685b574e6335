//! The sizes of the queues between threads. When a queue is full, its sender counts the loss and never waits.
//!
//! Pure functions; numbers from the configuration are arguments. Queues that only one kind of task has are defined with that kind: changes
//! of alarms in `kinds/alarm`, data to and from a program in `kinds/process/crossing.rs`.

use super::Shape;

/// The smallest channel. Tasks that join at a reload can make a worker tick faster than when its channel was made.
const FEWEST_RECORDS: usize = 1_024;

/// The most ticks between the metrics thread and the recorder: more than arrive while a disk stalls for a second.
pub(crate) const TICKS_TO_RECORD: usize = 1 << 18;

/// The most bytes that can wait for the disk on the way to the flight recorder's file.
pub(crate) const FLIGHT_BYTES: u64 = 1 << 20;

/// How many panics of a worker's tasks can wait for the metrics thread.
pub(crate) const PANICS: usize = 64;

/// The most words of a queue of rows, unless one row needs more. On 32 bits: 256 MiB, because more cannot be allocated. On 64 bits there is
/// no limit.
const MOST_WORDS: usize = isize::MAX.unsigned_abs() / 64;

/// The most bytes that a queue of blocks reserves, unless four blocks need more. They are locked in memory.
const LARGEST_QUEUE: usize = 64 << 20;

/// The most bytes of a block. On 32 bits: 128 MiB, because four of them take an eighth of all addresses. On 64 bits there is no limit.
const LARGEST_BLOCK: usize = isize::MAX.unsigned_abs() / 16;

/// Records that the channel of a worker with `hertz` ticks a second should hold: half a second of them. With few ticks it stays small
/// enough for the processor's caches.
pub(crate) fn records(hertz: f64) -> usize {
    room(hertz, 0.5, FEWEST_RECORDS)
}

/// The same in parts of records, for these tasks: room for half a second, and for at least one tick of every task that missed something,
/// all at once. `tasks`: ticks per second, and whether the task reads values. `usually` and `missing`: parts of an ordinary tick, and of a
/// tick that missed something.
pub(crate) fn parts(tasks: impl Iterator<Item = (f64, bool)>, usually: usize, missing: usize) -> usize {
    // A chain may end at a task that reads values; its ticks then have one more part.
    let parts = |(hertz, takes): (f64, bool)| if takes { (2, 2.0 * hertz) } else { (1, hertz) };
    let add = |(count, hertz), (parts, more): (usize, f64)| (count + parts, hertz + more);
    let (count, hertz) = tasks.map(parts).fold((0, 0.0), add);
    (usually * records(hertz)).max(missing * count)
}

/// Rows that the queue of a task with `hertz` ticks a second should hold: 4 s of them.
pub(crate) fn rows(hertz: f64) -> usize {
    room(hertz, 4.0, 256)
}

/// The capacity of a ring that receives `hertz` items a second and is emptied many times a second: the items of `seconds`, within limits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn room(hertz: f64, seconds: f64, least: usize) -> usize {
    ((hertz * seconds) as usize).max(least).min(1 << 18)
}

/// Words for `room` rows of `words` words each: as many whole rows as [`MOST_WORDS`] allows, but at least one.
pub(super) fn words_of_rows(room: usize, words: usize) -> usize {
    room.min(MOST_WORDS / words).max(1) * words
}

/// Bytes that a queue of blocks should hold, with `head` bytes before each block: two seconds of the stream within [`LARGEST_QUEUE`], but
/// at least four blocks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
pub(super) fn bytes_of_blocks(shape: &Shape, head: usize) -> usize {
    let worth = (shape.bytes_per_second * 2.0).clamp(4_096.0, LARGEST_QUEUE as f64) as usize;
    worth.max(4 * (largest_block(shape) + head))
}

/// The most bytes of a block in such a queue.
pub(super) fn largest_block(shape: &Shape) -> usize {
    shape.largest.min(LARGEST_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    #[test]
    fn a_queue_has_room_for_whole_rows_and_no_more_than_can_be_had() {
        assert_eq!((words_of_rows(0, 3), words_of_rows(1, 5), words_of_rows(7, 5)), (3, 5, 35));
        // The largest room of any task, with more values than any task has: on 32 bits not all of it.
        for (room, words) in [(1 << 18, 1 << 14), (usize::MAX, 5), (usize::MAX, MOST_WORDS), (2, usize::MAX)] {
            let all = words_of_rows(room, words);
            assert!(all.is_multiple_of(words) && (all <= MOST_WORDS || all == words), "{room} {words}: {all}");
            assert!(all == words || all > MOST_WORDS / 2 || all / words == room, "{room} {words}: {all}");
        }
    }

    #[test]
    fn a_queue_has_room_for_two_seconds_or_four_blocks_and_no_more_than_can_be_had() {
        const HEAD: usize = 32;
        let room = |largest, bytes_per_second| {
            bytes_of_blocks(&Shape { format: Format::Samples(Vec::new()), largest, bytes_per_second }, HEAD)
        };
        assert_eq!((room(0, 0.0), room(10, 1e6), room(10, f64::MAX)), (4_096, 2_000_000, LARGEST_QUEUE));
        assert_eq!(room(64 << 20, 1e9), (256 << 20) + 4 * HEAD);
        assert_eq!(room(usize::MAX, 1e9), 4 * (usize::MAX / 32 + HEAD));
    }
}
