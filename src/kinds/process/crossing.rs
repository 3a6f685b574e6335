//! The data that crosses between the task and its relay: a row per tick to the relay, answers back, and counts. After construction neither
//! side waits or allocates; no clock is read.

use super::frames::{Taken, TickHead, quality_of, quality_word};
use crate::channels::{Basis, Latest, Queue, Row, RowReceiver, RowSender, Traffic, rows};
use crate::task::{Quality, Tick};
use crate::time::{Instant, NANOS_PER_SECOND, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of ticks that a relay may lag behind: one second's worth, within these limits.
const LEAST_ROOM: i64 = 16;
const MOST_ROOM: i64 = 4_096;

/// Room for answers on their way. A tick has at most one answer, and each tick takes all.
const ANSWERS: usize = 8;

/// Numbers in a row before the inputs: skipped releases, and the start on the monotonic clock in seconds and nanoseconds.
const HEAD: usize = 3;

/// Numbers per input: its value, its age in nanoseconds or NaN, its quality.
const PER_INPUT: usize = 3;

/// State that both sides see.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The program must end for good.
    pub(super) stop: AtomicBool,
    program: AtomicU64, // a `ProgramState`, packed into one number so that it is consistent
    /// Answers that arrived after the next tick had begun, and that the relay kept back.
    pub(super) late: AtomicU64,
    /// Frames that did not answer a tick, and answers with an infinite value.
    pub(super) errors: AtomicU64,
    /// Ticks not sent to the running program, because it had not read enough or had closed its socket.
    pub(super) dropped: AtomicU64,
    counted: Latest<3>, // an `AnswerCounts`
}

/// The state of the program. Zero at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramState {
    /// How often it was started.
    pub(super) starts: u64,
    /// Whether it runs.
    pub(super) runs: bool,
    /// Whether its first start waits until the program of the replaced task has ended.
    pub(super) waits: bool,
}

/// The task's counts, as of its most recent tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerCounts {
    /// Number of earlier ticks.
    pub(super) asked: u64,
    /// How many of these were answered in time.
    pub(super) answered: u64,
    /// How many of these have no answer.
    pub(super) missing: u64,
}

impl Shared {
    /// Changes the state of the program. Only the relay may call this.
    pub(super) fn change_program(&self, change: impl FnOnce(&mut ProgramState)) {
        let mut program = self.program();
        change(&mut program);
        let ProgramState { starts, runs, waits } = program;
        self.program.store(starts << 2 | u64::from(waits) << 1 | u64::from(runs), Ordering::Relaxed);
    }

    /// The state of the program.
    pub(super) fn program(&self) -> ProgramState {
        let program = self.program.load(Ordering::Relaxed);
        ProgramState { starts: program >> 2, runs: program & 1 != 0, waits: program & 2 != 0 }
    }

    /// Publishes the task's counts. Only the task may call this.
    pub(super) fn show(&self, AnswerCounts { asked, answered, missing }: AnswerCounts) {
        self.counted.store([asked, answered, missing]);
    }

    /// The task's counts.
    pub(super) fn counted(&self) -> AnswerCounts {
        let [asked, answered, missing] = self.counted.read();
        AnswerCounts { asked, answered, missing }
    }

    /// Increments a counter.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The task's end.
#[derive(Debug)]
pub(super) struct HotEnds {
    rows: RowSender,
    row: Box<[f64]>,
    traffic: Arc<Traffic>,
    answers: RowReceiver,
    answer: Vec<f64>,
    pub(super) shared: Arc<Shared>,
}

/// The relay's end.
#[derive(Debug)]
pub(super) struct CoolEnds {
    rows: RowReceiver,
    row: Vec<f64>,
    answers: RowSender,
    pub(super) shared: Arc<Shared>,
}

/// Both ends, for a task with this period and this many inputs and values.
pub(super) fn crossing(period: Span, inputs: usize, values: usize) -> (HotEnds, CoolEnds) {
    let room = (NANOS_PER_SECOND / period.nanos().max(1)).clamp(LEAST_ROOM, MOST_ROOM);
    let numbers = HEAD + PER_INPUT * inputs;
    let (row_sender, row_receiver) = rows(Queue::Fifo, usize::try_from(room).unwrap_or(1), numbers);
    let (answer_sender, answer_receiver) = rows(Queue::Fifo, ANSWERS, values);
    let shared = Arc::new(Shared::default());
    let hot = HotEnds {
        rows: row_sender,
        traffic: row_receiver.traffic().clone(),
        row: vec![0.0; numbers].into(),
        answers: answer_receiver,
        answer: Vec::with_capacity(values),
        shared: shared.clone(),
    };
    (hot, CoolEnds { rows: row_receiver, row: Vec::with_capacity(numbers), answers: answer_sender, shared })
}

impl HotEnds {
    /// Takes the next answer: the index of the tick it answers, and its values.
    pub(super) fn take(&mut self) -> Option<(u64, &[f64])> {
        let n = self.answers.take(&mut self.answer)?.n;
        Some((n, &self.answer))
    }

