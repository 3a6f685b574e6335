//! Counts the ticks of the last ten seconds that a program did not answer in time, and decides when they are too many and when that is
//! over. Arithmetic only: `now` and the counts are arguments.

use crate::time::{Instant, NANOS_PER_SECOND, Span};

/// The length of the window in seconds, the same as for missed releases of a task.
const SECONDS: usize = 10;

/// How long a program may take from its start to its first answer. After that, unanswered ticks count.
const FIRST_ANSWER: Span = Span::from_seconds(2);

/// The shortest observation that is judged.
const LEAST: Span = Span::from_seconds(1);

/// The shortest time between two reports of too many unanswered ticks.
const SAY_EVERY: Span = Span::from_seconds(10);

/// Ticks whose successor has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) all: u64,
    /// How many of these have no answer in time.
    pub(super) unanswered: u64,
}

/// An entry for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    TooMany,
    Over,
}

/// The account of one program.
#[derive(Debug)]
pub(super) struct Tardiness {
    most: f64, // share of ticks that may stay unanswered
    began: Instant,
    counts_since: Option<Instant>, // `None`: waiting for its first answer
    before: (u64, u64),            // asked, answered
    seconds: [Ticks; SECONDS],     // a ring, by second modulo its length
    second: i128,
    is_said: bool, // too many was reported, but not yet that it is over
    said: Option<Instant>,
}

impl Tardiness {
    /// An account that tolerates this share of ticks without an answer in time.
    pub(super) fn new(most: f64, now: Instant) -> Self {
        let seconds = [Ticks::default(); SECONDS];
        Self { most, began: now, counts_since: None, before: (0, 0), seconds, second: 0, is_said: false, said: None }
    }

    /// A program has begun. It is not blamed for its predecessor: `asked` and `answered` are the totals so far.
    pub(super) fn begin(&mut self, now: Instant, asked: u64, answered: u64) {
        (self.began, self.counts_since, self.before) = (now, None, (asked, answered));
        self.seconds.fill(Ticks::default());
        self.is_said = false;
    }

    /// Takes the totals of ticks asked and answered so far. Must be called at least once a second.
    pub(super) fn look(&mut self, now: Instant, asked: u64, answered: u64) -> Option<Said> {
        let before = std::mem::replace(&mut self.before, (asked, answered));
        let (all, good) = (asked.saturating_sub(before.0), answered.saturating_sub(before.1));
        self.turn_to(now);
        let Some(since) = self.counts_since else {
            let begins = good > 0 || now - self.began >= FIRST_ANSWER;
            self.counts_since = begins.then_some(now);
            return None;
        };
        let second = &mut self.seconds[place(self.second)];
        second.all += all;
        second.unanswered += all.saturating_sub(good);
        if now - since < LEAST {
            return None;
        }
        let too_many = self.too_many().is_some();
        if too_many && self.said.is_none_or(|said| now - said >= SAY_EVERY) {
            (self.is_said, self.said) = (true, Some(now));
            return Some(Said::TooMany);
        }
        (!too_many && std::mem::take(&mut self.is_said)).then_some(Said::Over)
    }

    /// Clears the seconds that have left the window.
    fn turn_to(&mut self, now: Instant) {
        let second = now.nanos().div_euclid(i128::from(NANOS_PER_SECOND));
        let passed = usize::try_from(second - self.second).unwrap_or(SECONDS).min(SECONDS);
        (0_i128..).take(passed).for_each(|back| self.seconds[place(second - back)] = Ticks::default());
        self.second = second;
    }

    /// The ticks of the last seconds.
    pub(super) fn lately(&self) -> Ticks {
        self.seconds.iter().fold(Ticks::default(), |sum, second| Ticks {
            all: sum.all + second.all,
            unanswered: sum.unanswered + second.unanswered,
        })
    }

    /// The same, if the share of ticks without an answer in time is too high.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more")]
    pub(super) fn too_many(&self) -> Option<Ticks> {
        Some(self.lately()).filter(|ticks| ticks.unanswered as f64 > ticks.all as f64 * self.most)
    }
}

fn place(second: i128) -> usize {
    usize::try_from(second.rem_euclid(SECONDS as i128)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// Looks every 20 ms at a task of 100 Hz from `from` to `to`, in milliseconds. Every `answers`-th tick is answered. Returns the reports
    /// and their times.
    fn looks(
        account: &mut Tardiness,
        (from, to): (i64, i64),
        counts: &mut (u64, u64),
        answers: u64,
    ) -> Vec<(i64, Said)> {
        let mut all = Vec::new();
        for millis in (from..to).step_by(20) {
            for _ in 0..2 {
                counts.0 += 1;
                counts.1 += u64::from(answers > 0 && counts.0.is_multiple_of(answers));
            }
            all.extend(account.look(at(millis), counts.0, counts.1).map(|said| (millis, said)));
        }
        all
    }

    #[test]
    fn one_that_is_in_time_is_not_spoken_of_and_may_begin_slowly() {
        let (mut account, mut counts) = (Tardiness::new(0.01, at(0)), (0, 0));
        account.begin(at(0), 0, 0);
        assert_eq!(looks(&mut account, (0, 1_900), &mut counts, 0), []);
        assert_eq!(looks(&mut account, (1_900, 60_000), &mut counts, 1), []);
        assert_eq!((account.too_many(), account.lately().unanswered), (None, 0));
    }

    #[test]
    fn what_goes_without_an_answer_is_said_now_and_then_and_when_it_is_over() {
        let (mut account, mut counts) = (Tardiness::new(0.01, at(0)), (0, 0));
        account.begin(at(0), 0, 0);
        let said = looks(&mut account, (0, 25_000), &mut counts, 0);
        assert_eq!(said, [(3_000, Said::TooMany), (13_000, Said::TooMany), (23_000, Said::TooMany)], "never an answer");
        let Ticks { all, unanswered } = account.too_many().unwrap();
        assert!(all == unanswered && (900..=1_000).contains(&all), "{all}");
        let said = looks(&mut account, (25_000, 60_000), &mut counts, 1);
        assert!(matches!(said[..], [(33_000, Said::TooMany), (34_000..=35_000, Said::Over)]), "{said:?}");
        assert_eq!(account.lately(), Ticks { all: account.lately().all, unanswered: 0 });
    }

    #[test]
    fn the_next_program_begins_anew() {
        let (mut account, mut counts) = (Tardiness::new(0.5, at(0)), (0, 0));
        account.begin(at(0), 0, 0);
        assert_eq!(looks(&mut account, (0, 4_000), &mut counts, 0).len(), 1);
        counts.0 += 1_000; // while no program ran
        account.begin(at(14_000), counts.0, counts.1);
        assert_eq!((account.too_many(), account.lately()), (None, Ticks::default()));
        assert_eq!(looks(&mut account, (14_000, 40_000), &mut counts, 2), [], "half of them are enough");
    }
}
