//! The frames between hertzd and a program. docs/processes.md has their layout as tables. Pure; every byte that is received is checked.
//!
//! All numbers are little-endian, and integers that count nanoseconds are 64 bits wide. One message of the socket is one frame.

use crate::task::{Quality, Reason};

/// The version of the layout. This hertzd makes no frames of a higher version.
pub(super) const VERSION: u32 = 1;

const HELLO: u32 = 1;
const TICK: u32 = 2;
const ANSWER: u32 = 3;

/// Marks an age that does not exist.
const NO_AGE: i64 = i64::MIN;

/// Bytes of an answer before its values.
const ANSWER_HEAD: usize = 16;

/// Bytes of an answer with this many values.
pub(super) const fn answer_length(values: usize) -> usize {
    ANSWER_HEAD + 8 * values
}

/// The first frame to a program: what it will receive, and what it must answer.
pub(super) fn hello(frame: &mut Vec<u8>, task: &str, period_ns: i64, inputs: &[String], values: &[String]) {
    frame.clear();
    put_32(frame, HELLO);
    put_32(frame, VERSION);
    frame.extend(period_ns.to_le_bytes());
    put_32(frame, u32::try_from(inputs.len()).unwrap_or(u32::MAX));
    put_32(frame, u32::try_from(values.len()).unwrap_or(u32::MAX));
    for name in [task].into_iter().chain(inputs.iter().map(String::as_str)).chain(values.iter().map(String::as_str)) {
        frame.extend(name.bytes());
        frame.push(0);
    }
}

/// A tick, as the program sees it. Instants are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TickHead {
    pub(super) n: u64,
    pub(super) release: i64,
    pub(super) started: i64,
    pub(super) skipped: u64,
    /// When the tick ran, just after its start, on the monotonic clock.
    pub(super) monotonic: i64,
}

/// An input at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taken {
    pub(super) value: f64,
    /// Age of the oldest measurement behind it, in nanoseconds; `None` if there is none.
    pub(super) age: Option<i64>,
    pub(super) quality: Quality,
}

pub(super) fn tick(frame: &mut Vec<u8>, head: TickHead, inputs: impl Iterator<Item = Taken>) {
    frame.clear();
    put_32(frame, TICK);
    put_32(frame, 0);
    frame.extend(head.n.to_le_bytes());
    frame.extend(head.release.to_le_bytes());
    frame.extend(head.started.to_le_bytes());
    frame.extend(head.skipped.to_le_bytes());
    frame.extend(head.monotonic.to_le_bytes());
    for Taken { value, age, quality } in inputs {
        frame.extend(value.to_le_bytes());
        frame.extend(age.unwrap_or(NO_AGE).to_le_bytes());
        put_32(frame, quality_word(quality));
        put_32(frame, 0);
    }
}

fn put_32(frame: &mut Vec<u8>, word: u32) {
    frame.extend(word.to_le_bytes());
}

pub(super) const fn quality_word(quality: Quality) -> u32 {
    match quality {
        Quality::Good => 0,
        Quality::Bad(Reason::Stale) => 2,
        Quality::Bad(_) => 1,
        Quality::None => 3,
        Quality::Held => 4,
    }
}

pub(super) const fn quality_of(word: u32) -> Quality {
    match word {
        0 => Quality::Good,
        2 => Quality::Bad(Reason::Stale),
        3 => Quality::None,
        4 => Quality::Held,
        _ => Quality::Bad(Reason::Inherited),
    }
}

/// Copies the values of an answer into `values`, which must have as many slots. Returns the index of the tick that it answers.
///
/// # Errors
/// What is wrong with the frame; `values` is then unchanged.
pub(super) fn answer(frame: &[u8], values: &mut [f64]) -> Result<u64, &'static str> {
    let word = |at: usize| frame.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    match word(0) {
        None => return Err("a frame that is shorter than its first word"),
        Some(ANSWER) => {}
        Some(_) => return Err("a frame that is no answer: its first word is not 3"),
    }
    if frame.len() != answer_length(values.len()) {
        return Err("an answer of another length than 16 bytes and 8 for each value");
    }
    if word(4).is_none_or(|count| usize::try_from(count) != Ok(values.len())) {
        return Err("an answer with another number of values than the task has");
    }
    let n = frame[8..ANSWER_HEAD].try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
    for (value, bytes) in values.iter_mut().zip(frame[ANSWER_HEAD..].chunks_exact(8)) {
        *value = bytes.try_into().map_or(f64::NAN, f64::from_le_bytes);
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn an_answer(n: u64, values: &[f64]) -> Vec<u8> {
        let mut frame = Vec::new();
        put_32(&mut frame, ANSWER);
        put_32(&mut frame, u32::try_from(values.len()).unwrap());
        frame.extend(n.to_le_bytes());
        values.iter().for_each(|value| frame.extend(value.to_le_bytes()));
        frame
    }

    #[test]
    fn frames_are_laid_out_as_documented() {
        let mut frame = Vec::new();
        hello(&mut frame, "brain", 5_000_000, &["speed".into()], &["u".into(), "v".into()]);
        assert_eq!(frame[..16], [1, 0, 0, 0, 1, 0, 0, 0, 0x40, 0x4b, 0x4c, 0, 0, 0, 0, 0]);
        assert_eq!(frame[16..24], [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(&frame[24..], b"brain\0speed\0u\0v\0");
        let head = TickHead { n: 7, release: -1, started: 2, skipped: 3, monotonic: 4 };
        let good = Taken { value: 1.5, age: Some(9), quality: Quality::Good };
        let none = Taken { value: f64::NAN, age: None, quality: Quality::None };
        tick(&mut frame, head, [good, none].into_iter());
        assert_eq!(frame.len(), 48 + 2 * 24);
        let word = |at: usize| i64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
        assert_eq!([word(0), word(8), word(16), word(24), word(32), word(40)], [2, 7, -1, 2, 3, 4]);
        assert_eq!(
            [word(48).cast_unsigned(), 9, 0],
            [1.5_f64.to_bits(), word(56).cast_unsigned(), word(64).cast_unsigned()]
        );
        assert_eq!((word(80), word(88)), (NO_AGE, 3));
    }

    #[test]
    fn only_a_whole_answer_is_taken() {
        let mut values = [0.0; 2];
        assert_eq!(answer(&an_answer(9, &[1.0, -2.5]), &mut values), Ok(9));
        assert_eq!(values, [1.0, -2.5]);
        let good = an_answer(9, &[7.0, 7.0]);
        for length in 0..good.len() {
            assert!(answer(&good[..length], &mut values).is_err(), "{length}");
        }
        let longer = [&good[..], &[0]].concat();
        let mut miscounted = good.clone();
        miscounted[4] = 3;
        for wrong in [longer, miscounted, an_answer(9, &[1.0]), vec![0xff; 32], vec![0; 32]] {
            assert!(answer(&wrong, &mut values).is_err(), "{wrong:?}");
        }
        assert_eq!(values, [1.0, -2.5], "nothing wrong was taken");
    }
}