    /// Passes on a tick that began at `now` on the monotonic clock. Without room it is dropped and counted.
    pub(super) fn push(&mut self, tick: &Tick, now: Instant, inputs: impl Iterator<Item = Taken>) {
        let whole = i128::from(NANOS_PER_SECOND);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a number below 2^53 each: seconds since boot, nanoseconds of one, releases"
        )]
        let head = [tick.skipped as f64, now.nanos().div_euclid(whole) as f64, now.nanos().rem_euclid(whole) as f64];
        #[expect(clippy::cast_precision_loss, reason = "an age of more than 104 days is rounded to two nanoseconds")]
        let input = |taken: Taken| {
            [taken.value, taken.age.map_or(f64::NAN, |age| age as f64), f64::from(quality_word(taken.quality))]
        };
        self.row[..HEAD].copy_from_slice(&head);
        for (numbers, taken) in self.row[HEAD..].chunks_exact_mut(PER_INPUT).zip(inputs) {
            numbers.copy_from_slice(&input(taken));
        }
        self.rows.offer(Row {
            n: tick.n,
            basis: Basis::Good,
            release: tick.release,
            lateness: tick.lateness,
            values: &self.row,
        });
    }

    /// Ticks that found no room on their way to the relay.
    pub(super) fn unsent(&self) -> u64 {
        self.traffic.dropped()
    }
}

impl CoolEnds {
    /// Takes the next tick and its inputs.
    pub(super) fn take(&mut self) -> Option<(TickHead, impl Iterator<Item = Taken> + '_)> {
        let Row { n, release, lateness, .. } = self.rows.take(&mut self.row)?;
        let nanos = |instant: Instant| i64::try_from(instant.nanos()).unwrap_or(i64::MAX);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they were whole numbers")]
        let (skipped, seconds, rest) = (self.row[0] as u64, self.row[1] as i64, self.row[2] as i64);
        let monotonic = seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(rest);
        let head = TickHead { n, release: nanos(release), started: nanos(release + lateness), skipped, monotonic };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they were whole numbers")]
        let input = |numbers: &[f64]| {
            let age = (!numbers[1].is_nan()).then_some(numbers[1] as i64);
            Taken { value: numbers[0], age, quality: quality_of(numbers[2] as u32) }
        };
        Some((head, self.row[HEAD..].chunks_exact(PER_INPUT).map(input)))
    }

    /// Passes on the answer to tick `n`.
    pub(super) fn answer(&mut self, n: u64, values: &[f64]) {
        self.answers.offer(Row { n, basis: Basis::Good, release: Instant::ZERO, lateness: Span::ZERO, values });
    }
}

/// The state of one input at a tick that began at `now`.
pub(super) fn taken(value: f64, quality: Quality, since: Option<Instant>, now: Instant) -> Taken {
    Taken { value, quality, age: since.map(|since| (now - since).nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_programs_state_changes_alone() {
        let shared = Shared::default();
        assert_eq!(shared.program(), ProgramState::default());
        shared.change_program(|program| program.waits = true);
        for starts in 1..=5 {
            shared.change_program(|program| (program.starts, program.runs) = (starts, true));
            assert_eq!(shared.program(), ProgramState { starts, runs: true, waits: true });
            shared.change_program(|program| program.runs = false);
            assert_eq!(shared.program(), ProgramState { starts, runs: false, waits: true });
        }
        shared.change_program(|program| program.waits = false);
        assert_eq!(shared.program(), ProgramState { starts: 5, runs: false, waits: false });
    }

    #[test]
    fn ticks_and_answers_cross_whole() {
        let (mut hot, mut cool) = crossing(Span::from_millis(5), 2, 1);
        assert!(cool.take().is_none() && hot.take().is_none());
        let tick = Tick {
            n: 7,
            release: Instant::from_nanos(1_763_900_000_123_456_789),
            started: Instant::from_nanos(1_763_900_000_123_456_800),
            lateness: Span::from_nanos(11),
            skipped: 3,
            credit: Span::ZERO,
            period: Span::from_millis(5),
        };
        let now = Instant::from_nanos(86_400_123_456_789);
        let inputs = [
            taken(1.5, Quality::Good, Some(Instant::from_nanos(86_400_123_456_000)), now),
            taken(f64::NAN, Quality::None, None, now),
        ];
        hot.push(&tick, now, inputs.into_iter());
        let (head, came) = cool.take().unwrap();
        let started = i64::try_from(tick.started.nanos()).unwrap();
        assert_eq!((head.n, head.skipped, head.started, head.release), (7, 3, started, started - 11));
        assert_eq!(head.monotonic, 86_400_123_456_789);
        let came: Vec<_> = came.collect();
        assert_eq!(came[0], inputs[0]);
        assert!(came[0].age == Some(789) && came[1].value.is_nan());
        assert_eq!((came[1].quality, came[1].age), (Quality::None, None));
        cool.answer(7, &[2.5]);
        assert_eq!(hot.take(), Some((7, &[2.5][..])));
        (0..300).for_each(|_| hot.push(&tick, now, inputs.into_iter()));
        assert_eq!(hot.unsent(), 100, "a second has 200 ticks");
    }
}
