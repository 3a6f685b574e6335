//! How much each queue between threads holds. What is full is counted by its sender, never waited for.
//!
//! Pure; numbers of the configuration are passed in. A few queues that only one kind of task has are beside it: changes of alarms in
//! `kinds/alarm`, what goes to a program and comes back in `kinds/process/crossing.rs`.

use super::Shape;

/// With tasks that join at a reload, a worker may tick faster than when its channel was made.
const FEWEST_RECORDS: usize = 1_024;

/// The most ticks between the metrics thread and the recorder: more than come while a disk hesitates for a second.
pub(crate) const TICKS_TO_RECORD: usize = 1 << 18;

/// Bytes that may wait for the disk at most on the way to the flight recorder's file.
pub(crate) const FLIGHT_BYTES: u64 = 1 << 20;

/// How many panics of a worker's tasks can wait for the metrics thread.
pub(crate) const PANICS: usize = 64;

/// Most words of a queue of rows, unless one row needs more: 256 MiB on 32 bits, where more cannot be allocated, and no limit on 64.
const MOST_WORDS: usize = isize::MAX.unsigned_abs() / 64;

/// Most bytes that one queue of blocks reserves, unless four blocks need more: they are locked in memory.
const LARGEST_QUEUE: usize = 64 << 20;

/// Most bytes of a block: 128 MiB on 32 bits, where four of them take an eighth of all addresses, and no limit on 64.
const LARGEST_BLOCK: usize = isize::MAX.unsigned_abs() / 16;

/// Records that a worker's channel should hold which ticks `hertz` times a second: half a second of them. With few ticks it stays small, so
/// that it stays in the processor's caches.
pub(crate) fn records(hertz: f64) -> usize {
    room(hertz, 0.5, FEWEST_RECORDS)
}

/// The same for these tasks in parts of records, and at least a tick of each task at once that missed something. `tasks`: how often each ticks in a
/// second, and whether it takes values; a tick usually has this many parts, and this many if it has missed something.
pub(crate) fn parts(tasks: impl Iterator<Item = (f64, bool)>, usually: usize, missing: usize) -> usize {
    // Where a task takes values a chain may end, and then its ticks have a part more.
    let parts = |(hertz, takes): (f64, bool)| if takes { (2, 2.0 * hertz) } else { (1, hertz) };
    let add = |(count, hertz), (parts, more): (usize, f64)| (count + parts, hertz + more);
    let (count, hertz) = tasks.map(parts).fold((0, 0.0), add);
    (usually * records(hertz)).max(missing * count)
}

/// Rows that the queue of a task's values should hold which ticks `hertz` times a second: 4 s of them.
pub(crate) fn rows(hertz: f64) -> usize {
    room(hertz, 4.0, 256)
}

/// The capacity of a ring that takes `hertz` items a second and is emptied many times a second: those of `seconds`, within
/// limits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn room(hertz: f64, seconds: f64, least: usize) -> usize {
    ((hertz * seconds) as usize).max(least).min(1 << 18)
}

/// Words for `room` rows of `words` words each: as many of them as [`MOST_WORDS`] has, and one at least.
pub(super) fn words_of_rows(room: usize, words: usize) -> usize {
    room.min(MOST_WORDS / words).max(1) * words
}

/// Bytes that a queue of blocks should hold, each with that many bytes before it: two seconds of the stream within [`LARGEST_QUEUE`], and four blocks at
/// least.
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
        // The largest room that a task has, with more values than any has: on 32 bits not all.
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
